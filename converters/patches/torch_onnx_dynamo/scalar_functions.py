"""What torch's dynamo exporter has no ONNX of, or the wrong one, number by number."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from ...lazy_import import LazyLibrary
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
from ..torch_shared.onnxscript_opset import Translations, ir, op
from ..torch_shared.wide_integers import clamped, is_wide, larger, smaller
from .cumulative_operators import end_of

_nn: Any = LazyLibrary("onnxscript.function_libs.torch_lib.ops", "nn")


def numbers() -> Translations:
    """A part of the exporter's `custom_translation_table`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.vdot.default: _inner_product,
        aten.dot.default: _inner_product,
        aten.signbit.default: _is_negative,
        aten.copysign.Tensor: _with_sign_of,
        aten.copysign.Scalar: _with_sign_of,
        aten.atan2.default: partial(angle_of, op),
        aten.logaddexp.default: partial(log_of_two, op),
        aten.logaddexp2.default: partial(log2_of_two, op),
        aten.logsumexp.default: _log_of_sum,
        aten.special_erfcx.default: partial(scaled_erfc, op),
        aten.special_log_ndtr.default: partial(log_of_normal, op),
        aten.lgamma.default: partial(log_of_gamma, op),
        aten.log_sigmoid.default: partial(log_of_sigmoid, op),
        aten.hypot.default: _hypotenuse,
        aten.clamp.Tensor: _within,
        aten.fmax.default: _larger_number,
        aten.fmin.default: _smaller_number,
        aten.rrelu_with_noise_functional.default: _mean_slope,
        aten._cdist_forward.default: _distances,
        aten.scatter_reduce.two: scatter,
    }


def _log_of_sum(self: Any, dim: Any, keepdim: bool = False) -> Any:
    if self.rank == 0:
        return self
    made = log_of_sum(op, self, lambda name, value: getattr(op, name)(value, dim, keepdims=True))
    return made if keepdim else op.Squeeze(made, dim)


def _inner_product(self: Any, other: Any) -> Any:
    return op.ReduceSum(op.Mul(self, other), keepdims=False)


def _is_negative(self: Any) -> Any:
    if self.dtype.is_floating_point():
        return is_negative(op, self)
    return op.Less(self, op.CastLike(op.Constant(value_int=0), self))


def _with_sign_of(self: Any, other: Any) -> Any:
    size = op.Abs(self if self.dtype.is_floating_point() else op.Cast(self, to=ir.DataType.FLOAT))
    if isinstance(other, bool | int | float):
        return op.Neg(size) if math.copysign(1.0, other) < 0 else size
    return op.Where(_is_negative(other), op.Neg(size), size)


def _within(self: Any, min: Any = None, max: Any = None) -> Any:  # noqa: A002  (the operator's own arguments)
    """Between numbers as one operator: of the maximum and the minimum that the exporter writes, its optimiser makes an
    invalid model where one value is clamped twice, as it gives the bounds of both one name."""
    bounds = [each if each is None else op.CastLike(each, self) for each in (min, max)]
    if is_wide(self):
        return clamped(op, self, *bounds)
    if all(each is None or each.rank == 0 for each in (min, max)):
        return op.Clip(self, *bounds)
    for bound, narrowed in zip(bounds, (op.Max, op.Min), strict=True):
        self = self if bound is None else narrowed(self, bound)
    return self


def _larger_number(self: Any, other: Any) -> Any:
    """Of a NaN and a number the number."""
    if self.dtype == ir.DataType.BOOL:
        return op.Or(self, other)
    return larger(op, self, other) if is_wide(self, other) else _of_numbers(op.Max, self, other)


def _smaller_number(self: Any, other: Any) -> Any:
    if self.dtype == ir.DataType.BOOL:
        return op.And(self, other)
    return smaller(op, self, other) if is_wide(self, other) else _of_numbers(op.Min, self, other)


