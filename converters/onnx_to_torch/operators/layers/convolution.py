"""Convolutions of one, two or three spatial axes, and transposed ones."""

from __future__ import annotations

from ....onnx_graph.semantics.window_attributes import kernel_sizes, transposed_window
from ...values import Expression
from ...writers import FLOATS, CodegenContext, OutputCode, writes
from .window_code import pads_code, unusual_options, window_code


@writes("Conv", since=1, T=FLOATS)
def convolution(op: CodegenContext) -> OutputCode:
    """Write Conv."""
    return _convolved(op, op.value(0), op.value(1), op.optional(2))


def _convolved(op: CodegenContext, x: Expression, weight: Expression, bias: Expression | None = None) -> str:
    moved = window_code(op, x, kernel_sizes(op, weight))
    source = f"{x}" if moved.even is not None else f"F.pad({x}, {moved.widths})"
    options = [] if bias is None else [f"{bias}"]
    options += unusual_options(
        ("stride", moved.strides, 1),
        ("padding", moved.even or (0,), 0),
        ("dilation", moved.dilations, 1),
        ("groups", (op.integer("group", 1),), 1),
    )
    return f"F.conv{moved.rank}d({', '.join([source, f'{weight}', *options])})"


@writes("ConvInteger", since=10)
def convolution_of_integers(op: CodegenContext) -> OutputCode:
    """Write ConvInteger: 8-bit numbers less their zero points, in int32; float64 holds every sum of them exactly."""
    return f"{_whole_sums(op, (0, 2), (1, 3))}.int()"


@writes("QLinearConv", since=10)
def quantized_convolution(op: CodegenContext) -> OutputCode:
    """Write QLinearConv: ConvInteger and a bias, from the scale of the products to that of the output."""
    sums, bias, axes = _whole_sums(op, (0, 2), (3, 5)), op.optional(8), op.value(0).rank - 2
    more = "" if bias is None else f" + {_align_with_filters(bias, axes)}"
    scale = f"{op.value(1)} * {_align_with_filters(op.value(4), axes)} / {op.value(6)}"
    return f"rescaled({sums}{more}, {scale}, {op.value(7)})"


def _whole_sums(op: CodegenContext, *places: tuple[int, int]) -> str:
    """Return the convolution of an input and a weight, each less its zero point."""
    parts = []
    for at, place in places:
        value, zero = op.value(at), op.optional(place)
        less = "" if zero is None else f" - {_align_with_filters(zero, value.rank - 1)}.double()"
        parts.append(op.let(f"{value}.double(){less}", "widened"))
    return _convolved(op, *parts)


def _align_with_filters(part: Expression, axes: int) -> str:
    """Return a number, or one for each filter with so many axes behind."""
    return f"{part}" if part.rank == 0 or part.shape == (1,) else f"{part}.reshape(-1{', 1' * axes})"


@writes("ConvTranspose", since=1, T=FLOATS)
def transposed(op: CodegenContext) -> OutputCode:
    """Write ConvTranspose: the convolution's gradient."""
    x, weight, bias = op.value(0), op.value(1), op.optional(2)
    window = transposed_window(op, kernel_sizes(op, weight))
    strides, dilations, more = window.window.strides, window.window.dilations, window.output_padding
    if window.output_shape is not None and None in x.shape[2:]:
        op.refuse("its output_shape is given, and the input's size is not known", fix="give pads instead")
    pads = window.cuts([size or 0 for size in x.shape[2:]])
    even = all(low == high >= 0 for low, high in pads)
    if any(extra >= max(steps) for extra, *steps in zip(more, strides, dilations, strict=True)):
        op.refuse(f"its output_padding {[*more]} is not below strides and dilations", fix="pad the output in the model")
    options = [] if bias is None else [f"{bias}"]
    options += unusual_options(
        ("stride", strides, 1),
        ("padding", [low for low, _ in pads] if even else [0], 0),
        ("output_padding", more, 0),
        ("groups", [op.integer("group")], 1),
        ("dilation", dilations, 1),
    )
    code = f"F.conv_transpose{len(pads)}d({', '.join([f'{x}', f'{weight}', *options])})"
    if even:
        return code
    if min(map(min, pads)) < 0:
        op.refuse("its output is larger than what the input spreads over", fix="pad the output in the model")
    return f"F.pad({code}, {pads_code([(-low, -high) for low, high in pads])})"
