"""Writers that add ONNX nodes to a graph of tf2onnx. Every method returns the name of its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ...lazy_import import onnx
from .. import private_tf2onnx
from .tf2onnx_graphs import AttributeValue, Dtype, TfGraph, TfNode


class TfGraphWriter:
    """Adds nodes to a graph; `scope` begins their names."""

    _constant_suffix = "_const"

    def __init__(self, graph: TfGraph, scope: str) -> None:
        self.graph, self.scope = graph, scope

    def call(self, operator: str, *inputs: str, **attributes: AttributeValue) -> str:
        """Add a node with one output."""
        return str(self.graph.make_node(operator, list(inputs), attr=attributes, op_name_scope=self.scope).output[0])

    def constant(self, value: ArrayLike, dtype: DTypeLike | None = None) -> str:
        """Add a constant: of numpy's dtype for `value` unless one is named."""
        name = private_tf2onnx.utils.make_name(f"{self.scope}{self._constant_suffix}")
        return str(self.graph.make_const(name, np.array(value, dtype)).output[0])

    def unsqueezed(self, x: str, axis: int) -> str:
        """Insert an axis of size 1."""
        return self.call("Unsqueeze", x, self.constant([axis]))

    def int64(self, name: str, shape: Sequence[int] = ()) -> str:
        """Cast a number to int64 and reshape it to `shape`, which has one element."""
        return self.call("Reshape", self.call("Cast", name, to=Dtype.INT64), self.constant([*shape], np.int64))

    def zero(self, dtype: int) -> str:
        """Add the number 0 of an ONNX dtype."""
        return self.constant(0, onnx.helper.tensor_dtype_to_np_dtype(dtype))

    def numpy_dtype(self, x: str) -> np.dtype[Any]:
        """Return numpy's dtype of a tensor."""
        return onnx.helper.tensor_dtype_to_np_dtype(self.graph.get_dtype(x))

    def zeros(self, length: str, shape: str, dtype: int) -> str:
        """Add `length` (int64[1]) zero elements of `shape` (int64[rank]) and of an ONNX dtype."""
        return self.call("Expand", self.zero(dtype), self.call("Concat", length, shape, axis=0))


class NodeWriter(TfGraphWriter):
    """Adds the nodes that take the place of `node`."""

    _constant_suffix = ""

    def __init__(self, graph: TfGraph, node: TfNode) -> None:
        super().__init__(graph, node.name)
        self.node = node
        self._dtype = np.dtype(private_tf2onnx.utils.map_onnx_to_numpy_type(graph.get_dtype(node.output[0])))

    @property
    def is_integer(self) -> bool:
        """Whether the node computes with integers."""
        return bool(np.issubdtype(self._dtype, np.integer))

    def length(self, vector: str) -> int:
        """Return the number of elements, which the graph knows."""
        shape = self.graph.get_shape(vector)
        if shape is None:
            raise ValueError(f"{vector} has no known length")
        return shape[0]

    def with_leading_ones(self, vector: str, count: int) -> str:
        """Put `count` ones before a vector, where that is above 0."""
        return self.joined(self.constant(np.ones(count, self._dtype)), vector) if count > 0 else vector

    def mul(self, left: str, right: str) -> str:
        """Multiply."""
        return self.call("Mul", left, right)

    def sub(self, left: str, right: str) -> str:
        """Subtract."""
        return self.call("Sub", left, right)

    def number(self, value: float) -> str:
        """Add a constant of the node's dtype."""
        return self.constant(value, self._dtype)

    def cast(self, x: str, to: int) -> str:
        """Cast to an ONNX dtype."""
        return self.call("Cast", x, to=to)

    def like(self, x: str, other: str) -> str:
        """Cast to the dtype of another tensor."""
        return self.cast(x, self.graph.get_dtype(other))

    def reshaped(self, x: str, shape: str) -> str:
        """Reshape; 0 in `shape` stands for no elements."""
        return self.call("Reshape", x, shape, allowzero=1)

    def vector(self, number: str) -> str:
        """Reshape a number to a vector of one element."""
        return self.reshaped(number, self.constant([1]))

    def joined(self, *vectors: str) -> str:
        """Concatenate along the first axis."""
        return self.call("Concat", *vectors, axis=0)

    def slice(self, x: str, first: int, end: str | int = 2**63 - 1) -> str:
        """Take `first` up to, but not including, `end` along the first axis."""
        end_name = self.constant([end]) if isinstance(end, int) else end
        return self.call("Slice", x, self.constant([first]), end_name, self.constant([0]))

    def pick(self, vector: str, at: int) -> str:
        """Take one element."""
        return self.call("Gather", vector, self.constant(at), axis=0)

    def size(self, x: str, axis: int) -> str:
        """Read the size of an axis."""
        return self.pick(self.call("Shape", x), axis)

    def limits(self, *, infinite: bool) -> dict[str, float]:
        """Return the least and the largest number of the node's dtype, infinite where asked, beside 0 and 1."""
        limits: Any = np.iinfo(self._dtype) if self.is_integer else np.finfo(self._dtype)
        low, high = (-np.inf, np.inf) if infinite and not self.is_integer else (limits.min, limits.max)
        return {"0": 0, "1": 1, "low": low, "high": high}

    def require(self, is_carried: bool, subject: str) -> None:
        """Raise ValueError unless `is_carried`; the caller names the operator to the user."""
        if not is_carried:
            raise ValueError(f"{subject} is not carried")

    def replace(self, results: Sequence[str]) -> None:
        """Put `results` in the place of the node's outputs, whose names stay."""
        node = self.node
        outputs = list(zip(results, node.output, node.output_shapes, node.output_dtypes, strict=True))
        self.graph.remove_node(node.name)
        for result, output, shape, dtype in outputs:
            name = private_tf2onnx.utils.make_name(node.name)
            self.graph.make_node("Identity", [result], outputs=[output], name=name, shapes=[shape], dtypes=[dtype])


# A NodeWriter and the names of the inputs -> the name of the result, or of each result.
Compute: TypeAlias = Callable[..., str | Sequence[str]]


def computed(compute: Compute) -> Callable[..., None]:
    """Return the handler that puts what `compute` writes in a node's place."""

    def convert(graph: TfGraph, node: TfNode, **_options: object) -> None:
        w = NodeWriter(graph, node)
        results = compute(w, *node.input)
        w.replace([results] if isinstance(results, str) else results)

    return convert
