"""Adds nodes of ONNX to one of tf2onnx's graphs, in the place of one of TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

Graph: TypeAlias = Any  # tf2onnx has no types
Node: TypeAlias = Any
# A Writer and the names of the inputs -> the name of the result, or of each of the results.
Compute: TypeAlias = Callable[..., str | Sequence[str]]


class Writer:
    """Adds the nodes that take the place of one."""

    def __init__(self, graph: Graph, node: Node) -> None:
        from tf2onnx import utils

        self.graph, self.node = graph, node
        self._names = utils.make_name
        self._dtype = utils.map_onnx_to_numpy_type(graph.get_dtype(node.output[0]))

    @property
    def is_whole(self) -> bool:
        """Whether the node computes with whole numbers."""
        return bool(np.issubdtype(self._dtype, np.integer))

    def call(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node of ONNX; the name of its output."""
        made = self.graph.make_node(operator, list(inputs), attr=attributes, op_name_scope=self.node.name)
        return str(made.output[0])

    def length(self, vector: str) -> int:
        """The number of elements."""
        return int(self.graph.get_shape(vector)[0])

    def in_front(self, vector: str, ones: int) -> str:
        """A vector with so many ones, if any, before it."""
        if ones < 1:
            return vector
        return self.joined(self.constant(np.ones(ones, self._dtype)), vector)

    def mul(self, left: str, right: str) -> str:
        """The product."""
        return self.call("Mul", left, right)

    def sub(self, left: str, right: str) -> str:
        """The difference."""
        return self.call("Sub", left, right)

    def number(self, value: float) -> str:
        """A constant of the node's dtype."""
        return self.constant(np.array(value, self._dtype))

    def constant(self, value: Any) -> str:
        """A constant of its own dtype."""
        return str(self.graph.make_const(self._names(self.node.name), np.array(value)).output[0])

    def unsqueezed(self, x: str, axis: int) -> str:
        """With an axis of size 1 more."""
        return self.call("Unsqueeze", x, self.constant([axis]))

    def cast(self, x: str, to: int) -> str:
        """The same numbers in a dtype of ONNX."""
        return self.call("Cast", x, to=to)

    def like(self, x: str, other: str) -> str:
        """The same numbers in the dtype of another tensor."""
        return self.cast(x, self.graph.get_dtype(other))

    def reshaped(self, x: str, shape: str) -> str:
        """In another shape, in which 0 stands for no elements."""
        return self.call("Reshape", x, shape, allowzero=1)

    def vector(self, number: str) -> str:
        """A number as a vector of one."""
        return self.reshaped(number, self.constant([1]))

    def joined(self, *vectors: str) -> str:
        """Vectors one after the other."""
        return self.call("Concat", *vectors, axis=0)

    def slice(self, x: str, first: int, end: str | int = 2**63 - 1) -> str:
        """From `first` to before `end`, along the first axis."""
        behind = self.constant([end]) if isinstance(end, int) else end
        return self.call("Slice", x, self.constant([first]), behind, self.constant([0]))

    def pick(self, vector: str, at: int) -> str:
        """One element."""
        return self.call("Gather", vector, self.constant(np.int64(at)), axis=0)

    def size(self, x: str, axis: int) -> str:
        """The size of an axis."""
        return self.pick(self.call("Shape", x), axis)

    def ends(self, *, endless: bool) -> dict[str, float]:
        """The least and the largest number of the node's dtype, infinite ones where they may be, beside 0 and 1."""
        limits: Any = np.iinfo(self._dtype) if self.is_whole else np.finfo(self._dtype)
        low, high = (-np.inf, np.inf) if endless and not self.is_whole else (limits.min, limits.max)
        return {"0": 0, "1": 1, "low": low, "high": high}

    def require(self, holds: bool, what: str) -> None:
        """Raises ValueError, whose operator is named to the user, where `what` would not be carried."""
        if not holds:
            raise ValueError(f"{what} is not carried")

    def replace(self, made: Sequence[str]) -> None:
        """Put these in the place of the node's outputs, by the names that they have."""
        outputs = list(zip(made, self.node.output, self.node.output_shapes, self.node.output_dtypes, strict=True))
        self.graph.remove_node(self.node.name)
        for each, output, shape, dtype in outputs:
            name = self._names(self.node.name)
            self.graph.make_node("Identity", [each], outputs=[output], name=name, shapes=[shape], dtypes=[dtype])
