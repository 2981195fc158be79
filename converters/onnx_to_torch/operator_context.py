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


class Op(NodeReader[Value, Part]):
    """One node. An operator's function reads it through the methods here and of NodeReader, and returns an expression
    for each output."""

    sequence_type = TensorSequence
    takes_negative_pads = True
    wanted, sequence_fix = "one tensor", "check the model"

    def __init__(self, node: Node, inputs: Sequence[Value | None], page: Page) -> None:
        super().__init__(node, inputs)
        self.page = page

    # Inputs

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
