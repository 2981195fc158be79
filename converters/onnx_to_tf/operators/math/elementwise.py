"""Arithmetic, element by element. Sizes of a shape are computed one by one, so that what is known stays known."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ....onnx_graph.semantics.former_attributes import clip_bounds
from ...kernels.exact_quotients import truncated_remainder
from ...lazy_tensorflow import tf
from ...lowerings import BOOL, FLOATS, INTEGERS, NUMBERS, SIGNED, lowers
from ...operator_context import OperatorContext
from ...values import Size, TfTensor, Value, broadcast, map_elements

# the first opset, the dtypes of each operator, and TensorFlow's name of it (which the kernels may replace)
_UNARY: dict[str, tuple[int, frozenset[str], str]] = {
    "Acos": (6, FLOATS, "acos"),
    "Acosh": (6, FLOATS, "acosh"),
    "Asin": (6, FLOATS, "asin"),
    "Asinh": (6, FLOATS, "asinh"),
    "Atan": (6, FLOATS, "atan"),
    "Atanh": (6, FLOATS, "atanh"),
    "BitwiseNot": (18, INTEGERS, "bitwise.invert"),
    "Ceil": (6, FLOATS, "math.ceil"),
    "Cos": (6, FLOATS, "cos"),
    "Cosh": (6, FLOATS, "cosh"),
    "Exp": (6, FLOATS, "exp"),
    "Floor": (6, FLOATS, "floor"),
    "Log": (6, FLOATS, "math.log"),
    "Erf": (6, FLOATS, "math.erf"),
    "Neg": (6, FLOATS | SIGNED, "negative"),
    "Not": (1, BOOL, "logical_not"),
    "Reciprocal": (6, FLOATS, "math.reciprocal"),
    "Round": (6, FLOATS, "round"),  # halves to even, as ONNX has it
    "Sigmoid": (6, FLOATS, "sigmoid"),
    "Sin": (6, FLOATS, "sin"),
    "Sinh": (6, FLOATS, "sinh"),
    "Softplus": (1, FLOATS, "math.softplus"),
    "Softsign": (1, FLOATS, "nn.softsign"),
    "Sqrt": (6, FLOATS, "sqrt"),
    "Tan": (6, FLOATS, "tan"),
    "Tanh": (6, FLOATS, "tanh"),
}
_NON_NEGATIVE = ("Sigmoid", "Softplus")


def _unary(name: str, since: int, dtypes: frozenset[str], function: str) -> None:
    @lowers(name, since=since, T=dtypes)
    def lowering(op: OperatorContext) -> Value:
        return map_elements(op.value(0), op.kernels.elementwise(function), non_negative=name in _NON_NEGATIVE)


for _name, (_since, _dtypes, _function) in _UNARY.items():
    _unary(_name, _since, _dtypes, _function)


@lowers("Relu", since=6, T=FLOATS | SIGNED)
def relu(op: OperatorContext) -> Value:
    """Lower Relu: x, or 0 below zero; NaN of NaN."""
    return map_elements(op.value(0), op.kernels.relu, non_negative=True)


@lowers("Abs", since=6, T=NUMBERS)
def absolute(op: OperatorContext) -> Value:
    """Lower Abs: |x|; of signed integers the lowest stays what it is."""
    dtype = op.value(0).dtype
    function = tf.identity if dtype.startswith("uint") else op.kernels.elementwise("abs")
    return map_elements(op.value(0), function, non_negative=dtype not in SIGNED)


@lowers("Sign", since=9, T=NUMBERS)
def sign(op: OperatorContext) -> Value:
    """Lower Sign: -1, 0 or 1."""
    unsigned = op.value(0).dtype.startswith("uint")
    return map_elements(op.value(0), (lambda t: tf.minimum(t, 1)) if unsigned else op.kernels.elementwise("sign"))


def _truncate_quotient(a: Size, b: Size) -> Size:
    """Return the quotient of integers, cut towards zero."""
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return tf.truncatediv(a, b)


_LARGEST = 2**20  # of numbers beside sizes, computed in int32; larger ones are no sizes, and int64 holds them


def _known_size(part: Size) -> int:
    return abs(part) if isinstance(part, int) else 0


def arithmetic(op: OperatorContext, on_sizes: Callable[[Size, Size], Size], function: Callable[..., TfTensor]) -> Value:
    """Lower a binary operator: on sizes one by one where one side is a vector of partly known sizes."""
    left, right = op.value(0), op.value(1)
    if left.parts is not None or right.parts is not None:
        a, b = left.size_parts(exact=True), right.size_parts(exact=True)
        fits = a is not None and b is not None and (len(a) == len(b) or 1 in (len(a), len(b)))
        if a is not None and b is not None and fits and max(map(_known_size, (*a, *b)), default=0) <= _LARGEST:
            count = max(len(a), len(b))
            pairs = zip(a * (count // len(a)), b * (count // len(b)), strict=True)
            return op.sized([on_sizes(*pair) for pair in pairs], scalar=left.rank + right.rank == 0, dtype=left.dtype)
    return broadcast(function, left, right)


@lowers("Add", "Sub", "Mul", since=7, T=NUMBERS)
def add_sub_mul(op: OperatorContext) -> Value:
    """Lower Add, Sub and Mul: the sum, the difference or the product of a and b."""
    functions = {"Add": (operator.add, tf.add), "Sub": (operator.sub, tf.subtract), "Mul": (operator.mul, tf.multiply)}
    return arithmetic(op, *functions[op.op_type])


@lowers("Div", since=7, T=NUMBERS)
def div(op: OperatorContext) -> Value:
    """Lower Div: the quotient a / b; of integers cut towards zero."""
    if op.value(0).dtype in INTEGERS:
        return arithmetic(op, _truncate_quotient, op.kernels.elementwise("truncatediv"))
    divisor = op.value(1).array
    rounds = divisor is not None and (np.frexp(np.asarray(divisor, np.float64))[0] != _POWER_OF_TWO).any()
    return broadcast(op.kernels.divide if rounds else tf.divide, op.value(0), op.value(1))


_POWER_OF_TWO = 0.5  # the mantissa of any, whose reciprocal is exact


@lowers("Mod", since=28, until=28, T=NUMBERS)
def mod(op: OperatorContext) -> Value:
    """Lower Mod: the remainder a - n b, n being floor(a / b), with the divisor's sign, or with fmod the dividend's."""
    is_integer = op.value(0).dtype in INTEGERS
    if op.flag("fmod"):
        return broadcast(truncated_remainder if is_integer else _truncated_float_remainder, op.value(0), op.value(1))
    if is_integer:
        return arithmetic(op, lambda a, b: a % b, tf.math.floormod)
    return broadcast(_floored_float_remainder, op.value(0), op.value(1))


@lowers("Mod", since=10, T=NUMBERS)
def mod_before_28(op: OperatorContext) -> Value:
    """Lower Mod before opset 28, which defined fmod=0 for integers only."""
    if op.value(0).dtype in FLOATS and not op.flag("fmod"):
        op.refuse("fmod=0 is defined for integers only", fix="export the model with fmod=1")
    return mod(op)


def _truncated_float_remainder(a: TfTensor, b: TfTensor) -> TfTensor:
    """Return C's fmod, which is exact where both are positive; NaN where b is 0."""
    return tf.sign(a) * tf.math.floormod(tf.abs(a), tf.abs(b))


