"""What writes into the graph of torch's dynamo exporter: onnxscript's operators, and the types of values and nodes.

The types are Protocols, as torch and onnxscript type neither that a number or a list stands for a constant, nor what
the exporter hands to a translation. onnxscript is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from ...lazy_import import LazyLibrary
from .formulas import OpWriter

if TYPE_CHECKING:
    import numpy as np
    from onnxscript.ir import DataType, SymbolicDim


class OnnxConstant(Protocol):
    """The value of a constant."""

    def numpy(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]: ...


class OnnxNode(Protocol):
    """A node of the dynamo exporter's graph."""

    op_type: str

    @property
    def inputs(self) -> Sequence[OnnxValue]: ...


class OnnxValue(Protocol):
    """A tensor of the dynamo exporter's graph: torch's SymbolicTensor, an onnxscript.ir.Value."""

    name: str | None
    dtype: DataType
    shape: Sequence[int | SymbolicDim]
    meta: MutableMapping[str, OnnxValue]

    @property
    def rank(self) -> int: ...
    @property
    def const_value(self) -> OnnxConstant | None: ...
    def producer(self) -> OnnxNode | None: ...


class DynamoOps(OpWriter[OnnxValue], Protocol):
    """onnxscript's operators of one opset: those with several outputs give a tuple."""

    def TopK(self, *inputs: object, **attributes: object) -> tuple[OnnxValue, OnnxValue]: ...


Number: TypeAlias = OnnxValue | bool | int | float  # what the dynamo exporter hands over for a number or a size
op = cast("DynamoOps", LazyLibrary("onnxscript", "opset18"))
ir: Any = LazyLibrary("onnxscript", "ir")  # its types do not know that LazyLibrary is it


def constant_of(value: object, dtype: DataType | None = None) -> OnnxValue:
    """Write numbers as a constant, by default in their own dtype."""
    return op.Constant(value=ir.tensor(value, dtype=dtype))


def size_of(value: OnnxValue, axis: int) -> OnnxValue:
    """Return the length of an axis, counted from the end or not, as a tensor of rank 0."""
    at = axis % value.rank
    return op.Squeeze(op.Shape(value, start=at, end=at + 1))
