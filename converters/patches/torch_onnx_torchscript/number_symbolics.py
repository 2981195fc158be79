"""Symbolics of functions of numbers for torch's TorchScript exporter.

Logs of sums stay finite, angles keep their quadrant, any and all count what is not 0, softplus has its threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import private_torch
from ..ledger import SYMBOLICS, symbolics
from ..torch_shared.formulas import BOOL, angle_of, log2_of_two, log_of_gamma, log_of_sigmoid, log_of_sum, log_of_two
from ..torch_shared.traced_graph import Traced, TracedGraph, TracedValue, constant, helper


def _boolean_reduction(name: str) -> Callable[..., Any]:
    """Return a symbolic of the booleans: the exporter's own asks whether the sum of truncated numbers is above 0."""

    def symbolic(g: TracedGraph, self: TracedValue, *more: TracedValue) -> Any:
        return getattr(private_torch.symbolic_opset9, name)(g, g.op("Cast", self, to_i=BOOL), *more)

    return symbolic


def _softplus(g: TracedGraph, self: TracedValue, beta: TracedValue, threshold: TracedValue) -> Any:
    """Write softplus with the number itself above the threshold, which the exporter leaves out."""
    smooth, op = private_torch.symbolic_opset9.softplus(g, self, beta, threshold), Traced(g)
    if helper._get_const(threshold, "f", "threshold") >= _FLAT:
        return smooth
    scaled = op.Mul(self, op.CastLike(beta, self))
    return op.Where(op.Greater(scaled, op.CastLike(threshold, self)), self, smooth)


_FLAT = 20  # times beta: from there on softplus is the number itself, to the last bit but one


def _by(formula: Callable[..., Any]) -> Callable[..., Any]:
    return lambda g, *values: formula(Traced(g), *values)


def _named(name: str) -> Callable[..., Any]:
    """Return a symbolic of the ONNX operator of a name."""
    return lambda g, self: g.op(name, self)


def _log_of_sum(g: TracedGraph, self: TracedValue, dim: TracedValue, keepdim: TracedValue) -> TracedValue:
    if helper._get_tensor_rank(self) == 0:
        return self
    axes = helper._get_const(dim, "is", "dim")
    total = log_of_sum(Traced(g), self, lambda name, value: _reduced(g, name, value, axes))
    if helper._get_const(keepdim, "i", "keepdim"):
        return total
    return g.op("Squeeze", total, constant(g, axes))


def _reduced(g: TracedGraph, name: str, value: TracedValue, axes: Sequence[int]) -> TracedValue:
    """Write a reduction that keeps its axes; those of ReduceMax are an attribute before opset 18."""
    if name == "ReduceMax" and g.opset < _AXES_ARE_INPUTS:
        return g.op(name, value, axes_i=axes)
    return g.op(name, value, constant(g, axes))


_AXES_ARE_INPUTS = 18

PATCHES = (
    *symbolics(
        {"aten::all": _boolean_reduction("_all"), "aten::any": _boolean_reduction("_any")},
        why="Sums numbers that are truncated to integers, so that 0.5 counts as 0, and 1 and -1 as nothing.",
        upstream=f"{SYMBOLICS} (_any)",
    ),
    *symbolics(
        {
            **{f"aten::{name.lower()}": _named(name) for name in ("Acosh", "Asinh", "Atanh", "Cosh", "Sinh")},
            "aten::lgamma": _by(log_of_gamma),
            "aten::logaddexp": _by(log_of_two),
            "aten::logaddexp2": _by(log2_of_two),
        },
        why="Has no symbolic of it, or one that overflows.",
    ),
    *symbolics(
        {
            "aten::atan2": _by(angle_of),
            "aten::log_sigmoid": _by(log_of_sigmoid),
            "aten::logsumexp": _log_of_sum,
            "aten::softplus": _softplus,
        },
        why="Answers otherwise at the ends of the range: zeros of atan2, logs of 0, softplus above its threshold.",
    ),
)
