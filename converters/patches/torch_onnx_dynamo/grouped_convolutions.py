"""Convolutions in as many groups as a size of an input says (`groups=batch`: each sample under its own kernel), for
torch's dynamo exporter: ONNX's Conv takes a number that is known. They are products of matrices, one for each group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from ...lazy_import import LazyLibrary
from ..torch_shared.onnxscript_opset import Translations, op
from .cumulative_operators import FAR

_core: Any = LazyLibrary("onnxscript.function_libs.torch_lib.ops", "core")


def grouped() -> Translations:
    """A part of the exporter's `custom_translation_table`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.conv1d.default: _convolution(1, _core.aten_conv1d),
        aten.conv2d.default: _convolution(2, _core.aten_conv2d),
        aten.conv3d.default: _convolution(3, _core.aten_conv3d),
        aten.convolution.default: _either_way,
    }


def _convolution(axes: int, own: Callable[..., Any]) -> Callable[..., Any]:
    def translation(  # noqa: PLR0917  (the operator's own arguments)
        input: Any,  # noqa: A002
        weight: Any,
        bias: Any = None,
        stride: Sequence[int] = (1,),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        groups: Any = 1,
    ) -> Any:
        stride, padding, dilation = (_of_each(each, axes) for each in (stride, padding, dilation))
        if not _is_open(weight, groups):
            return own(input, weight, bias, stride, padding, dilation, groups)
        windows = _windows(weight, stride, padding, dilation, [0] * axes)
        return _of_samples(_convolved, input, weight, bias, windows, groups)

    return translation