def _of_numbers(chosen: Any, self: Any, other: Any) -> Any:
    if not self.dtype.is_floating_point():
        return chosen(self, other)
    return op.Where(op.IsNaN(self), other, op.Where(op.IsNaN(other), self, chosen(self, other)))


def _mean_slope(  # noqa: PLR0917  (the operator's own arguments)
    self: Any,
    noise: Any,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,  # noqa: ARG001
) -> tuple[Any, Any]:
    """A randomized ReLU as it answers in evaluation, and the noise that it has not drawn."""
    if training:
        raise NotImplementedError("F.rrelu(training=True) draws random slopes")
    return _nn.aten_leaky_relu(self, (lower + upper) / 2), noise


def _hypotenuse(self: Any, other: Any) -> Any:
    """Against the longer leg: the square of a large number is infinite, and that of a small one 0."""
    one, two = op.Abs(self), op.Abs(other)
    long, short = op.Max(one, two), op.Min(one, two)
    unit = op.CastLike(op.Constant(value_float=1.0), self)
    zero = op.CastLike(op.Constant(value_float=0.0), self)
    alone = op.Or(op.Equal(long, zero), op.IsInf(long))
    part = op.Div(op.Where(alone, zero, short), op.Where(alone, unit, long))
    return op.Mul(long, op.Sqrt(op.Add(unit, op.Mul(part, part))))


def _distances(x1: Any, x2: Any, p: float, compute_mode: int | None = None) -> Any:  # noqa: ARG001  (how fast, not what)
    """Between the rows of the one and of the other: (..., P, M), (..., R, M) -> (..., P, R)."""
    apart = op.Abs(op.Sub(op.Unsqueeze(x1, [-2]), op.Unsqueeze(x2, [-3])))
    if p == 0:
        return op.ReduceSum(op.Cast(op.Greater(apart, op.CastLike(0.0, apart)), to=x1.dtype), [-1], keepdims=False)
    if p == 1:
        return op.ReduceSum(apart, [-1], keepdims=False)
    if p == 2:
        return op.ReduceL2(apart, [-1], keepdims=False)
    if math.isinf(p):
        return op.ReduceMax(apart, [-1], keepdims=False)
    power, root = (op.Constant(value=ir.tensor(value, dtype=x1.dtype)) for value in (p, 1 / p))
    return op.Pow(op.ReduceSum(op.Pow(apart, power), [-1], keepdims=False), root)


def scatter(  # noqa: PLR0917  (the operator's own arguments)
    self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True
) -> Any:
    """The exporter's own takes the last number for a mean, and the least finite one where all are -inf."""
    kind, rank = self.dtype, self.rank
    if rank == 0:
        self, index, src = (op.Reshape(each, [1]) for each in (self, index, src))
    elif index.shape != src.shape:  # what lies beyond the places is not read
        src = op.Slice(src, [0] * rank, op.Shape(index), list(range(rank)))
    if not include_self:
        ends = {"amin": end_of(kind, lowest=False), "amax": end_of(kind, lowest=True), "prod": 1}
        self = op.ScatterElements(self, index, _filled(ends.get(reduce, 0), kind, index), axis=dim)
    made = op.ScatterElements(self, index, src, axis=dim, reduction=_REDUCTIONS[reduce])
    if reduce == "mean":
        start = _filled(int(include_self), kind, self)
        times = op.ScatterElements(start, index, _filled(1, kind, index), axis=dim, reduction="add")
        made = _shared(made, op.Max(times, _filled(1, kind, self)), kind)
    return op.Squeeze(made, [0]) if rank == 0 else made


_REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amin": "min", "amax": "max"}


def _shared(total: Any, count: Any, kind: Any) -> Any:
    """A sum by its count; of integers rounded down."""
    if kind.is_floating_point():
        return op.Div(total, count)
    return op.Div(op.Sub(total, op.Mod(total, count)), count)


def _filled(value: float, kind: Any, like: Any) -> Any:
    return op.Expand(op.Constant(value=ir.tensor(value, dtype=kind)), op.Shape(like))
