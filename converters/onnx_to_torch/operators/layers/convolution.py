"""Convolutions of one, two or three spatial axes, and their reverse."""

from __future__ import annotations

from collections.abc import Sequence

from ...common.windows import read_pads, short, windows
from ...operator_context import Op
from ...values import Value
from ...writers import FLOATS, Written, writes


@writes("Conv", since=1, T=FLOATS)
def convolution(op: Op) -> Written:
    """Each output channel from the input channels of its group."""
    x, weight, bias = op.value(0), op.value(1), op.optional(2)
    return _convolved(op, x, weight, bias)


def _convolved(op: Op, x: Value, weight: Value, bias: Value | None = None) -> str:
    moved = windows(op, x, _kernel(op, weight))
    given = f"{x}" if moved.even is not None else f"F.pad({x}, {moved.widths})"
    options = [] if bias is None else [f"{bias}"]
    for name, numbers, usual in (
        ("stride", moved.strides, 1),
        ("padding", moved.even or (0,), 0),
        ("dilation", moved.dilations, 1),
        ("groups", (op.integer("group", 1),), 1),
    ):
        if set(numbers) != {usual}:
            options.append(f"{name}={short(numbers)}")
    return f"F.conv{moved.rank}d({', '.join([given, f'{weight}', *options])})"


def _kernel(op: Op, weight: Value) -> Sequence[int]:
    kernel = weight.shape[2:]
    if any(size is None for size in kernel):
        op.refuse("the sizes of its kernel are not known", fix="make the weight a constant of the model")
    found = [size for size in kernel if size is not None]
    if op.ints("kernel_shape", found) != found:
        op.refuse(f"its kernel_shape is not that of the weight, {found}", fix="check the model with onnx.checker")
    return found


@writes("ConvInteger", since=10)
def convolution_of_integers(op: Op) -> Written:
    """Of 8-bit numbers less their zero points, in int32; float64 holds every sum of them exactly."""
    return f"{_whole_sums(op, (0, 2), (1, 3))}.int()"


@writes("QLinearConv", since=10)
def quantized_convolution(op: Op) -> Written:
    """The same and a bias, brought from the scale of its products to the one of the answer."""
    sums, bias, axes = _whole_sums(op, (0, 2), (3, 5)), op.optional(8), op.value(0).rank - 2
    more = "" if bias is None else f" + {_of_filters(bias, axes)}"
    scale = f"{op.value(1)} * {_of_filters(op.value(4), axes)} / {op.value(6)}"
    return f"rescaled({sums}{more}, {scale}, {op.value(7)})"


def _whole_sums(op: Op, *places: tuple[int, int]) -> str:
    """The convolution of an input and a weight, each less its zero point."""
    parts = []
    for at, place in places:
        value, zero = op.value(at), op.optional(place)
        less = "" if zero is None else f" - {_of_filters(zero, value.rank - 1)}.double()"
        parts.append(op.let(f"{value}.double(){less}", "widened"))
    return _convolved(op, *parts)


def _of_filters(part: Value, axes: int) -> str:
    """A number, or one for each filter, with so many axes behind."""
    return f"{part}" if part.rank == 0 or part.shape == (1,) else f"{part}.reshape(-1{', 1' * axes})"


@writes("ConvTranspose", since=1, T=FLOATS)
def transposed(op: Op) -> Written:
    """A convolution's gradient: what each input element spreads over the output is added up."""
    x, weight, bias = op.value(0), op.value(1), op.optional(2)
    kernel, count = _kernel(op, weight), x.rank - 2
    if count not in (1, 2, 3):
        op.refuse(f"it has {count} spatial axes", fix="use one, two or three of them")
    strides, dilations = op.ints("strides", [1] * count), op.ints("dilations", [1] * count)
    more = op.ints("output_padding", [0] * count)
    pads = _pads(op, x, [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)], strides, more)
    even = pads[:count] == pads[count:] and min(pads) >= 0
    if any(extra >= max(stride, dilation) for extra, stride, dilation in zip(more, strides, dilations, strict=True)):
        op.refuse(f"its output_padding {more} is not below strides and dilations", fix="pad the output in the model")
    options = [] if bias is None else [f"{bias}"]
    for name, numbers, usual in (
        ("stride", strides, 1), ("padding", pads[:count] if even else [0], 0), ("output_padding", more, 0),
        ("groups", [op.integer("group", 1)], 1), ("dilation", dilations, 1),
    ):  # fmt: skip
        if set(numbers) != {usual}:
            options.append(f"{name}={short(numbers)}")
    made = f"F.conv_transpose{count}d({', '.join([f'{x}', f'{weight}', *options])})"
    if even:
        return made
    if min(pads) < 0:
        op.refuse("its output is larger than what the input spreads over", fix="pad the output in the model")
    cut = [-each for at in reversed(range(count)) for each in (pads[at], pads[at + count])]
    return f"F.pad({made}, {cut})"


def _pads(op: Op, x: Value, reaches: Sequence[int], strides: Sequence[int], more: Sequence[int]) -> list[int]:
    """What is cut off: before each axis, then after each. By the output's size where that is given."""
    count = len(reaches)
    kind = op.word("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    pads = read_pads(op, kind, count)
    wanted = op.ints("output_shape", [])[-count:]
    if not wanted and not kind.startswith("SAME"):
        return pads
    lows, highs = [], []
    for at in range(count):
        size, reach = x.shape[2 + at], reaches[at]
        if wanted and size is None:
            op.refuse("its output_shape is given, and the input's size is not known", fix="give pads instead")
        spread = reach - strides[at] + more[at]
        total = spread if not wanted else strides[at] * (size or 0) + spread - wanted[at]
        smaller = total // 2
        low = smaller if kind == "SAME_UPPER" else total - smaller
        lows.append(low)
        highs.append(total - low)
    return [*lows, *highs]
