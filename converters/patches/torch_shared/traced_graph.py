"""What writes into the graph of torch's TorchScript exporter, and the types of its values, nodes and graphs.

The types are Protocols, as torch types little of what the exporter hands to a symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ...lazy_import import LazyLibrary

if TYPE_CHECKING:
    import torch


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


helper: Any = LazyLibrary("torch.onnx", "symbolic_helper")  # not all of it is in its types


class Traced:
    """Writes into the TorchScript exporter's graph as `op` does for the dynamo exporter, so that formulas serve both.

    Attributes are integers, and a Python float is a constant of float32.
    """

    def __init__(self, graph: TracedGraph) -> None:
        self._graph = graph

    def __getattr__(self, name: str) -> Callable[..., TracedValue]:
        def node(*inputs: object, **attributes: int) -> TracedValue:
            import torch

            operands = [constant(self._graph, x, torch.float32) if isinstance(x, float) else x for x in inputs]
            return self._graph.op(name, *operands, **{f"{key}_i": value for key, value in attributes.items()})

        return node


def constant(g: TracedGraph, value: object, dtype: torch.dtype | None = None) -> TracedValue:
    """Write numbers into the graph; by default in the dtype that torch.tensor gives them."""
    import torch

    return g.op("Constant", value_t=torch.tensor(value, dtype=dtype))


def scalar_of(value: TracedValue) -> str:
    """Return the exporter's name of a value's dtype, or "" where it knows none."""
    kind = jit_type(value)
    return str(kind.scalar_name()) if kind else ""


def onnx_type(value: TracedValue) -> int:
    """Return ONNX's number of a dtype that the exporter knows."""
    return int(jit_type(value).onnx_type())


def jit_type(value: TracedValue) -> Any:
    """Return the exporter's JitScalarType of a value, or None where it knows none."""
    import torch

    kinds: Any = torch.onnx
    kind = kinds.JitScalarType.from_value(value, kinds.JitScalarType.UNDEFINED)
    return None if kind is kinds.JitScalarType.UNDEFINED else kind
