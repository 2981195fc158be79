"""Comparison, choice and Boolean algebra."""

from __future__ import annotations

import numpy as np

from ...lazy_tensorflow import tf
from ...lowerings import ANY, BOOL, FLOATS, INTEGERS, NUMBERS, lowers
from ...operator_context import OperatorContext
from ...values import Size, TfTensor, Value, as_int32, broadcast, is_axis_size, map_elements

# the first opset, the dtypes of each operator, and TensorFlow's name of it
_BINARY: dict[str, tuple[int, frozenset[str], str]] = {
    "And": (7, BOOL, "logical_and"),
    "BitwiseAnd": (18, INTEGERS, "bitwise.bitwise_and"),
    "BitwiseOr": (18, INTEGERS, "bitwise.bitwise_or"),
    "BitwiseXor": (18, INTEGERS, "bitwise.bitwise_xor"),
    "Greater": (7, NUMBERS, "greater"),
    "GreaterOrEqual": (12, NUMBERS, "greater_equal"),
    "Less": (7, NUMBERS, "less"),
    "LessOrEqual": (12, NUMBERS, "less_equal"),
    "Or": (7, BOOL, "logical_or"),
    "Xor": (7, BOOL, "math.logical_xor"),
}


def _binary(name: str, since: int, dtypes: frozenset[str], function: str) -> None:
    @lowers(name, since=since, T=dtypes)
    def lowering(op: OperatorContext) -> Value:
        return broadcast(op.kernels.elementwise(function), op.value(0), op.value(1))


for _name, (_since, _dtypes, _function) in _BINARY.items():
    _binary(_name, _since, _dtypes, _function)


@lowers("Equal", since=7, T=ANY)
def equal(op: OperatorContext) -> Value:
    """Lower Equal. A size and a negative number never are equal: exporters ask whether an axis is -1."""
    a, b = op.value(0), op.value(1)
    if (a.parts is not None or b.parts is not None) and max(a.rank, b.rank) < 2:
        left, right = a.size_parts(), b.size_parts()
        if left is not None and right is not None and len(left) == len(right):
            answers = [_same_size(*pair) for pair in zip(left, right, strict=True)]
            if None not in answers:
                return op.known(np.array(answers, bool).reshape(max(a.shape, b.shape, key=len)))
    return broadcast(tf.equal, a, b)


def _same_size(a: Size, b: Size) -> bool | None:
    """Return whether two sizes are equal, or None where that is known only when the model runs."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    number, tensor = (a, b) if isinstance(a, int) else (b, a)
    return False if isinstance(number, int) and number < 0 and is_axis_size(tensor) else None


@lowers("Where", since=9, B=BOOL, T=ANY)
def where(op: OperatorContext) -> Value:
    """Lower Where: the second input where the first is true, and else the third."""
    choice, yes, no = op.value(0), op.value(1), op.value(2)
    rank = max(choice.rank, yes.rank, no.rank)
    if choice.array is not None and (yes.parts is not None or no.parts is not None):
        a, b = yes.size_parts(exact=True), no.size_parts(exact=True)
        if a is not None and b is not None and len(a) == len(b) == choice.array.size and rank < 2:
            chosen = [x if take else y for take, x, y in zip(choice.array.reshape(-1), a, b, strict=True)]
            return op.sized(chosen, scalar=rank == 0, dtype=yes.dtype)
    return broadcast(tf.where, choice, yes, no)


@lowers("BitShift", since=11, until=28, T=INTEGERS)
def bit_shift(op: OperatorContext) -> Value:
    """Lower BitShift, to the left or to the right; opset 28 defines shifts by all bits or by a negative number."""
    left = op.word("direction", "", ("LEFT", "RIGHT")) == "LEFT"

    def shifted(x: TfTensor, places: TfTensor) -> TfTensor:
        signed = op.kernels.cast(places, "int64") if places.dtype == tf.uint64 else places  # beyond that it is negative
        return op.kernels.shift_bits(x, as_int32(signed), left=left)

    return broadcast(shifted, op.value(0), op.value(1))


@lowers("IsNaN", since=9, T1=FLOATS)
def is_nan(op: OperatorContext) -> Value:
    """Lower IsNaN."""
    return map_elements(op.value(0), tf.math.is_nan)


@lowers("IsInf", since=10, T1=FLOATS)
def is_inf(op: OperatorContext) -> Value:
    """Lower IsInf: where x is infinite, of the signs that the attributes name."""
    negative, positive = op.flag("detect_negative", True), op.flag("detect_positive", True)

    def function(t: TfTensor) -> TfTensor:
        infinite = op.kernels.elementwise("math.is_inf")(t)
        if negative and positive:
            return infinite
        if not negative and not positive:
            return tf.zeros_like(infinite)
        return tf.logical_and(infinite, t > 0 if positive else t < 0)

    return map_elements(op.value(0), function)
