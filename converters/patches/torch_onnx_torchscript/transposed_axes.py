"""Axes that change places, for torch's older exporter: in source that is compiled (`x.mT`, `x.H`, `x.T`) it knows only
some of the names, and of a tensor with an unknown number of axes, as a loop carries one, nothing; and it hands on axes
that count from the end (`x.permute(0, -1, 1)`), which ONNX's Transpose does not take."""

from __future__ import annotations

from typing import Any

from .. import private_torch
from ..torch_shared.traced_symbolics import Symbolics, helper, register


def mend_turned() -> None:
    """Register the answers for every later export of this process. Of no complex numbers, which it has none of."""
    symbolics: Symbolics = {
        **dict.fromkeys(("aten::mT", "aten::mH", "aten::adjoint"), _last_two),
        **dict.fromkeys(("aten::numpy_T", "aten::matrix_H", "aten::t"), _reversed),
        "aten::transpose": _transposed,
        "aten::permute": _permuted,
    }
    register(symbolics)


def _last_two(g: Any, self: Any) -> Any:
    rank = helper._get_tensor_rank(self)
    if rank is None:
        return g.op("Einsum", self, equation_s="...ij->...ji")
    return g.op("Transpose", self, perm_i=[*range(rank - 2), rank - 1, rank - 2])


def _reversed(g: Any, self: Any) -> Any:
    """Of a matrix, or of however many axes are known."""
    rank = helper._get_tensor_rank(self)
    if rank is None:
        return g.op("Einsum", self, equation_s="ij->ji")
    return g.op("Transpose", self, perm_i=[*reversed(range(rank))]) if rank > 1 else g.op("Identity", self)


def _transposed(g: Any, self: Any, one: Any, other: Any) -> Any:
    axes = {helper._maybe_get_const(each, "i") for each in (one, other)}
    if axes == {-1, -2} and helper._get_tensor_rank(self) is None:
        return _last_two(g, self)
    return private_torch.symbolic_opset9.transpose(g, self, one, other)


def _permuted(g: Any, self: Any, axes: Any) -> Any:
    given = helper._maybe_get_const(axes, "is")
    if isinstance(given, list):
        axes = [axis % len(given) for axis in given]
    return private_torch.symbolic_opset9.permute(g, self, axes)
