"""Integer arithmetic that TFLite has no kernels for, exact, in int32 and int64; narrower ones are carried in these.

TFLite divides int32 only, has exclusive-or and right shifts of int32 but no other operator on bits, and no power of
int64. Its sums and products wrap around. With uint64 it has nothing but its bits read as other numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..lazy_tensorflow import tf
from ..values import TfTensor

_HALF = 16  # bits


def truncated_remainder(a: TfTensor, b: TfTensor) -> TfTensor:
    """The remainder with the sign of a: from the one with the sign of b, which differs by b."""
    rest = tf.math.floormod(a, b)
    other = tf.logical_and(tf.not_equal(rest, 0), tf.not_equal(a < 0, rest < 0))
    return tf.where(other, rest - b, rest)


def truncated_quotient(a: TfTensor, b: TfTensor) -> TfTensor:
    """The quotient a / b cut towards zero. An int64 is divided in float32, three times: each time the error is 2^-22
    of what was left, and what is left of an exact multiple is nothing in the end."""
    if a.dtype == tf.int32:
        return tf.truncatediv(a, b)
    left = a - truncated_remainder(a, b)
    quotient, divisor = tf.zeros_like(left), tf.cast(b, tf.float32)
    for _ in range(3):
        step = tf.cast(tf.round(tf.cast(left, tf.float32) / divisor), a.dtype)
        quotient, left = quotient + step, left - step * b
    return quotient


def absolute(x: TfTensor) -> TfTensor:
    """|x|, and the lowest number for itself, as it wraps around."""
    return tf.abs(x) if x.dtype != tf.int64 else tf.maximum(x, -x)


def sign(x: TfTensor) -> TfTensor:
    """-1, 0 or 1 in x's dtype."""
    return tf.sign(x) if x.dtype != tf.int64 else tf.clip_by_value(x, -1, 1)


def power(base: TfTensor, exponent: TfTensor) -> TfTensor:
    """Integers to the power of integers that are not negative, by squaring. Exponents above 2^31 keep their parity,
    which is all that 0, 1 and -1 ask for; every other base has overflowed long before."""
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


def bitwise_and(a: TfTensor, b: TfTensor) -> TfTensor:
    """Bits that both have."""
    return _by_words(_and_of_words, a, b)


def bitwise_or(a: TfTensor, b: TfTensor) -> TfTensor:
    """Bits that one of them has."""
    return _by_words(lambda x, y: tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(x, y), _and_of_words(x, y)), a, b)


def bitwise_xor(a: TfTensor, b: TfTensor) -> TfTensor:
    """Bits that just one of them has."""
    return _by_words(tf.bitwise.bitwise_xor, a, b)


def invert(x: TfTensor) -> TfTensor:
    """Every bit turned: -1 - x in two's complement."""
    return -1 - x


def _by_words(function: Callable[[TfTensor, TfTensor], TfTensor], a: TfTensor, b: TfTensor) -> TfTensor:
    """A function of int32; 64-bit integers as two of them along an axis of their own."""
    if a.dtype == tf.int32:
        return function(a, b)
    return tf.bitcast(function(tf.bitcast(a, tf.int32), tf.bitcast(b, tf.int32)), a.dtype)


def _and_of_words(a: TfTensor, b: TfTensor) -> TfTensor:
    """In halves, for a + b = (a xor b) + 2 (a and b) must not overflow."""
    highs, lows = zip(*(_halves(each) for each in (a, b)), strict=True)
    high, low = (tf.bitwise.right_shift(x + y - tf.bitwise.bitwise_xor(x, y), 1) for x, y in (highs, lows))
    return high * 2**_HALF + low


def _halves(x: TfTensor) -> tuple[TfTensor, TfTensor]:
    high = tf.bitwise.right_shift(x, _HALF)
    return high, x - high * 2**_HALF


def shifted(x: TfTensor, places: TfTensor, *, left: bool) -> TfTensor:
    """The bits of x moved by int32 places to higher ones or to lower ones. By all of them or more, or by a negative
    number, nothing is left, but the sign of a signed number that is moved to lower places."""
    bits = x.dtype.size * 8
    inside = tf.logical_and(places >= 0, places < bits)
    if left:
        powers = tf.constant([*(1 << at if at < 63 else -(1 << 63) for at in range(bits)), 0], tf.int64)
        wide = cast(x, tf.int64) * tf.gather(powers, tf.where(inside, places, bits))
        return cast(wide, x.dtype)
    if x.dtype.size > 4:
        return _right_by_words(x, places, inside)
    whole = x if x.dtype.size >= 4 else tf.cast(x, tf.int32)
    moved = tf.bitwise.right_shift(whole, tf.cast(tf.where(inside, places, bits - 1), whole.dtype))
    kept = moved if not x.dtype.is_unsigned else tf.where(inside, moved, tf.zeros_like(moved))
    return tf.cast(kept, x.dtype)


def _right_by_words(x: TfTensor, places: TfTensor, inside: TfTensor) -> TfTensor:
    """64 bits as a low word and a high one, each shifted by less than 32 places, and by 32 more where they are more.
    What leaves a word is added to the one below, or is the sign's: times 2^32 over as many powers of two."""
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
    """Integers of another width, modulo that: uint64 by way of int64, which has the same bits."""
    wide = tf.bitcast(x, tf.int64) if x.dtype == tf.uint64 else x
    return tf.bitcast(tf.cast(wide, tf.int64), tf.uint64) if dtype == tf.uint64 else tf.cast(wide, dtype)


FUNCTIONS: dict[str, Callable[..., TfTensor]] = {
    "abs": absolute, "bitwise.bitwise_and": bitwise_and, "bitwise.bitwise_or": bitwise_or,
    "bitwise.bitwise_xor": bitwise_xor, "bitwise.invert": invert, "pow": power, "sign": sign,
    "truncatediv": truncated_quotient,
}  # fmt: skip