def _floored_float_remainder(a: TfTensor, b: TfTensor) -> TfTensor:
    """Return the remainder with the sign of b, of a zero too."""
    rest = tf.math.floormod(a, b)
    return tf.where(tf.equal(rest, 0), tf.sign(b) * tf.zeros_like(rest), rest)


@lowers("Pow", since=7, T=FLOATS | {"int32", "int64"}, T1=NUMBERS)
def power(op: OperatorContext) -> Value:
    """Lower Pow: a ** b, in the dtype of a. Squares and cubes are products, which every runtime is quick at."""
    base, exponent = op.value(0), op.value(1)
    number = exponent.array.item() if exponent.array is not None and exponent.rank == 0 else None
    if number == 2:
        return map_elements(base, tf.square, non_negative=base.dtype in FLOATS)  # of integers it may wrap around
    if number == 3:
        return map_elements(base, lambda t: t * t * t)
    return broadcast(lambda a, b: _power(op, a, b), base, exponent)


def _power(op: OperatorContext, a: TfTensor, b: TfTensor) -> TfTensor:
    """Return the power; an integer to a float's power is computed in as many bits as floats have, and cut."""
    function = op.kernels.elementwise("pow")
    if not (a.dtype.is_integer and b.dtype.is_floating):
        return function(a, tf.cast(b, a.dtype))
    wide = tf.float64 if op.kernels.doubles else tf.float32
    return tf.cast(function(tf.cast(a, wide), tf.cast(b, wide)), a.dtype)


@lowers("Max", "Min", since=6, T=NUMBERS)
@lowers("Sum", "Mean", since=6, T=FLOATS)
def reduce_inputs(op: OperatorContext) -> Value:
    """Lower Max, Min, Sum and Mean: of all inputs."""
    inputs, function = op.values(), {"Max": tf.maximum, "Min": tf.minimum}.get(op.op_type, tf.add)
    result = reduce(lambda a, b: broadcast(function, a, b), inputs)
    return map_elements(result, lambda t: t / tf.cast(len(inputs), t.dtype)) if op.op_type == "Mean" else result


@lowers("Clip", since=6, T=NUMBERS)
def clip(op: OperatorContext) -> Value:
    """Lower Clip: into min .. max, or max where min > max. The usual bounds become operators that runtimes fuse."""
    low, high = clip_bounds(op)
    low_number = _number(low)
    non_negative = _is_from_zero(low) and (high is None or _is_from_zero(high))

    def function(t: TfTensor) -> TfTensor:
        if t.dtype.is_floating and low_number == 0 and (high is None or _number(high) == 6):
            return op.kernels.relu(t) if high is None else tf.nn.relu6(t)
        t = t if low is None else tf.maximum(t, low.tensor())
        return t if high is None else tf.minimum(t, high.tensor())

    return map_elements(op.value(0), function, non_negative=non_negative)


def _is_from_zero(bound: Value | None) -> bool:
    """Return whether a bound is known to be 0 or more."""
    number = _number(bound)
    return number is not None and number >= 0


def _number(bound: Value | None) -> Any:
    return None if bound is None or bound.array is None else bound.array.item()
