"""Padding and cutting of full tensors. The padding of convolutions and pools lies with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....onnx_graph.semantics.former_attributes import pad_arguments
from ...common import padding_modes
from ...lazy_tensorflow import tf
from ...lowerings import ANY, INDICES, lowers
from ...operator_context import OperatorContext
from ...values import Size, TfTensor, Value, computed

_MIRRORS = {"reflect": padding_modes.reflect, "edge": padding_modes.edge, "wrap": padding_modes.wrap}


@lowers("Pad", since=2, T=ANY, Tind=INDICES)
def pad(op: OperatorContext) -> Value:
    """Lower Pad: before and after each of the axes named, or of all; negative pads cut."""
    value, padding = op.value(0), pad_arguments(op)
    mode, number, axes, pairs = padding.mode, padding.number, padding.axes, padding.widths
    widths = _in_layout(value, [_pads_of_axis(axis, axes, pairs) for axis in range(value.rank)])
    native = value.tensor(value.layout)
    if mode == "constant":
        array = np.zeros(()) if number is None else number.array
        scalar = None if number is None or (array is not None and not array.any()) else _scalar(op, number, native)
        non_negative = value.non_negative and array is not None and bool((array >= 0).all())
        return computed(padding_modes.pad(native, widths, scalar), value.layout, non_negative=non_negative)
    if mode == "reflect" and _reflects_once(native, widths):
        padded = tf.pad(native, widths, mode="REFLECT")
    else:
        padded = padding_modes.pad_with_elements(native, widths, _MIRRORS[mode])
    return computed(padded, value.layout, non_negative=value.non_negative)


def _pads_of_axis(axis: int, axes: Sequence[Size], pairs: Sequence[tuple[Size, Size]]) -> tuple[Size, Size]:
    """Return the pads of one axis. Axes that the model computes are compared when it runs."""
    low: Size = 0
    high: Size = 0
    for named, (before, after) in zip(axes, pairs, strict=True):
        if isinstance(named, int):
            low, high = (before, after) if named == axis else (low, high)
        else:
            low, high = tf.where(named == axis, before, low), tf.where(named == axis, after, high)
    return low, high


def _in_layout(value: Value, widths: Sequence[tuple[Size, Size]]) -> list[tuple[Size, Size]]:
    """Order the widths of logical axes as the value lies."""
    return [widths[axis] for axis in value.layout.order(value.rank)]


def _scalar(op: OperatorContext, number: Value, tensor: TfTensor) -> TfTensor:
    if number.array is not None and tensor.dtype.is_floating and np.isinf(number.array).all():
        lowest = padding_modes.minus_infinity(op.kernels, tensor)
        return -lowest if (number.array > 0).all() else lowest
    return tf.reshape(number.tensor(), [])


def _reflects_once(tensor: TfTensor, widths: Sequence[tuple[Size, Size]]) -> bool:
    """Return whether the elements suffice for one reflection, which is all that TensorFlow's own kernel does."""
    return all(
        isinstance(low, int)
        and isinstance(high, int)
        and (low == high == 0 or (min(low, high) >= 0 and size is not None and max(low, high) < size))
        for (low, high), size in zip(widths, tensor.shape.as_list(), strict=True)
    )


@lowers("CenterCropPad", since=18, T=ANY, Tind=INDICES)
def center_crop_pad(op: OperatorContext) -> Value:
    """Lower CenterCropPad: a value's middle, or it amid zeros; of an odd difference the larger half lies after."""
    value, wanted = op.value(0), op.sizes(1, "shape")
    axes = [axis % value.rank for axis in op.ints("axes", range(value.rank))]
    if len(wanted) != len(axes):
        op.refuse(f"its shape has {len(wanted)} sizes for {len(axes)} axes", fix="check the model")
    widths: list[tuple[Size, Size]] = [(0, 0)] * value.rank
    for axis, want in zip(axes, wanted, strict=True):
        widths[axis] = _halve(want - value.size(axis))
    padded = padding_modes.pad(value.tensor(value.layout), _in_layout(value, widths))
    if not tf.executing_eagerly():
        shape = dict(zip(axes, wanted, strict=True))
        sizes = [shape.get(axis, value.shape[axis]) for axis in value.layout.order(value.rank)]
        padded.set_shape([size if isinstance(size, int) else None for size in sizes])
    return computed(padded, value.layout, non_negative=value.non_negative)


def _halve(more: Size) -> tuple[Size, Size]:
    """Halve a difference; the part before is rounded towards 0, whether it is added or taken away."""
    low = (more + (more < 0)) // 2 if isinstance(more, int) else (more + tf.cast(more < 0, tf.int32)) // 2
    return low, more - low
