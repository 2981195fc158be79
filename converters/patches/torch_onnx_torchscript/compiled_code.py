"""Operators of compiled code for torch's TorchScript exporter.

These are isinstance, math.ceil and math.floor, the `lengths.cpu()` of pack_padded_sequence, and transposes: of
`x.mT`, `x.H` and `x.T` it knows some names only, and none for a tensor of unknown rank, as a loop carries one. It also
passes on axes that count from the end (`x.permute(0, -1, 1)`), which ONNX's Transpose does not take. Complex numbers it
has none of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import private_torch
from ..ledger import SYMBOLICS, symbolics
from ..torch_shared.formulas import INT64
from ..torch_shared.traced_graph import TracedGraph, TracedValue, constant, helper, scalar_of


def _unmoved(_g: TracedGraph, self: TracedValue) -> TracedValue:
    return self


def _is_instance(g: TracedGraph, value: TracedValue, **_: object) -> Any:
    """Write the answer as a constant: of a branch on it the exporter then takes one side."""
    fits = any(value.type().isSubtypeOf(kind) for kind in g.original_node.tys("types"))
    if not fits and value.type().kind() in _OPEN:
        return helper._unimplemented("isinstance", "of a value whose type shows as the model runs", value)
    return constant(g, fits)


_OPEN = ("AnyType", "OptionalType", "UnionType")


def _rounded(name: str) -> Callable[..., TracedValue]:
    """Return a symbolic for rounding: math.ceil and math.floor give integers, which count the steps of a loop."""

    def symbolic(g: TracedGraph, value: TracedValue) -> TracedValue:
        rounded = g.op(name, value)
        is_integer = scalar_of(g.original_node.output()) == "Long"  # an int of the code is a tensor by now
        return g.op("Cast", rounded, to_i=INT64) if is_integer else rounded

    return symbolic


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
            "aten::cpu": _unmoved,
            "aten::ceil": _rounded("Ceil"),
            "aten::floor": _rounded("Floor"),
            "prim::isinstance": _is_instance,
        },
        why="Has no symbolic of what compiled code asks, or gives floats where compiled code counts with integers.",
    ),
    *symbolics(
        {
            **dict.fromkeys(("aten::mT", "aten::mH", "aten::adjoint"), _last_two),
            **dict.fromkeys(("aten::numpy_T", "aten::matrix_H", "aten::t"), _reversed),
            "aten::transpose": _transposed,
        },
        why="Has no symbolic of it, or none for a tensor of unknown rank, as a loop carries one.",
        upstream=f"{SYMBOLICS} (transpose)",
    ),
    *symbolics(
        {"aten::permute": _permuted},
        why="Passes on axes that count from the end, which ONNX's Transpose does not take.",
        upstream=f"{SYMBOLICS} (permute)",
    ),
)