def _either_way(  # noqa: PLR0917  (the operator's own arguments)
    input: Any,  # noqa: A002
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: Any,
) -> Any:
    if not _is_open(weight, groups):
        own = _core.aten_convolution
        return own(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    axes = len(weight.shape) - 2
    windows = _windows(weight, *(_of_each(each, axes) for each in (stride, padding, dilation, output_padding)))
    return _of_samples(_transposed if transposed else _convolved, input, weight, bias, windows, groups)


def _is_open(weight: Any, groups: Any) -> bool:
    """Whether only the number of groups shows as the model runs, and the kernel's sizes are known."""
    return not isinstance(groups, int) and all(isinstance(size, int) for size in weight.shape[1:])


@dataclass(frozen=True, slots=True)
class _Window:
    """What is read along one axis: `size` elements, `apart` from each other, from each `step`-th place on, with `rim`
    zeros around; and what a transposed convolution has behind its end."""

    size: int
    step: int
    rim: int
    apart: int
    behind: int

    @property
    def span(self) -> int:
        """From the first element to the last."""
        return self.apart * (self.size - 1)


def _of_each(values: Sequence[int], axes: int) -> list[int]:
    """One number for each axis, of which one may stand for all."""
    return [*values] * axes if len(values) == 1 else [*values]


def _windows(weight: Any, *others: Sequence[int]) -> Sequence[_Window]:
    return [_Window(*numbers) for numbers in zip(weight.shape[2:], *others, strict=True)]


def _of_samples(  # noqa: PLR0917
    way: Callable[..., Any], value: Any, weight: Any, bias: Any, windows: Sequence[_Window], groups: Any
) -> Any:
    """Of a batch (N, C, ...) or of one sample (C, ...)."""
    axes = len(windows)
    alone = len(value.shape) == axes + 1
    made = way(op.Unsqueeze(value, [0]) if alone else value, weight, windows, op.Reshape(groups, [1]))
    if bias is not None:
        made = op.Add(made, op.Reshape(bias, [-1, *[1] * axes]))
    return op.Squeeze(made, [0]) if alone else made


def _convolved(value: Any, weight: Any, windows: Sequence[_Window], groups: Any) -> Any:
    """Of (N, groups C, ...) under (groups K, C, ...): beside each element lie all that its window reads, and one
    product takes them. Of the first axis what they make is summed behind it: so less is copied."""
    inward, rims = weight.shape[1], [window.rim for window in windows]
    rows = _reshaped(value, [-1, inward], _sizes(value))
    if any(rims):
        rows = op.Pad(rows, [0, 0, *rims, 0, 0, *rims])
    summed = 1 if windows[0].step == 1 and windows[0].size > 1 else 0
    for axis, window in reversed([*enumerate(windows, 2)][summed:]):
        rows = _read(rows, axis, window)
    lines = windows[0].size if summed else 1
    places = math.prod(weight.shape[2:]) // lines
    kernel = _reshaped(weight, groups, [-1, inward, lines, places])
    kernel = _reshaped(op.Transpose(kernel, perm=[0, 3, 1, 4, 2]), groups, [-1, inward * places])
    columns = _reshaped(rows, _batch(value), groups, [inward * places, -1])
    made = op.MatMul(kernel, columns)
    if not summed:
        return _reshaped(made, _batch(value), [-1], _sizes(rows))
    outward = op.Div(_batch(weight), groups)
    made = _reshaped(made, _batch(rows), [lines], outward, op.Shape(rows, start=2, end=3), [-1])
    made = _sum_of_lines(made, windows[0])
    rest = [op.Shape(rows, start=3)] if len(windows) > 1 else []
    return _reshaped(made, _batch(value), op.Mul(groups, outward), [-1], *rest)


def _sum_of_lines(made: Any, window: _Window) -> Any:
    """What each place of a kernel along an axis made of all elements, (M, size, K, H, ...), where it belongs."""
    firsts = [at * window.apart for at in range(window.size)]
    parts = [op.Slice(made, [at, it], [at + 1, it - window.span or FAR], [1, 3]) for at, it in enumerate(firsts)]
    return reduce(op.Add, parts)


def _read(rows: Any, axis: int, window: _Window) -> Any:
    """The elements of each window along an axis beside each other: (M, C, ...) -> (M, size C, ...)"""
    if window.size == window.step == 1:
        return rows
    firsts = [at * window.apart for at in range(window.size)]
    parts = [op.Slice(rows, [at], [at - window.span or FAR], [axis], [window.step]) for at in firsts]
    return op.Concat(*parts, axis=1)


def _transposed(value: Any, weight: Any, windows: Sequence[_Window], groups: Any) -> Any:
    """Of (N, groups C, ...) under (groups C, K, ...): one product for all places of the kernel, of which each is laid
    where it belongs."""
    outward, places = weight.shape[1], math.prod(weight.shape[2:])
    kernel = _reshaped(weight, groups, [-1, outward, places])
    kernel = op.Transpose(kernel, perm=[0, 3, 2, 1])
    kernel = _reshaped(kernel, groups, [places * outward, -1])
    inward = op.Div(op.Shape(value, start=1, end=2), groups)
    columns = _reshaped(value, _batch(value), groups, inward, [-1])
    laid = op.MatMul(kernel, columns)
    laid = _reshaped(laid, [-1, places * outward], _sizes(value))
    width = places * outward
    for axis, window in enumerate(windows, 2):
        width //= window.size
        parts = [op.Slice(laid, [at * width], [(at + 1) * width], [1]) for at in range(window.size)]
        laid = _laid(parts, len(windows) + 2, axis, window)
    return _reshaped(laid, _batch(value), [-1], _sizes(laid))


def _laid(parts: Sequence[Any], rank: int, axis: int, window: _Window) -> Any:
    """The sum of parts (M, K, ...) along an axis, each `apart` places behind the one before, and its elements `step`
    places from each other. What stands at every `step`-th place is summed by itself, and these sums are interleaved."""
    span, step = window.span, window.step
    more = max(span // step, -(-(span + window.behind + 1 - window.rim) // step) - 1)  # what they get longer by
    sums = []
    for place in range(step):
        firsts = {at: at * window.apart // step for at in range(window.size) if at * window.apart % step == place}
        shifted = [_shifted(parts[at], rank, axis, first, more - first) for at, first in firsts.items()]
        sums.append(reduce(op.Add, shifted) if shifted else None)
    some = next(each for each in sums if each is not None)
    made = some
    if step > 1:
        apart = [op.Unsqueeze(_zeros(some) if each is None else each, [axis + 1]) for each in sums]
        sizes = op.Shape(some, start=0, end=axis), [-1], *([op.Shape(some, start=axis + 1)] if axis + 1 < rank else [])
        made = _reshaped(op.Concat(*apart, axis=axis + 1), *sizes)
    over = step * (more + 1) + window.rim - span - window.behind - 1
    return op.Slice(made, [window.rim], [-over or FAR], [axis]) if window.rim or over else made


def _shifted(value: Any, rank: int, axis: int, before: int, behind: int) -> Any:
    if not before and not behind:
        return value
    pads = [0] * (2 * rank)
    pads[axis], pads[rank + axis] = before, behind
    return op.Pad(value, pads)


def _reshaped(value: Any, *sizes: Any) -> Any:
    """By sizes that are lists of numbers or known as the model runs."""
    parts = [op.Constant(value_ints=each) if isinstance(each, list) else each for each in sizes]
    return op.Reshape(value, op.Concat(*parts, axis=0))


def _zeros(like: Any) -> Any:
    return op.Expand(op.CastLike(0.0, like), op.Shape(like))


def _batch(value: Any) -> Any:
    return op.Shape(value, start=0, end=1)


def _sizes(value: Any) -> Any:
    """Of all axes but the batch and the channels."""
    return op.Shape(value, start=2)
