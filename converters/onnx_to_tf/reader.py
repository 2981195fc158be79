"""What an operator's function is given: a reader that notes what was read of a node.

Every attribute, input and output that a node has must be read or claimed; the driver refuses the node by the name of
whatever is left over. So an attribute that a lowering does not handle cannot be ignored by oversight: it would have
to be named to be ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NoReturn, TypeAlias

from ...models.errors import Refused
from ...models.signature import Array
from .graph import Graph, Node, attribute_value, graph_of, tensor_array
from .kernels import Kernels
from .sequence import TensorSequence
from .values import Layout, Size, TfTensor, Value, computed, known, sizes
from .weights import Weights

Branch: TypeAlias = Callable[[Graph, Sequence[Value]], list[Value]]
_MISSING: Any = object()
OTHER_ROUTE = "try the other exporter or the route through onnx2tf, or write that part of the model in other operators"


class Op:
    """One node with its inputs. Operators read it through the methods below and through nothing else."""

    def __init__(
        self, node: Node, inputs: Sequence[Value | None], weights: Weights, kernels: Kernels, branch: Branch
    ) -> None:
        self.node = node
        self.branch = branch  # runs a graph that lies inside the node
        self.weights = weights
        self.kernels = kernels
        self.outputs = len(node.outputs)
        self._inputs = inputs
        self._attributes_read: set[str] = set()
        self._inputs_read: set[int] = set()

    def over(self, *inputs: Value | None) -> Op:
        """This node, as a function of another operator reads it that is part of what this one does: with other inputs,
        and with attributes of the same names. What that function reads of them is read."""
        inner = copy(self)
        inner._inputs, inner._inputs_read = inputs, set()
        return inner

    # Inputs

    def value(self, at: int) -> Value:
        """An input that must be there."""
        found = self.optional(at)
        if found is None:
            self.refuse(f"its input {at} is not given", fix="check the model with onnx.checker")
        return found

    def optional(self, at: int) -> Value | None:
        """An input, or None where the model leaves it out. A tensor: a sequence of them is refused."""
        found = self.anything(at)
        if isinstance(found, TensorSequence):
            self.refuse(f"its input {at} is a sequence of tensors, and it takes a tensor")
        return found

    def anything(self, at: int) -> Value | None:
        """An input that may be a sequence of tensors, or None where the model leaves it out."""
        self._inputs_read.add(at)
        return self._inputs[at] if at < len(self._inputs) else None

    def sequence(self, at: int) -> TensorSequence:
        """An input that must be a sequence of tensors."""
        found = self.anything(at)
        if not isinstance(found, TensorSequence):
            self.refuse(f"its input {at} is no sequence of tensors", fix="check the model with onnx.checker")
        return found

    def values(self, start: int = 0) -> list[Value]:
        """All inputs from `start` on, of an operator that takes any number."""
        return [self.value(at) for at in range(start, len(self._inputs))]

    def everything(self, start: int = 0) -> list[Value]:
        """As `values`, sequences of tensors among them."""
        return [self.anything(at) or self.value(at) for at in range(start, len(self._inputs))]

    def tensor(self, at: int, layout: Layout = Layout.LOGICAL) -> TfTensor:
        """An input as a tensor in a layout."""
        return self.value(at).tensor(layout)

    def array(self, at: int, what: str) -> Array:
        """An input that has to be known while lowering; `what` names it to the user."""
        found = self.value(at).array
        if found is None:
            self.refuse(f"its {what} is computed by the model", fix=f"make the {what} a constant of the model")
        return found

    def optional_array(self, at: int, what: str) -> Array | None:
        """As `array`, or None where the model leaves the input out."""
        return None if self.optional(at) is None else self.array(at, what)

    def integers(self, at: int, what: str) -> tuple[int, ...]:
        """A known vector or scalar of integers."""
        return tuple(int(each) for each in self.array(at, what).reshape(-1))

    def sizes(self, at: int, what: str) -> tuple[Size, ...]:
        """A vector or scalar of sizes, each an int or an int32 scalar tensor."""
        found = self.value(at).size_parts()
        if found is None:
            self.refuse(f"the length of its {what} is not known", fix=f"make the {what} a vector of known length")
        return found

    # Attributes

    def integer(self, name: str, default: int = _MISSING) -> int:
        """An integer attribute."""
        return int(self._attribute(name, default))

    def flag(self, name: str, default: bool = False) -> bool:
        """An integer attribute that stands for yes or no."""
        return bool(self._attribute(name, default))

    def real(self, name: str, default: float = _MISSING) -> float:
        """A float attribute."""
        return float(self._attribute(name, default))

    def ints(self, name: str, default: Sequence[int] = _MISSING) -> list[int]:
        """A list of integers."""
        return [int(each) for each in self._attribute(name, default)]

    def floats(self, name: str, default: Sequence[float] = _MISSING) -> list[float]:
        """A list of floats."""
        return [float(each) for each in self._attribute(name, default)]

    def strings(self, name: str, default: Sequence[str] = _MISSING) -> list[str]:
        """A list of words."""
        return [str(each) for each in self._attribute(name, default)]

    def text(self, name: str) -> str:
        """A string attribute that must be given."""
        return str(self._attribute(name, _MISSING))

    def word(self, name: str, default: str, allowed: Sequence[str]) -> str:
        """A string attribute; a value that is not in `allowed` is refused."""
        found = str(self._attribute(name, default))
        if found not in allowed:
            self.refuse(f"its attribute {name} is {found!r}, and only {', '.join(allowed)} can be carried")
        return found

    def tensor_attribute(self, name: str) -> Array:
        """A tensor attribute."""
        return tensor_array(self._attribute(name, _MISSING))

    def graph(self, name: str) -> Graph:
        """A graph inside the node."""
        return graph_of(self._attribute(name, _MISSING), self.node.opsets, self.node.origin)

    def has(self, name: str) -> bool:
        """Whether an attribute is given. Asking is not reading."""
        return name in self.node.attributes

    def ignore(self, *names: str, because: str) -> None:
        """Attributes that cannot change the answer, and why."""
        del because  # it stays in the code, for who reads it
        self._attributes_read.update(names)

    def ignore_input(self, at: int, because: str) -> None:
        """An input that cannot change the answer, and why."""
        del because  # it stays in the code, for who reads it
        self._inputs_read.add(at)

    def wants(self, at: int) -> bool:
        """Whether somebody reads the output."""
        return at < self.outputs and bool(self.node.outputs[at])

    def _attribute(self, name: str, default: Any) -> Any:
        self._attributes_read.add(name)
        if name in self.node.attributes:
            return attribute_value(self.node.attributes[name])
        if default is _MISSING:
            self.refuse(f"its attribute {name} is not given", fix="check the model with onnx.checker")
        return default

    # Answers

    def known(self, array: Array) -> Value:
        """An answer that is known while lowering."""
        return known(array, self.weights)

    def sized(self, parts: Sequence[Size], *, scalar: bool = False, dtype: str = "int64") -> Value:
        """An answer that is a vector of sizes, or a single one."""
        return sizes(parts, self.weights, scalar=scalar, dtype=dtype)

    def computed(self, tensor: TfTensor, layout: Layout = Layout.LOGICAL) -> Value:
        """An answer that TensorFlow computes."""
        return computed(tensor, layout)

    def refuse(self, what: str, *, fix: str = OTHER_ROUTE) -> NoReturn:
        """End the conversion with the node's name and origin."""
        raise Refused(f"{self.node}: {what}", fix=fix)

    def check_all_read(self, answers: Sequence[Value | None]) -> None:
        """Refuse what was given or asked for, and was neither read nor made."""
        for name in self.node.attributes:
            if name not in self._attributes_read:
                self.refuse(f"its attribute {name} is not carried")
        for at, value in enumerate(self._inputs):
            if value is not None and at not in self._inputs_read:
                self.refuse(f"its optional input {at} is not carried")
        for at in range(self.outputs):
            if self.wants(at) and (at >= len(answers) or answers[at] is None):
                self.refuse(f"its optional output {at} is not carried")
