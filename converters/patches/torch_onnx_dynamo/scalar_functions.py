"""Operators that work number by number, for torch's dynamo exporter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .. import private_onnxscript
from ..ledger import missing_translations, translations
from ..torch_shared.dynamo_graph import Number, OnnxValue, constant_of, ir, op
from ..torch_shared.formulas import (
    angle_of,
    is_negative,
    log2_of_two,
    log_of_gamma,
    log_of_normal,
    log_of_sigmoid,
    log_of_sum,
    log_of_two,
    scaled_erfc,
)
from ..torch_shared.wide_integers import clamped, is_wide, larger, smaller


def _logsumexp(self: OnnxValue, dim: object, keepdim: bool = False) -> OnnxValue:
    if self.rank == 0:
        return self
    logarithm = log_of_sum(op, self, lambda name, value: getattr(op, name)(value, dim, keepdims=True))
    return logarithm if keepdim else op.Squeeze(logarithm, dim)


def _dot(self: OnnxValue, other: OnnxValue) -> OnnxValue:
    return op.ReduceSum(op.Mul(self, other), keepdims=False)


def _signbit(self: OnnxValue) -> OnnxValue:
    if not self.dtype.is_floating_point():
        return op.Less(self, op.CastLike(op.Constant(value_int=0), self))
    sign: OnnxValue = is_negative(op, self)
    return sign


def _copysign(self: OnnxValue, other: Number) -> OnnxValue:
    size = op.Abs(self if self.dtype.is_floating_point() else op.Cast(self, to=ir.DataType.FLOAT))
    if isinstance(other, bool | int | float):
        return op.Neg(size) if math.copysign(1.0, other) < 0 else size
    return op.Where(_signbit(other), op.Neg(size), size)


def _clamp(
    self: OnnxValue,
    min: OnnxValue | None = None,  # noqa: A002  (the operator's own arguments)
    max: OnnxValue | None = None,  # noqa: A002
) -> OnnxValue:
    """Clamp to tensors by one operator."""
    bounds = [bound if bound is None else op.CastLike(bound, self) for bound in (min, max)]
    if is_wide(self):
        integers: OnnxValue = clamped(op, self, *bounds)
        return integers
    if all(bound is None or bound.rank == 0 for bound in (min, max)):
        return op.Clip(self, *bounds)
    for bound, narrowed in zip(bounds, (op.Max, op.Min), strict=True):
        self = self if bound is None else narrowed(self, bound)
    return self


def _ignoring_nan(of_booleans: str, of_wide_integers: Callable[..., Any], extreme: str) -> Callable[..., Any]:
    """Return a translation for the larger or smaller number; of a NaN and a number the number."""

    def translation(self: OnnxValue, other: OnnxValue) -> Any:
        if is_wide(self, other):
            return of_wide_integers(op, self, other)
        write = getattr(op, of_booleans if self.dtype == ir.DataType.BOOL else extreme)
        if not self.dtype.is_floating_point():
            return write(self, other)
        return op.Where(op.IsNaN(self), other, op.Where(op.IsNaN(other), self, write(self, other)))

    return translation


def _rrelu(  # noqa: PLR0917  (the operator's own arguments)
    self: OnnxValue,
    noise: OnnxValue,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: object = None,  # noqa: ARG001
) -> tuple[OnnxValue, OnnxValue]:
    """Write a randomized ReLU as it answers in evaluation, and the noise that it has not drawn."""
    if training:
        raise NotImplementedError("F.rrelu(training=True) draws random slopes")
    return private_onnxscript.nn.aten_leaky_relu(self, (lower + upper) / 2), noise


def _hypot(self: OnnxValue, other: OnnxValue) -> OnnxValue:
    """Write the hypotenuse by its ratio to the longer leg: squares of large numbers are infinite, of small ones 0."""
    leg, other_leg = op.Abs(self), op.Abs(other)
    long, short = op.Max(leg, other_leg), op.Min(leg, other_leg)
    unit = op.CastLike(op.Constant(value_float=1.0), self)
    zero = op.CastLike(op.Constant(value_float=0.0), self)
    is_degenerate = op.Or(op.Equal(long, zero), op.IsInf(long))
    ratio = op.Div(op.Where(is_degenerate, zero, short), op.Where(is_degenerate, unit, long))
    return op.Mul(long, op.Sqrt(op.Add(unit, op.Mul(ratio, ratio))))


def _cdist(x1: OnnxValue, x2: OnnxValue, p: float, compute_mode: int | None = None) -> OnnxValue:  # noqa: ARG001  (how fast, not what)
    """Write the distances between two sets of rows: (..., P, M), (..., R, M) -> (..., P, R)."""
    apart = op.Abs(op.Sub(op.Unsqueeze(x1, [-2]), op.Unsqueeze(x2, [-3])))
    if p == 0:
        return op.ReduceSum(op.Cast(op.Greater(apart, op.CastLike(0.0, apart)), to=x1.dtype), [-1], keepdims=False)
    if p == 1:
        return op.ReduceSum(apart, [-1], keepdims=False)
    if p == 2:
        return op.ReduceL2(apart, [-1], keepdims=False)
    if math.isinf(p):
        return op.ReduceMax(apart, [-1], keepdims=False)
    power, root = (constant_of(value, x1.dtype) for value in (p, 1 / p))
    return op.Pow(op.ReduceSum(op.Pow(apart, power), [-1], keepdims=False), root)


def _over_axes(name: str) -> Callable[..., OnnxValue]:
    """Return a translation of any or all over a list of axes; over an empty one each number is its own answer."""

    def translation(self: OnnxValue, dim: Sequence[int] | None = None, keepdim: bool = False) -> Any:
        if dim is not None and not dim:
            return op.Cast(self, to=ir.DataType.BOOL)
        return getattr(private_onnxscript.core, name)(self, dim, keepdim)

    return translation


_CORE = "onnxscript/function_libs/torch_lib/ops/core.py"
PATCHES = (
    *missing_translations(
        {
            "aten.copysign.Tensor": _copysign,
            "aten.copysign.Scalar": _copysign,
            "aten.lgamma.default": partial(log_of_gamma, op),
            "aten.hypot.default": _hypot,
            "aten.fmax.default": _ignoring_nan("Or", larger, "Max"),
            "aten.fmin.default": _ignoring_nan("And", smaller, "Min"),
            "aten.rrelu_with_noise_functional.default": _rrelu,
            "aten._cdist_forward.default": _cdist,
        },
    ),
    *translations(
        {"aten.dot.default": _dot, "aten.vdot.default": _dot},
        why="torchlib writes MatMul, which ONNX Runtime has of no integers of 8 and 16 bits",
        upstream=f"{_CORE}: aten_dot",
        until="torchlib's dot is of every dtype",
    ),
    *translations(
        {
            "aten.special_erfcx.default": partial(scaled_erfc, op),
            "aten.special_log_ndtr.default": partial(log_of_normal, op),
        },
        why="its decomposition overflows: erfcx(30) and log_ndtr(-30) are NaN",
        upstream="onnxscript/function_libs/torch_lib/ops/special.py: aten_special_erfcx",
        until="torchlib computes it without exp(x * x)",
    ),
    *translations(
        {"aten.any.dims": _over_axes("aten_any_dims"), "aten.all.dims": _over_axes("aten_all_dims")},
        why="torchlib reduces all axes where it is told none: dim=()",
        upstream=f"{_CORE}: aten_any_dims",
        until="torchlib tells dim=() from dim=None",
    ),
    *translations(
        {"aten.signbit.default": _signbit},
        why="torchlib's is false for -0.0",
        upstream=f"{_CORE}: aten_signbit",
        until="torchlib reads the sign of -0.0",
    ),
    *translations(
        {"aten.atan2.default": partial(angle_of, op)},
        why="torchlib divides by zero on an axis: the signs of zeros are lost, and two infinities are NaN",
        upstream=f"{_CORE}: aten_atan2",
        until="torchlib's atan2 is right on the axes, or ONNX has Atan2",
    ),
    *translations(
        {
            "aten.logaddexp.default": partial(log_of_two, op),
            "aten.logaddexp2.default": partial(log2_of_two, op),
            "aten.logsumexp.default": _logsumexp,
            "aten.log_sigmoid.default": partial(log_of_sigmoid, op),
        },
        why="torchlib takes the logarithm of what overflows, or is 0, before: exp(89) is infinite in float32",
        upstream=f"{_CORE}: aten_logaddexp",
        until="torchlib subtracts the larger one first",
    ),
    *translations(
        {"aten.clamp.Tensor": _clamp},
        why="of the maximum and the minimum that torchlib writes, onnxscript's optimiser makes an invalid model where "
        "one value is clamped twice, as it gives the bounds of both one name",
        upstream=f"{_CORE}: aten_clamp_tensor",
        until="the optimiser's rule of Max and Min names each constant anew",
    ),
)
