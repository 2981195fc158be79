"""What torch's exporters have wrong at the ends of a function's range, or lack, written once for both: `op` writes the
operators of the one or of the other. Tensors are of floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def log_of_sigmoid(op: Any, x: Any) -> Any:
    """By Softplus: Log of Sigmoid is minus infinity from about -104 on."""
    return op.Neg(op.Softplus(op.Neg(x)))


def log_of_sum(op: Any, x: Any, reduced: Callable[[str, Any], Any]) -> Any:
    """log(sum(exp(x))) along axes that stay, one long, against the largest: ONNX Runtime's own ReduceLogSumExp goes by
    the first, and where that is -inf by 0. `reduced`: what an operator of this name makes of a tensor along them."""
    most = reduced("ReduceMax", x)
    base = op.Where(op.IsInf(most), op.CastLike(0.0, most), most)  # inf - inf is no number
    return op.Add(op.Log(reduced("ReduceSum", op.Exp(op.Sub(x, base)))), base)


def log_of_two(op: Any, self: Any, other: Any) -> Any:
    """log(exp(self) + exp(other)), against the larger one: exp of 89 is infinite."""
    return _log_of_two(op, self, other, 1.0)


def log2_of_two(op: Any, self: Any, other: Any) -> Any:
    """The same to the base of 2."""
    return _log_of_two(op, self, other, math.log(2))


def _log_of_two(op: Any, self: Any, other: Any, unit: float) -> Any:
    high, low = op.Max(self, other), op.Min(self, other)
    scale = op.CastLike(unit, high)
    more = op.Div(op.Softplus(op.Mul(op.Sub(low, high), scale)), scale)
    return op.Where(op.IsInf(high), high, op.Add(high, more))  # inf - inf is no number


def angle_of(op: Any, y: Any, x: Any) -> Any:
    """atan2(y, x), from the eighth of the circle next to an axis: a quotient of zeros, or of infinities, is none."""
    tall, wide = op.Abs(y), op.Abs(x)
    long, short = op.Max(tall, wide), op.Min(tall, wide)
    zero, one = op.CastLike(0.0, x), op.CastLike(1.0, x)
    share = op.Div(short, op.Where(op.Equal(long, zero), one, long))
    turn = op.Atan(op.Where(op.And(op.IsInf(short), op.IsInf(long)), one, share))
    turn = op.Where(op.Greater(tall, wide), op.Sub(op.CastLike(math.pi / 2, x), turn), turn)
    turn = op.Where(is_negative(op, x), op.Sub(op.CastLike(math.pi, x), turn), turn)
    return op.Where(is_negative(op, y), op.Neg(turn), turn)


def is_negative(op: Any, x: Any) -> Any:
    """Also of -0.0, which is not less than 0: what it divides is."""
    zero = op.CastLike(0.0, x)
    return op.Or(op.Less(x, zero), op.Less(op.Reciprocal(x), zero))


def scaled_erfc(op: Any, x: Any) -> Any:
    """exp(x^2) erfc(x), to 1.2e-7 of it. Formula: erfcc of Numerical Recipes, section 6.2 (Chebyshev fitting)."""
    size = op.Abs(x)
    step, made = _log_of_scaled_erfc(op, size)
    right = op.Mul(step, op.Exp(made))
    left = op.Sub(op.Mul(op.CastLike(2.0, x), op.Exp(op.Mul(x, x))), right)
    return op.Where(op.Less(x, op.CastLike(0.0, x)), left, right)


def log_of_normal(op: Any, x: Any) -> Any:
    """The log of the normal distribution's share below x: far below 0 that share is 0 in itself."""
    z = op.Mul(op.Abs(x), op.CastLike(math.sqrt(0.5), x))
    step, made = _log_of_scaled_erfc(op, z)
    half = op.CastLike(0.5, x)
    far = op.Sub(op.Add(op.Log(op.Mul(step, half)), made), op.Mul(op.Mul(x, x), half))
    near = op.Log(op.Sub(op.CastLike(1.0, x), op.Exp(far)))
    return op.Where(op.Less(x, op.CastLike(0.0, x)), far, near)


def log_of_gamma(op: Any, x: Any) -> Any:
    """log(|gamma(x)|), to 7e-7 of it but for next to its zeros. Formulas: Lanczos, with the numbers of P. Godfrey for
    g = 7, from 0.5 on; and Euler's reflection below."""
    one, half = op.CastLike(1.0, x), op.CastLike(0.5, x)
    is_low = op.Less(x, half)
    value = op.Where(is_low, op.Sub(one, x), x)
    made = op.CastLike(_GAMMA[0], x)
    for at, each in enumerate(_GAMMA[1:]):
        made = op.Add(made, op.Div(op.CastLike(each, x), op.Add(value, op.CastLike(at * 1.0, x))))
    log = op.Log(op.Add(value, op.CastLike(6.5, x)))
    bulk = op.Mul(op.Sub(value, half), op.Sub(log, one))  # as one product: of infinity the sum would be no number
    right = op.Add(op.Add(bulk, op.Log(made)), op.CastLike(0.5 * math.log(2 * math.pi) - 7, x))
    share = op.Sub(x, op.Floor(x))
    wave = op.Sin(op.Mul(op.CastLike(math.pi, x), op.Min(share, op.Sub(one, share))))
    left = op.Sub(op.Sub(op.CastLike(math.log(math.pi), x), op.Log(wave)), right)
    return op.Where(is_low, left, right)


_GAMMA = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip


def _log_of_scaled_erfc(op: Any, z: Any) -> tuple[Any, Any]:
    """Two numbers t and p, with exp(z^2) erfc(z) = t exp(p), of z from 0 on."""
    two = op.CastLike(2.0, z)
    step = op.Div(two, op.Add(two, z))
    made = op.CastLike(_ERFC[-1], z)
    for each in reversed(_ERFC[:-1]):
        made = op.Add(op.Mul(made, step), op.CastLike(each, z))
    return step, made


_ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
    0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip
