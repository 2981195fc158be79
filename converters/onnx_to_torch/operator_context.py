"""What an operator's function is given: a node with its inputs, and the page to write on."""

from __future__ import annotations

from collections.abc import Sequence

from ...models.signature import Array
from ..onnx_graph.graph import Node
from ..onnx_graph.node_reader import NodeReader
from .common.tensor_sequence import GrownSequence, TensorSequence
from .module_writer import Page
from .safe_names import number
from .values import Part, Parts, Value, known, of_sizes


class Op(NodeReader):
    """One node. An operator's function reads it through the methods here and of NodeReader, and returns an expression
    for each output."""

    def __init__(self, node: Node, inputs: Sequence[Value | None], page: Page) -> None:
        super().__init__(node, inputs)
        self.page = page

    # Inputs

    def value(self, at: int) -> Value:
        """An input that must be there."""
        found = self.optional(at)
        if found is None:
            self.refuse(f"its input {at} is not given", fix="check the model with onnx.checker")
        return found

    def optional(self, at: int) -> Value | None:
        """A tensor that may be left out."""
        found = self.anything(at)
        if isinstance(found, TensorSequence):
            self.refuse(f"its input {at} is a sequence of tensors, and it takes one tensor", fix="check the model")
        return found

    def anything(self, at: int) -> Value | None:
        """A tensor or a sequence, or None where the model leaves it out."""
        self._inputs_read.add(at)
        found: Value | None = self._inputs[at] if at < len(self._inputs) else None
        return found

    def sequence(self, at: int) -> TensorSequence:
        """An input that must be a sequence of known length."""
        found = self.any_sequence(at)
        if isinstance(found, GrownSequence):
            self.refuse(
                "its sequence is what a loop appended, and its length is known only when the model runs",
                fix="stack that sequence, and take its parts from the tensor",
            )
        return found

    def any_sequence(self, at: int) -> TensorSequence:
        """An input that must be a sequence."""
        found = self.anything(at)
        if not isinstance(found, TensorSequence):
            self.refuse(f"its input {at} is no sequence of tensors", fix="check the model with onnx.checker")
        return found

    def everything(self, start: int = 0) -> list[Value]:
        """All inputs from `start` on, tensors and sequences."""
        found = [self.anything(at) for at in range(start, len(self._inputs))]
        return [self.value(start + at) if each is None else each for at, each in enumerate(found)]

    def values(self, start: int = 0) -> list[Value]:
        """All inputs from `start` on, of an operator that takes any number."""
        return [self.value(at) for at in range(start, len(self._inputs))]

    def given(self, at: int) -> bool:
        """Whether an input is there. Asking is not reading."""
        return at < len(self._inputs) and self._inputs[at] is not None

    def array(self, at: int, what: str) -> Array:
        """An input that has to be known while the module is written; `what` names it to the user."""
        found = self.value(at).array
        if found is None:
            self.refuse(f"its {what} is computed by the model", fix=f"make the {what} a constant of the model")
        return found

    def integers(self, at: int, what: str) -> tuple[int, ...]:
        """A known vector or scalar of integers."""
        return tuple(int(each) for each in self.array(at, what).reshape(-1))

    def sizes(self, at: int, what: str) -> tuple[Part, ...]:
        """A vector or scalar of whole numbers. Those in a computed tensor are read from it when the module runs."""
        value = self.value(at)
        found = value.size_parts()
        if found is not None:
            return found
        count = 1 if not value.rank else value.shape[0]
        if value.rank > 1 or count is None:
            self.refuse(f"the length of its {what} is not known", fix=f"make the {what} a vector of known length")
        if not value.rank:
            return (self.page.number(f"{value}.item()", what),)
        parts = value.some_parts or [None] * count
        return tuple(
            self.page.number(f"{value}[{place}].item()", what) if part is None else part
            for place, part in enumerate(parts)
        )

    def axis(self, name: str, default: int | None = None, *, rank: int) -> int:
        """An attribute that names one of `rank` axes, counted from the first."""
        found = self.integer(name) if default is None else self.integer(name, default)
        return self.placed(found, rank)

    def placed(self, axis: int, rank: int) -> int:
        """An axis of `rank` axes, counted from the first."""
        if not -rank <= axis < max(rank, 1):
            self.refuse(f"its axis {axis} is none of {rank} axes", fix="check the model with onnx.checker")
        return axis % max(rank, 1)

    def literal(self, name: str, default: float, dtype: str) -> str:
        """A float attribute as a Python literal, to be computed with in `dtype`."""
        return number(self.real(name, default), dtype)

    def bound(self, at: int) -> str | None:
        """A scalar input as a literal or as a tensor, or None where the model leaves it out."""
        value = self.optional(at)
        return None if value is None else value.scalar or f"{value}"

    # Answers

    def let(self, code: str, name: str = "") -> Value:
        """A variable for a part of the answer."""
        return self.page.let(code, name or self.node.op_type)

    def unpack(self, code: str, count: int) -> list[Value]:
        """A variable for each of the tensors that an expression makes, called after the outputs."""
        names = [self.node.outputs[at] if self.wants(at) else "_unused" for at in range(count)]
        return self.page.unpack(code, names)

    def known(self, array: Array) -> Value:
        """An answer that is known while the module is written."""
        return known(self.page, array)

    def sized(self, parts: Sequence[Part] | Parts, dtype: str = "int64") -> Value:
        """An answer that is a vector of sizes, or an array of them in another shape."""
        return of_sizes(self.page, parts, dtype)
