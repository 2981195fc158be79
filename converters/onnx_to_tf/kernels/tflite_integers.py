"""Integer arithmetic that TFLite has no kernels for, exact, in int32 and int64; narrower integers are carried in these.

TFLite divides int32 only, has exclusive-or and right shifts of int32 but no other operator on bits, and no power of
int64. Its sums and products wrap around. With uint64 it can do nothing but read its bits as other numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..lazy_tensorflow import tf
from ..values import TfTensor
from .exact_quotients import truncated_remainder

_HALF = 16  # bits


def truncated_quotient(a: TfTensor, b: TfTensor) -> TfTensor:
    """Return a / b cut towards zero; int64 in three float32 steps, each off by 2^-22 of the rest: multiples exact."""
    if a.dtype == tf.int32:
        return tf.truncatediv(a, b)
    left = a - truncated_remainder(a, b)
    quotient, divisor = tf.zeros_like(left), tf.cast(b, tf.float32)
    for _ in range(3):
        step = tf.cast(tf.round(tf.cast(left, tf.float32) / divisor), a.dtype)
        quotient, left = quotient + step, left - step * b
    return quotient


def absolute(x: TfTensor) -> TfTensor:
    """Return |x|, and the lowest number for itself, as it wraps around."""
    return tf.abs(x) if x.dtype != tf.int64 else tf.maximum(x, -x)


def sign(x: TfTensor) -> TfTensor:
    """Return -1, 0 or 1 in x's dtype."""
    return tf.sign(x) if x.dtype != tf.int64 else tf.clip_by_value(x, -1, 1)


def power(base: TfTensor, exponent: TfTensor) -> TfTensor:
    """Raise integers to non-negative ones by squaring; above 2^31 only parity counts: of 0, 1, -1; others overflow."""
    if base.dtype == tf.int32:
        return tf.pow(base, exponent)
    most = 2**31 - 2
    bits = tf.cast(tf.where(exponent > most, most + tf.math.floormod(exponent, 2), exponent), tf.int32)
    shape = tf.broadcast_dynamic_shape(tf.shape(base), tf.shape(bits))
    state = (tf.broadcast_to(base, shape), tf.broadcast_to(bits, shape), tf.ones(shape, base.dtype))

    def squared(factor: TfTensor, rest: TfTensor, answer: TfTensor) -> tuple[TfTensor, ...]:
        odd = tf.equal(tf.math.floormod(rest, 2), 1)
        return factor * factor, rest // 2, tf.where(odd, answer * factor, answer)

    return tf.while_loop(lambda _f, rest, _a: tf.reduce_max(rest, None) > 0, squared, state)[2]


def _by_words(function: Callable[[TfTensor, TfTensor], TfTensor], a: TfTensor, b: TfTensor) -> TfTensor:
    """Apply a function of int32; 64-bit integers are two of them along an axis of their own."""
    if a.dtype == tf.int32:
        return function(a, b)
    return tf.bitcast(function(tf.bitcast(a, tf.int32), tf.bitcast(b, tf.int32)), a.dtype)


def _and_of_words(a: TfTensor, b: TfTensor) -> TfTensor:
    """Compute the and in halves, because a + b = (a xor b) + 2 (a and b) must not overflow."""
    highs = [tf.bitwise.right_shift(word, _HALF) for word in (a, b)]
    lows = [word - high * 2**_HALF for word, high in zip((a, b), highs, strict=True)]
    high, low = (tf.bitwise.right_shift(x + y - tf.bitwise.bitwise_xor(x, y), 1) for x, y in (highs, lows))
    return high * 2**_HALF + low


def _or_of_words(a: TfTensor, b: TfTensor) -> TfTensor:
    return tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(a, b), _and_of_words(a, b))


def shift_bits(x: TfTensor, places: TfTensor, *, left: bool) -> TfTensor:
    """Compute `Kernels.shift_bits` in what TFLite has."""
    bits = x.dtype.size * 8
    inside = tf.logical_and(places >= 0, places < bits)
    if left:
        powers = tf.constant([*(1 << at if at < 63 else -(1 << 63) for at in range(bits)), 0], tf.int64)
        wide = cast(x, tf.int64) * tf.gather(powers, tf.where(inside, places, bits))
        return cast(wide, x.dtype)
    if x.dtype.size > 4:
        return _right_by_words(x, places, inside)
    word = x if x.dtype.size >= 4 else tf.cast(x, tf.int32)
    moved = tf.bitwise.right_shift(word, tf.cast(tf.where(inside, places, bits - 1), word.dtype))
    result = moved if not x.dtype.is_unsigned else tf.where(inside, moved, tf.zeros_like(moved))
    return tf.cast(result, x.dtype)


def _right_by_words(x: TfTensor, places: TfTensor, inside: TfTensor) -> TfTensor:
    """Shift 64 bits to the right as a low word and a high one.

    Each word is shifted by less than 32 places, and by 32 more where they are more. The bits that leave a word are
    added to the one below, or are the sign's: times 2^32 over as many powers of two.
    """
    unsigned = x.dtype.is_unsigned
    low, high = tf.unstack(tf.bitcast(x, tf.int32), axis=-1)
    places = tf.where(inside, places, 63)
    near, far = tf.math.floormod(places, 32), places >= 32
    above = tf.gather(tf.constant([0, -(2**31), *(1 << 32 - at for at in range(2, 32))]), near)
    top = tf.bitwise.right_shift(high, near) + (_is_negative(high) * above if unsigned else 0)
    bottom = tf.bitwise.right_shift(low, near) + (high + _is_negative(low)) * above
    sign = tf.zeros_like(high) if unsigned else tf.bitwise.right_shift(high, 31)
    words = tf.stack([tf.where(far, top, bottom), tf.where(far, sign, top)], axis=-1)
    return tf.bitcast(tf.where(inside[..., None], words, 0) if unsigned else words, x.dtype)


def _is_negative(x: TfTensor) -> TfTensor:
    return tf.cast(x < 0, x.dtype)


def cast(x: TfTensor, dtype: Any) -> TfTensor:
    """Cast integers to another width, modulo that: uint64 by way of int64, which has the same bits."""
    wide = tf.bitcast(x, tf.int64) if x.dtype == tf.uint64 else x
    return tf.bitcast(tf.cast(wide, tf.int64), tf.uint64) if dtype == tf.uint64 else tf.cast(wide, dtype)


FUNCTIONS: dict[str, Callable[..., TfTensor]] = {
    "abs": absolute,
    "bitwise.bitwise_and": lambda a, b: _by_words(_and_of_words, a, b),
    "bitwise.bitwise_or": lambda a, b: _by_words(_or_of_words, a, b),
    "bitwise.bitwise_xor": lambda a, b: _by_words(tf.bitwise.bitwise_xor, a, b),
    "bitwise.invert": lambda x: -1 - x,  # every bit, in two's complement
    "pow": power,
    "sign": sign,
    "truncatediv": truncated_quotient,
}
