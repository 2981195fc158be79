"""A node as an operator function reads it. Whatever the function reads is noted.

Every attribute, input and output of a node must be read or ignored by name: the driver refuses the node for whatever
is left over. So a back-end cannot overlook an attribute that it does not handle.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar

import numpy as np

from ...models.errors import Refused
from ...models.signature import Array
from .graph import Graph, GraphValue, Node, attribute_value, graph_of, schema_of, tensor_array, type_variable
from .lazy_onnx import onnx

_CHECK = "check the model with onnx.checker"
_MISSING: Any = object()

V = TypeVar("V", bound=GraphValue)
S = TypeVar("S")  # a size: an int, or whatever the back-end computes sizes with


@cache
def attribute_defaults(op_type: str, version: int, domain: str) -> Mapping[str, Any]:
    """Return the attribute defaults of one wording of an operator; empty for operators that onnx does not define.

    Floats are the shortest decimal numbers with the same float32, as the text of the specification has them.
    """
    schema = schema_of(op_type, version, domain)
    defaults = {name: attribute.default_value for name, attribute in schema.attributes.items()} if schema else {}
    values = {name: attribute_value(default) for name, default in defaults.items() if default.name}
    return {name: float(str(np.float32(it))) if isinstance(it, float) else it for name, it in values.items()}


class NodeReader(ABC, Generic[V, S]):
    """One node and its inputs. A back-end derives the context of its operator functions from it."""

    other_route = "write that part of the model in other operators"
    sequence_type: ClassVar[type]  # the back-end's value for a sequence of tensors
    wanted, sequence_fix = "a tensor", ""  # the words of the refusal of one
    takes_negative_pads: ClassVar[bool] = False  # whether windows may cut
    reads_computed_axes: ClassVar[bool] = False  # whether the axes of Pad may be computed by the model

    def __init__(self, node: Node, inputs: Sequence[V | None]) -> None:
        self.node = node
        self.op_type, self.version, self.domain = node.op_type, node.version, node.domain  # the wording to read by
        self.outputs = len(node.outputs)
        self._inputs = inputs
        self._attributes_read: set[str] = set()
        self._inputs_read: set[int] = set()

    def read_as(self, op_type: str, version: int) -> Self:
        """Return this node as a function of the standard operator `op_type` reads it: with that wording's defaults."""
        reader = copy(self)
        reader.op_type, reader.version, reader.domain = op_type, version, ""
        return reader

    # Attributes. The specification's own default comes first; `default` is for wordings and domains without one.

    def integer(self, name: str, default: int = _MISSING) -> int:
        """Return an integer attribute."""
        return int(self._attribute(name, default))

    def flag(self, name: str, default: bool = False) -> bool:
        """Return an integer attribute that stands for yes or no."""
        return bool(self._attribute(name, default))

    def real(self, name: str, default: float = _MISSING) -> float:
        """Return a float attribute."""
        return float(self._attribute(name, default))

    def ints(self, name: str, default: Sequence[int] = _MISSING) -> list[int]:
        """Return a list of integers."""
        return [int(number) for number in self._attribute(name, default)]

    def floats(self, name: str, default: Sequence[float] = _MISSING) -> list[float]:
        """Return a list of floats."""
        return [float(number) for number in self._attribute(name, default)]

    def strings(self, name: str, default: Sequence[str] = _MISSING) -> list[str]:
        """Return a list of words."""
        return [str(text) for text in self._attribute(name, default)]

    def text(self, name: str) -> str:
        """Return a string attribute that must be present."""
        return str(self._attribute(name))

    def word(self, name: str, default: str, allowed: Sequence[str]) -> str:
        """Return a string attribute; a value that is not in `allowed` is refused."""
        word = str(self._attribute(name, default))
        if word not in allowed:
            self.refuse(f"its attribute {name} is {word!r}, and only {', '.join(allowed)} can be carried")
        return word

    def axis(self, name: str, default: int = _MISSING, *, rank: int) -> int:
        """Return an attribute that names one of `rank` axes, counted from the first."""
        return self.placed(self.integer(name, default), rank)

    def placed(self, axis: int, rank: int) -> int:
        """Return an axis of `rank` axes, counted from the first; one that is none of them is refused."""
        if not -rank <= axis < max(rank, 1):
            self.refuse(f"its axis {axis} is none of {rank} axes", fix=_CHECK)
        return axis % max(rank, 1)

    def dtype(self, name: str, default: int = _MISSING) -> str:
        """Return the numpy name of the dtype that an integer attribute stands for; "" for 0."""
        number = self.integer(name, default)
        return str(onnx.helper.tensor_dtype_to_np_dtype(number).name) if number else ""

    def tensor_attribute(self, name: str) -> Array:
        """Return a tensor attribute."""
        return tensor_array(self._attribute(name))

    def graph(self, name: str) -> Graph:
        """Return a graph inside the node."""
        return graph_of(self._attribute(name), self.node.opsets, self.node.origin)

    def has(self, name: str) -> bool:
        """Return whether the node has an attribute. Asking is not reading."""
        return name in self.node.attributes

    def ignore(self, *names: str, because: str) -> None:
        """Mark attributes as read that cannot change the outputs, and say why."""
        del because  # the reason stands in the code, for its reader
        self._attributes_read.update(names)

    def _attribute(self, name: str, default: Any = _MISSING) -> Any:
        self._attributes_read.add(name)
        if name in self.node.attributes:
            return attribute_value(self.node.attributes[name])
        default = attribute_defaults(self.op_type, self.version, self.domain).get(name, default)
        if default is _MISSING:
            self.refuse(f"its attribute {name} is not given", fix=_CHECK)
        return default

    # Inputs

    def has_input(self, at: int) -> bool:
        """Return whether the node has an input. Asking is not reading."""
        return at < len(self._inputs) and self._inputs[at] is not None

    def anything(self, at: int) -> V | None:
        """Return an input that may be a sequence of tensors, or None where the model leaves it out."""
        self._inputs_read.add(at)
        return self._inputs[at] if at < len(self._inputs) else None

    def optional(self, at: int) -> V | None:
        """Return a tensor, or None where the model leaves the input out. A sequence of tensors is refused."""
        value = self.anything(at)
        if isinstance(value, self.sequence_type):
            self.refuse(f"its input {at} is a sequence of tensors, and it takes {self.wanted}", fix=self.sequence_fix)
        return value

    def value(self, at: int) -> V:
        """Return a tensor that must be there."""
        return self._required(at, self.optional(at))

    def values(self, start: int = 0) -> list[V]:
        """Return all inputs from `start` on, of an operator that takes any number of tensors."""
        return [self.value(at) for at in range(start, len(self._inputs))]

    def everything(self, start: int = 0) -> list[V]:
        """Return all inputs from `start` on, tensors and sequences of tensors."""
        return [self._required(at, self.anything(at)) for at in range(start, len(self._inputs))]

    def _required(self, at: int, value: V | None) -> V:
        if value is None:
            self.refuse(f"its input {at} is not given", fix=_CHECK)
        return value

    def array(self, at: int, name: str) -> Array:
        """Return an input that has to be known while converting; `name` stands for it in the refusal."""
        array = self.value(at).array
        if array is None:
            self.refuse(f"its {name} is computed by the model", fix=f"make the {name} a constant of the model")
        return array

    def integers(self, at: int, name: str) -> tuple[int, ...]:
        """Return a known vector or scalar of integers."""
        return tuple(int(number) for number in self.array(at, name).reshape(-1))

    @abstractmethod
    def sizes(self, at: int, name: str) -> tuple[S, ...]:
        """Return a vector or scalar of sizes, known or computed."""

    def ignore_input(self, at: int, because: str) -> None:
        """Mark an input as read that cannot change the outputs, and say why."""
        del because  # the reason stands in the code, for its reader
        self._inputs_read.add(at)

    # Outputs and checks

    def wants(self, at: int) -> bool:
        """Return whether an output is read by another node or is one of the graph's."""
        return at < self.outputs and bool(self.node.outputs[at])

    @abstractmethod
    def known(self, array: Array) -> V:
        """Return an output that is known while converting."""

    def refuse(self, reason: str, *, fix: str = "") -> NoReturn:
        """Raise Refused with the node's name and origin."""
        raise Refused(f"{self.node}: {reason}", fix=fix or self.other_route)

    def check_dtypes(
        self,
        dtypes: Mapping[str, frozenset[str]],
        default: frozenset[str] | None = None,
        of: Sequence[V | None] | None = None,
    ) -> None:
        """Refuse an input of a dtype that the operator function does not take.

        `dtypes`: by the specification's name of the type variable; `default`: for variables that are not in it; `of`:
        the inputs as the model has them, where the function reads them in other dtypes.
        """
        for at, value in enumerate(self._inputs if of is None else of):
            allowed = dtypes.get(type_variable(self.node, at), default)
            if value is not None and allowed is not None and not self.takes(allowed, value.dtype):
                self.refuse(
                    f"its input {at} is {value.dtype}, and only {', '.join(sorted(allowed))} can be carried",
                    fix="cast it to another dtype in the model",
                )

    def takes(self, allowed: frozenset[str], dtype: str) -> bool:
        """Return whether an operator function that takes `allowed` takes `dtype`."""
        return dtype in allowed

    def check_all_read(self, outputs: Sequence[V | None]) -> None:
        """Refuse attributes and inputs that were not read, and outputs that are wanted and missing."""
        for name in self.node.attributes:
            if name not in self._attributes_read:
                self.refuse(f"its attribute {name} is not carried")
        for at, value in enumerate(self._inputs):
            if value is not None and at not in self._inputs_read:
                self.refuse(f"its optional input {at} is not carried")
        for at in range(self.outputs):
            if self.wants(at) and (at >= len(outputs) or outputs[at] is None):
                self.refuse(f"its optional output {at} is not carried")
