"""Transposes for torch's TorchScript exporter.

In compiled source (`x.mT`, `x.H`, `x.T`) it knows some of the names only, and none for a tensor of unknown rank, as a
loop carries one. It also passes on axes that count from the end (`x.permute(0, -1, 1)`), which ONNX's Transpose does
not take. Complex numbers it has none of.
"""

from __future__ import annotations

from typing import Any

from .. import private_torch
from ..ledger import symbolics
from ..torch_shared.graph_types import TracedGraph, TracedValue
from ..torch_shared.traced_symbolics import helper


def _last_two(g: TracedGraph, self: TracedValue) -> TracedValue:
    rank = helper._get_tensor_rank(self)
    if rank is None:
        return g.op("Einsum", self, equation_s="...ij->...ji")
    return g.op("Transpose", self, perm_i=[*range(rank - 2), rank - 1, rank - 2])


def _reversed(g: TracedGraph, self: TracedValue) -> TracedValue:
    """Reverse the axes: two where the rank is unknown."""
    rank = helper._get_tensor_rank(self)
    if rank is None:
        return g.op("Einsum", self, equation_s="ij->ji")
    return g.op("Transpose", self, perm_i=[*reversed(range(rank))]) if rank > 1 else g.op("Identity", self)


def _transposed(g: TracedGraph, self: TracedValue, dim0: TracedValue, dim1: TracedValue) -> Any:
    axes = {helper._maybe_get_const(dim, "i") for dim in (dim0, dim1)}
    if axes == {-1, -2} and helper._get_tensor_rank(self) is None:
        return _last_two(g, self)
    return private_torch.symbolic_opset9.transpose(g, self, dim0, dim1)


def _permuted(g: TracedGraph, self: TracedValue, axes: Any) -> Any:
    known = helper._maybe_get_const(axes, "is")
    if isinstance(known, list):
        axes = [axis % len(known) for axis in known]
    return private_torch.symbolic_opset9.permute(g, self, axes)


PATCHES = (
    *symbolics(
        {
            **dict.fromkeys(("aten::mT", "aten::mH", "aten::adjoint"), _last_two),
            **dict.fromkeys(("aten::numpy_T", "aten::matrix_H", "aten::t"), _reversed),
            "aten::transpose": _transposed,
        },
        why="Has no symbolic of it, or none for a tensor of unknown rank, as a loop carries one.",
        upstream="torch/onnx/_internal/torchscript_exporter/symbolic_opset9.py (transpose)",
        until="the TorchScript exporter is no longer used",
    ),
    *symbolics(
        {"aten::permute": _permuted},
        why="Passes on axes that count from the end, which ONNX's Transpose does not take.",
        upstream="torch/onnx/_internal/torchscript_exporter/symbolic_opset9.py (permute)",
        until="the TorchScript exporter is no longer used",
    ),
)
