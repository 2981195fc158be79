"""Formulas of functions that torch's exporters lack, or have wrong at the ends of their range, written once for both.

`op` writes the operators of the one exporter or of the other. Tensors are of floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeVar

FLOAT, INT32, INT64, BOOL, DOUBLE = 1, 6, 7, 9, 11  # onnx.TensorProto's
GraphValue = TypeVar("GraphValue")  # a tensor of the graph: an OnnxValue or a TracedValue
GraphValue_co = TypeVar("GraphValue_co", covariant=True)


class OpWriter(Protocol[GraphValue_co]):
    """Writes ONNX operators into the graph of either exporter, as in `op.Add(x, 1.0)`: numbers become constants."""

    def __getattr__(self, operator: str, /) -> Callable[..., GraphValue_co]: ...


def log_of_sigmoid(op: OpWriter[GraphValue], x: GraphValue) -> GraphValue:
    """Write log(sigmoid(x)) by Softplus: Log of Sigmoid is minus infinity below about -104."""
    return op.Neg(op.Softplus(op.Neg(x)))


def log_of_sum(op: OpWriter[GraphValue], x: GraphValue, reduced: Callable[[str, GraphValue], GraphValue]) -> GraphValue:
    """Write log(sum(exp(x))) along axes that stay, of length 1, relative to the largest element.

    ONNX Runtime's own ReduceLogSumExp takes the first element in its place, and 0 if that is -inf. `reduced` writes
    the operator of a name along the axes.
    """
    most = reduced("ReduceMax", x)
    base = op.Where(op.IsInf(most), op.CastLike(0.0, most), most)  # inf - inf is NaN
    return op.Add(op.Log(reduced("ReduceSum", op.Exp(op.Sub(x, base)))), base)


def log2_of_two(op: OpWriter[GraphValue], self: GraphValue, other: GraphValue) -> GraphValue:
    """Write log2(2**self + 2**other)."""
    return log_of_two(op, self, other, math.log(2))


def log_of_two(op: OpWriter[GraphValue], self: GraphValue, other: GraphValue, unit: float = 1.0) -> GraphValue:
    """Write log(exp(self) + exp(other)) relative to the larger one: exp of 89 is infinite. `unit`: log of the base."""
    high, low = op.Max(self, other), op.Min(self, other)
    scale = op.CastLike(unit, high)
    more = op.Div(op.Softplus(op.Mul(op.Sub(low, high), scale)), scale)
    return op.Where(op.IsInf(high), high, op.Add(high, more))  # inf - inf is NaN


def angle_of(op: OpWriter[GraphValue], y: GraphValue, x: GraphValue) -> GraphValue:
    """Write atan2(y, x) from the eighth of the circle next to an axis, as 0 / 0 and inf / inf are NaN."""
    tall, wide = op.Abs(y), op.Abs(x)
    long, short = op.Max(tall, wide), op.Min(tall, wide)
    zero, unit = op.CastLike(0.0, x), op.CastLike(1.0, x)
    share = op.Div(short, op.Where(op.Equal(long, zero), unit, long))
    turn = op.Atan(op.Where(op.And(op.IsInf(short), op.IsInf(long)), unit, share))
    turn = op.Where(op.Greater(tall, wide), op.Sub(op.CastLike(math.pi / 2, x), turn), turn)
    turn = op.Where(is_negative(op, x), op.Sub(op.CastLike(math.pi, x), turn), turn)
    return op.Where(is_negative(op, y), op.Neg(turn), turn)


def is_negative(op: OpWriter[GraphValue], x: GraphValue) -> GraphValue:
    """Write whether x is negative; -0.0 is, whose reciprocal is less than 0."""
    zero = op.CastLike(0.0, x)
    return op.Or(op.Less(x, zero), op.Less(op.Reciprocal(x), zero))


def scaled_erfc(op: OpWriter[GraphValue], x: GraphValue) -> GraphValue:
    """Write exp(x^2) erfc(x), to 1.2e-7 of it. Formula: erfcc of Numerical Recipes, section 6.2 (Chebyshev fitting)."""
    size = op.Abs(x)
    step, total = _log_of_scaled_erfc(op, size)
    right = op.Mul(step, op.Exp(total))
    left = op.Sub(op.Mul(op.CastLike(2.0, x), op.Exp(op.Mul(x, x))), right)
    return op.Where(op.Less(x, op.CastLike(0.0, x)), left, right)


def log_of_normal(op: OpWriter[GraphValue], x: GraphValue) -> GraphValue:
    """Write the log of the normal distribution's share below x: far below 0 the share itself is 0."""
    z = op.Mul(op.Abs(x), op.CastLike(math.sqrt(0.5), x))
    step, total = _log_of_scaled_erfc(op, z)
    half = op.CastLike(0.5, x)
    far = op.Sub(op.Add(op.Log(op.Mul(step, half)), total), op.Mul(op.Mul(x, x), half))
    near = op.Log(op.Sub(op.CastLike(1.0, x), op.Exp(far)))
    return op.Where(op.Less(x, op.CastLike(0.0, x)), far, near)


def log_of_gamma(op: OpWriter[GraphValue], x: GraphValue) -> GraphValue:
    """Write log(|gamma(x)|), to 7e-7 of it except next to its zeros.

    Formulas: Lanczos, with the coefficients of P. Godfrey for g = 7, from 0.5 on; Euler's reflection below.
    """
    unit, half = op.CastLike(1.0, x), op.CastLike(0.5, x)
    is_low = op.Less(x, half)
    value = op.Where(is_low, op.Sub(unit, x), x)
    total = op.CastLike(_GAMMA[0], x)
    for at, coefficient in enumerate(_GAMMA[1:]):
        total = op.Add(total, op.Div(op.CastLike(coefficient, x), op.Add(value, op.CastLike(at * 1.0, x))))
    log = op.Log(op.Add(value, op.CastLike(6.5, x)))
    bulk = op.Mul(op.Sub(value, half), op.Sub(log, unit))  # as one product: at infinity the sum would be NaN
    right = op.Add(op.Add(bulk, op.Log(total)), op.CastLike(0.5 * math.log(2 * math.pi) - 7, x))
    share = op.Sub(x, op.Floor(x))
    wave = op.Sin(op.Mul(op.CastLike(math.pi, x), op.Min(share, op.Sub(unit, share))))
    left = op.Sub(op.Sub(op.CastLike(math.log(math.pi), x), op.Log(wave)), right)
    return op.Where(is_low, left, right)


_GAMMA = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip


def _log_of_scaled_erfc(op: OpWriter[GraphValue], z: GraphValue) -> tuple[GraphValue, GraphValue]:
    """Write t and p with exp(z^2) erfc(z) = t exp(p), for z from 0 on."""
    two = op.CastLike(2.0, z)
    step = op.Div(two, op.Add(two, z))
    total = op.CastLike(_ERFC[-1], z)
    for coefficient in reversed(_ERFC[:-1]):
        total = op.Add(op.Mul(total, step), op.CastLike(coefficient, z))
    return step, total


_ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
    0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip
