"""Convolutions in as many groups as a size of an input says (`groups=batch`: each sample under its own kernel), for
torch's dynamo exporter. They are products of matrices, one for each group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from .. import private_onnxscript
from ..ledger import translations
from ..torch_shared.dynamo_graph import Number, OnnxValue, op
from .cumulative_operators import FAR


def _convolution(axes: int) -> Callable[..., OnnxValue]:
    def translation(  # noqa: PLR0917  (the operator's own arguments)
        input: OnnxValue,  # noqa: A002
        weight: OnnxValue,
        bias: OnnxValue | None = None,
        stride: Sequence[int] = (1,),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        groups: Number = 1,
    ) -> OnnxValue:
        stride, padding, dilation = (per_axis(values, axes) for values in (stride, padding, dilation))
        if isinstance(groups, int | float) or not _has_known_kernel(weight):
            own: Callable[..., OnnxValue] = getattr(private_onnxscript.core, f"aten_conv{axes}d")
            return own(input, weight, bias, stride, padding, dilation, groups)
        windows = _windows(weight, stride, padding, dilation, [0] * axes)
        return _convolve_batch(_convolved, input, weight, bias, windows, groups)

    return translation


def _any_convolution(  # noqa: PLR0917  (the operator's own arguments)
    input: OnnxValue,  # noqa: A002
    weight: OnnxValue,
    bias: OnnxValue | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: Number,
) -> OnnxValue:
    if isinstance(groups, int | float) or not _has_known_kernel(weight):
        own: Callable[..., OnnxValue] = private_onnxscript.core.aten_convolution
        return own(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    axes = len(weight.shape) - 2
    windows = _windows(weight, *(per_axis(values, axes) for values in (stride, padding, dilation, output_padding)))
    return _convolve_batch(_transposed if transposed else _convolved, input, weight, bias, windows, groups)


def _has_known_kernel(weight: OnnxValue) -> bool:
    """Return whether the kernel's sizes are known, so that only the number of groups shows as the model runs."""
    return all(isinstance(size, int) for size in weight.shape[1:])


@dataclass(frozen=True, slots=True)
class _KernelAxis:
    """A kernel along one axis: `size` elements, `dilation` apart, from each `stride`-th place on, with `padding` zeros
    around; and the padding behind the end of a transposed convolution's output."""

    size: int
    stride: int
    padding: int
    dilation: int
    output_padding: int

    @property
    def span(self) -> int:
        """The distance from the first element to the last."""
        return self.dilation * (self.size - 1)


_Convolve: TypeAlias = Callable[[OnnxValue, OnnxValue, Sequence[_KernelAxis], OnnxValue], OnnxValue]


def per_axis(values: Sequence[int], axes: int) -> list[int]:
    """Return one number for each axis, of which one may stand for all."""
    return [*values] * axes if len(values) == 1 else [*values]


def _windows(weight: OnnxValue, *options: Sequence[int]) -> Sequence[_KernelAxis]:
    sizes = [int(size) for size in weight.shape[2:]]  # type: ignore[arg-type]  # they are known
    return [_KernelAxis(*numbers) for numbers in zip(sizes, *options, strict=True)]


def _convolve_batch(  # noqa: PLR0917
    convolve: _Convolve,
    value: OnnxValue,
    weight: OnnxValue,
    bias: OnnxValue | None,
    windows: Sequence[_KernelAxis],
    groups: OnnxValue,
) -> OnnxValue:
    """Convolve a batch (N, C, ...) or one sample (C, ...)."""
    axes = len(windows)
    is_sample = len(value.shape) == axes + 1
    batch = op.Unsqueeze(value, [0]) if is_sample else value
    result = convolve(batch, weight, windows, op.Reshape(groups, [1]))
    if bias is not None:
        result = op.Add(result, op.Reshape(bias, [-1, *[1] * axes]))
    return op.Squeeze(result, [0]) if is_sample else result


def _convolved(value: OnnxValue, weight: OnnxValue, windows: Sequence[_KernelAxis], groups: OnnxValue) -> OnnxValue:
    """Convolve (N, groups C, ...) by (groups K, C, ...).

    Beside each element lie all that its window reads, and one product takes them. Along the first axis the products
    are summed afterwards: so less is copied.
    """
    channels, paddings = weight.shape[1], [window.padding for window in windows]
    rows = _reshaped(value, [-1, channels], _spatial_sizes(value))
    if any(paddings):
        rows = op.Pad(rows, [0, 0, *paddings, 0, 0, *paddings])
    summed = 1 if windows[0].stride == 1 and windows[0].size > 1 else 0
    for axis, window in reversed([*enumerate(windows, 2)][summed:]):
        rows = _windowed(rows, axis, window)
    lines = windows[0].size if summed else 1
    places = math.prod(window.size for window in windows) // lines
    kernel = _reshaped(weight, groups, [-1, channels, lines, places])
    width = int(channels) * places  # type: ignore[arg-type]  # it is known
    kernel = _reshaped(op.Transpose(kernel, perm=[0, 3, 1, 4, 2]), groups, [-1, width])
    columns = _reshaped(rows, _batch(value), groups, [width, -1])
    product = op.MatMul(kernel, columns)
    if not summed:
        return _reshaped(product, _batch(value), [-1], _spatial_sizes(rows))
    outputs = op.Div(_batch(weight), groups)
    product = _reshaped(product, _batch(rows), [lines], outputs, op.Shape(rows, start=2, end=3), [-1])
    total = _sum_of_lines(product, windows[0])
    rest = [op.Shape(rows, start=3)] if len(windows) > 1 else []
    return _reshaped(total, _batch(value), op.Mul(groups, outputs), [-1], *rest)


