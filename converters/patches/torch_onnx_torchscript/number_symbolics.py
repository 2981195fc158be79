"""Numbers of torch's older exporter: logs of sums that stay finite, angles with their quadrant, any and all of what is
not 0, softplus above its threshold, hyperbolic functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import private_torch
from ..torch_shared.formulas import angle_of, log2_of_two, log_of_gamma, log_of_sigmoid, log_of_sum, log_of_two
from ..torch_shared.traced_symbolics import BOOL, Symbolics, Traced, constant, helper, register


def mend_numbers() -> None:
    """Register the right forms for every later export of this process."""
    symbolics: Symbolics = {
        "aten::all": _of_booleans("_all"),
        "aten::any": _of_booleans("_any"),
        "aten::atan2": _by(angle_of),
        **{f"aten::{name.lower()}": _named(name) for name in ("Acosh", "Asinh", "Atanh", "Cosh", "Sinh")},
        "aten::lgamma": _by(log_of_gamma),
        "aten::log_sigmoid": _by(log_of_sigmoid),
        "aten::logaddexp": _by(log_of_two),
        "aten::logaddexp2": _by(log2_of_two),
        "aten::logsumexp": _log_of_sum,
        "aten::softplus": _softplus,
    }
    register(symbolics)


def _of_booleans(name: str) -> Callable[..., Any]:
    """The exporter's own asks whether the sum of all numbers, cut to whole ones, is above 0."""

    def translation(g: Any, self: Any, *more: Any) -> Any:
        return getattr(private_torch.symbolic_opset9, name)(g, g.op("Cast", self, to_i=BOOL), *more)

    return translation


def _softplus(g: Any, self: Any, beta: Any, threshold: Any) -> Any:
    """The number itself above the threshold, which the exporter leaves out."""
    made, op = private_torch.symbolic_opset9.softplus(g, self, beta, threshold), Traced(g)
    if helper._get_const(threshold, "f", "threshold") >= _FLAT:
        return made
    scaled = op.Mul(self, op.CastLike(beta, self))
    return op.Where(op.Greater(scaled, op.CastLike(threshold, self)), self, made)


_FLAT = 20  # times beta: from there on softplus is the number itself, to the last bit but one


def _by(formula: Callable[..., Any]) -> Callable[..., Any]:
    return lambda g, *values: formula(Traced(g), *values)


def _named(name: str) -> Callable[..., Any]:
    """An operator that ONNX has under this name."""
    return lambda g, self: g.op(name, self)


def _log_of_sum(g: Any, self: Any, dim: Any, keepdim: Any) -> Any:
    if helper._get_tensor_rank(self) == 0:
        return self
    axes = helper._get_const(dim, "is", "dim")
    made = log_of_sum(Traced(g), self, lambda name, value: _reduced(g, name, value, axes))
    if helper._get_const(keepdim, "i", "keepdim"):
        return made
    return g.op("Squeeze", made, constant(g, axes))


def _reduced(g: Any, name: str, value: Any, axes: Sequence[int]) -> Any:
    """The axes stay. Those of ReduceMax are an attribute before opset 18."""
    if name == "ReduceMax" and g.opset < _AXES_ARE_INPUTS:
        return g.op(name, value, axes_i=axes)
    return g.op(name, value, constant(g, axes))


_AXES_ARE_INPUTS = 18
