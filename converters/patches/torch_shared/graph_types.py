"""Types of what writes ONNX graphs for torch's two exporters: their operators, values and nodes.

Protocols, as torch and onnxscript type neither that a number or a list stands for a constant, nor what an exporter
hands to a translation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import torch
    from onnxscript.ir import DataType, SymbolicDim

GraphValue = TypeVar("GraphValue")  # a tensor of the graph: an OnnxValue or a TracedValue
GraphValue_co = TypeVar("GraphValue_co", covariant=True)


class OpWriter(Protocol[GraphValue_co]):
    """Writes ONNX operators into the graph of either exporter, as in `op.Add(x, 1.0)`: numbers become constants."""

    def __getattr__(self, operator: str, /) -> Callable[..., GraphValue_co]: ...


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
Translation: TypeAlias = Callable[..., object]  # PyTorch's arguments of an operator -> its outputs


class TracedType(Protocol):
    """The type of a value in a TorchScript graph; of a tensor most of it may be unknown."""

    def dtype(self) -> torch.dtype: ...
    def kind(self) -> str: ...
    def sizes(self) -> list[int]: ...
    def with_sizes(self, sizes: Sequence[int]) -> TracedType: ...
    def isSubtypeOf(self, other: object) -> bool: ...


class TracedNode(Protocol):
    """A node of a TorchScript graph; `t` and `tys` read attributes."""

    def kind(self) -> str: ...
    def t(self, name: str) -> torch.Tensor: ...
    def tys(self, name: str) -> Sequence[TracedType]: ...
    def inputs(self) -> Iterable[TracedValue]: ...
    def inputsAt(self, at: int) -> TracedValue: ...
    def output(self) -> TracedValue: ...
    def blocks(self) -> Iterable[TracedBlock]: ...
    def destroy(self) -> None: ...


class TracedBlock(Protocol):
    """A block of a TorchScript graph, or the graph."""

    def nodes(self) -> Iterable[TracedNode]: ...


class TracedValue(Protocol):
    """A value of the TorchScript exporter's graph."""

    def node(self) -> TracedNode: ...
    def type(self) -> TracedType: ...
    def setType(self, kind: TracedType) -> None: ...
    def toIValue(self) -> object: ...
    def replaceAllUsesWith(self, other: TracedValue) -> None: ...


class TracedGraph(Protocol):
    """The graph that a symbolic writes to: attributes' names end in their kind, as `axis_i` and `value_t`."""

    @property
    def opset(self) -> int: ...
    @property
    def original_node(self) -> TracedNode: ...
    def op(self, name: str, *inputs: object, **attributes: object) -> TracedValue: ...


Symbolics: TypeAlias = Mapping[str, Callable[..., object]]  # names of PyTorch's operators, and what writes each
