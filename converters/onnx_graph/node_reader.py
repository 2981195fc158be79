"""A node as an operator's function reads it: what was read is noted.

Every attribute, input and output that a node has must be read or claimed; the driver refuses the node by the name of
whatever is left over. So an attribute that a lowering does not handle cannot be ignored by oversight: it would have
to be named to be ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from ...models.errors import Refused
from ...models.signature import Array
from .graph import Graph, Node, attribute_value, graph_of, tensor_array

_MISSING: Any = object()


class NodeReader:
    """One node. What its inputs are, the class over this one says."""

    other_route = "write that part of the model in other operators"

    def __init__(self, node: Node, inputs: Sequence[Any]) -> None:
        self.node = node
        self.outputs = len(node.outputs)
        self._inputs = inputs
        self._attributes_read: set[str] = set()
        self._inputs_read: set[int] = set()

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

    def refuse(self, what: str, *, fix: str = "") -> NoReturn:
        """End the conversion with the node's name and origin."""
        raise Refused(f"{self.node}: {what}", fix=fix or self.other_route)

    def check_all_read(self, answers: Sequence[Any]) -> None:
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
