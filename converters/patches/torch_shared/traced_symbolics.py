"""What symbolics of torch's TorchScript exporter share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ....models.patch import Kind, Patch
from ...lazy_import import LazyLibrary
from .graph_types import TracedGraph, TracedValue

if TYPE_CHECKING:
    import torch

helper: Any = LazyLibrary("torch.onnx", "symbolic_helper")  # not all of it is in its types
FLOAT, INT64, BOOL, DOUBLE = 1, 7, 9, 11  # onnx.TensorProto's
ALL_OPSETS = range(11, 21)


def register(records: Iterable[Patch], opsets: Iterable[int] = ALL_OPSETS) -> None:
    """Register the symbolics among some patches for every later export of this process."""
    import torch

    exporter: Any = torch.onnx  # not all of it is in its types
    for patch in records:
        if patch.kind is Kind.SYMBOLIC:
            for opset in opsets:
                exporter.register_custom_op_symbolic(patch.name, patch.replacement, opset)


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