def _sum_of_lines(product: OnnxValue, window: _KernelAxis) -> OnnxValue:
    """Add each kernel place's products with all elements, (M, size, K, H, ...), where they belong."""
    firsts = [at * window.dilation for at in range(window.size)]
    parts = [
        op.Slice(product, [at, first], [at + 1, first - window.span or FAR], [1, 3]) for at, first in enumerate(firsts)
    ]
    return reduce(op.Add, parts)


def _windowed(rows: OnnxValue, axis: int, window: _KernelAxis) -> OnnxValue:
    """Put the elements of each window along an axis beside each other: (M, C, ...) -> (M, size C, ...)."""
    if window.size == window.stride == 1:
        return rows
    firsts = [at * window.dilation for at in range(window.size)]
    parts = [op.Slice(rows, [at], [at - window.span or FAR], [axis], [window.stride]) for at in firsts]
    return op.Concat(*parts, axis=1)


def _transposed(value: OnnxValue, weight: OnnxValue, windows: Sequence[_KernelAxis], groups: OnnxValue) -> OnnxValue:
    """Convolve (N, groups C, ...) by (groups C, K, ...), transposed: one product for all places of the kernel, each of
    which is laid where it belongs."""
    outputs, places = int(weight.shape[1]), math.prod(window.size for window in windows)  # type: ignore[arg-type]
    kernel = _reshaped(weight, groups, [-1, outputs, places])
    kernel = op.Transpose(kernel, perm=[0, 3, 2, 1])
    kernel = _reshaped(kernel, groups, [places * outputs, -1])
    channels = op.Div(op.Shape(value, start=1, end=2), groups)
    columns = _reshaped(value, _batch(value), groups, channels, [-1])
    product = op.MatMul(kernel, columns)
    product = _reshaped(product, [-1, places * outputs], _spatial_sizes(value))
    width = places * outputs
    for axis, window in enumerate(windows, 2):
        width //= window.size
        parts = [op.Slice(product, [at * width], [(at + 1) * width], [1]) for at in range(window.size)]
        product = _laid(parts, len(windows) + 2, axis, window)
    return _reshaped(product, _batch(value), [-1], _spatial_sizes(product))


def _laid(parts: Sequence[OnnxValue], rank: int, axis: int, window: _KernelAxis) -> OnnxValue:
    """Add parts (M, K, ...) along an axis, each `dilation` places behind the one before, its elements `stride` apart.

    What stands at every `stride`-th place is summed by itself, and these sums are interleaved.
    """
    span, stride = window.span, window.stride
    # How much longer the parts become.
    growth = max(span // stride, -(-(span + window.output_padding + 1 - window.padding) // stride) - 1)
    sums: list[OnnxValue | None] = []
    for place in range(stride):
        firsts = {
            at: at * window.dilation // stride for at in range(window.size) if at * window.dilation % stride == place
        }
        shifted = [_padded(parts[at], rank, axis, first, growth - first) for at, first in firsts.items()]
        sums.append(reduce(op.Add, shifted) if shifted else None)
    some = next(total for total in sums if total is not None)
    laid = some
    if stride > 1:
        columns = [op.Unsqueeze(_zeros(some) if total is None else total, [axis + 1]) for total in sums]
        sizes = op.Shape(some, start=0, end=axis), [-1], *([op.Shape(some, start=axis + 1)] if axis + 1 < rank else [])
        laid = _reshaped(op.Concat(*columns, axis=axis + 1), *sizes)
    excess = stride * (growth + 1) + window.padding - span - window.output_padding - 1
    is_cut = window.padding or excess
    return op.Slice(laid, [window.padding], [-excess or FAR], [axis]) if is_cut else laid


def _padded(value: OnnxValue, rank: int, axis: int, before: int, behind: int) -> OnnxValue:
    if not before and not behind:
        return value
    pads = [0] * (2 * rank)
    pads[axis], pads[rank + axis] = before, behind
    return op.Pad(value, pads)


def _reshaped(value: OnnxValue, *sizes: object) -> OnnxValue:
    """Reshape to sizes that are lists of numbers or known as the model runs."""
    parts = [op.Constant(value_ints=part) if isinstance(part, list) else part for part in sizes]
    return op.Reshape(value, op.Concat(*parts, axis=0))


def _zeros(like: OnnxValue) -> OnnxValue:
    return op.Expand(op.CastLike(0.0, like), op.Shape(like))


def _batch(value: OnnxValue) -> OnnxValue:
    return op.Shape(value, start=0, end=1)


def _spatial_sizes(value: OnnxValue) -> OnnxValue:
    """Read the sizes of all axes but the batch and the channels."""
    return op.Shape(value, start=2)


PATCHES = translations(
    {
        **{f"aten.conv{axes}d.default": _convolution(axes) for axes in (1, 2, 3)},
        "aten.convolution.default": _any_convolution,
    },
    why="ONNX's Conv takes a number of groups that is known, and torchlib hands it a size of an input",
    upstream="onnxscript/function_libs/torch_lib/ops/core.py: aten_convolution",
    until="torchlib writes convolutions in an open number of groups as products of matrices",
)
