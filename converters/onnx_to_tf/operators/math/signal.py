"""Spectra: complex numbers lie in a last axis of size 2 (real, imaginary). Windows are lowered by their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from ....onnx_graph.semantics.axis_lists import transformed_axis
from ...common.attention_core import index_range, widen
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, INDICES, NUMBERS, lowers
from ...operator_context import OperatorContext
from ...values import Size, TfTensor, Value, computed, is_same_size
from .casting import dtype_named


@lowers("DFT", since=17, T1=FLOATS, T2=INDICES)
def dft(op: OperatorContext) -> Value:
    """Lower DFT: the Fourier transform along an axis, cut or filled with zeros to `dft_length`; also the inverse."""
    value, inverse, onesided, at = op.value(0), op.flag("inverse"), op.flag("onesided"), transformed_axis(op)
    length = _length(op, value.size(at), halved=inverse and onesided)
    parts = [_move_to_end(part, at) for part in _parts(op, value)]
    if inverse:
        spectrum = _transform_back(op, parts, value.size(at), length, onesided=onesided)
    else:
        spectrum = _transform(op, [_fit(part, value.size(at), length) for part in parts], length, onesided=onesided)
    back = [*range(at), value.rank - 2, *range(at, value.rank - 2), value.rank - 1]
    return computed(tf.cast(tf.transpose(tf.stack(spectrum, -1), back), value.dtype))


def _length(op: OperatorContext, size: Size, *, halved: bool) -> Size:
    """Return how many elements are transformed; of half a spectrum the full length, which is taken as even."""
    if op.optional(1) is not None:
        return op.sizes(1, "dft_length")[0]
    return 2 * (size - 1) if halved else size


def _parts(op: OperatorContext, value: Value) -> list[TfTensor]:
    """Return the real part, and the imaginary one if there is one."""
    if value.shape[-1] not in (1, 2):
        op.refuse("the size of its last axis is not known to be 1 or 2", fix="fix it when exporting")
    wide = widen(value.tensor())
    return [wide[..., at] for at in range(value.shape[-1])]


def _move_to_end(tensor: TfTensor, axis: int) -> TfTensor:
    """Return a tensor with an axis moved to the end."""
    rank = tensor.shape.rank
    return tf.transpose(tensor, [*(other for other in range(rank) if other != axis), axis])


def _fit(tensor: TfTensor, size: Size, length: Size) -> TfTensor:
    """Cut or fill the last axis, of size `size`, with zeros to `length`."""
    if is_same_size(size, length):
        return tensor
    cut = tensor[..., :length]
    missing = tf.maximum(length - size, 0)
    if isinstance(length, int) and isinstance(size, int):
        missing = max(length - size, 0)
    return tf.pad(cut, [[0, 0]] * (tensor.shape.rank - 1) + [[0, missing]])


def _transform(op: OperatorContext, parts: Sequence[TfTensor], length: Size, *, onesided: bool) -> list[TfTensor]:
    half = length // 2 + 1
    if len(parts) == 2:
        if onesided:
            op.refuse("onesided is defined for real numbers only", fix="check the model")
        return list(op.kernels.fourier(parts[0], parts[1], length, length))
    if onesided:
        return list(op.kernels.fourier(parts[0], None, length, half))
    return list(op.kernels.fourier(parts[0], tf.zeros_like(parts[0]), length, length))


def _transform_back(
    op: OperatorContext, parts: Sequence[TfTensor], size: Size, length: Size, *, onesided: bool
) -> list[TfTensor]:
    """Return the inverse transform, by the forward one of the conjugate.

    Half of a spectrum counts twice where the other half mirrors it, and then the real part is the result: the mirrored
    half has the same real parts.
    """
    if onesided:
        half = length // 2 + 1
        bins = tf.range(half)
        mirrored = tf.logical_and(bins > 0, 2 * bins < length)
        count = tf.where(mirrored, tf.constant(2, parts[0].dtype), tf.constant(1, parts[0].dtype))
        parts = [_fit(_fit(part, size, half) * count, half, length) for part in parts]
    else:
        parts = [_fit(part, size, length) for part in parts]
    imaginary = -parts[1] if len(parts) == 2 else tf.zeros_like(parts[0])
    real, imaginary = op.kernels.fourier(parts[0], imaginary, length, length)
    over = tf.cast(length, real.dtype)
    return [real / over] if onesided else [real / over, -imaginary / over]


@lowers("STFT", since=17, T1=FLOATS, T2=INDICES)
def stft(op: OperatorContext) -> Value:
    """Lower STFT: the transforms, by a window, of pieces of (batch, length, 1 or 2): (batch, frames, bins, 2)."""
    value, window, onesided = op.value(0), op.optional(2), op.flag("onesided", True)
    (step,) = op.sizes(1, "frame_step")
    length = _frame_length(op, value, window)
    frames = (value.size(1) - length) // step + 1
    at = index_range(frames)[:, None] * step + index_range(length)
    pieces = [tf.gather(part, at, axis=1) for part in _parts(op, value)]
    if window is not None:
        pieces = [piece * widen(window.tensor()) for piece in pieces]
    spectrum = _transform(op, pieces, length, onesided=onesided)
    return computed(tf.cast(tf.stack(spectrum, -1), value.dtype))


def _frame_length(op: OperatorContext, value: Value, window: Value | None) -> Size:
    """Return the frame's length: its input, or that of the window, or that of the signal."""
    length = op.sizes(3, "frame_length")[0] if op.optional(3) is not None else None
    if window is None:
        return value.size(1) if length is None else length
    wide = window.size(0)
    if isinstance(length, int) and isinstance(wide, int) and length != wide:
        op.refuse(f"its window has {wide} elements and its frames {length}", fix="make the window as long as a frame")
    return wide if length is None or isinstance(wide, int) else length


@lowers("MelWeightMatrix", since=17, T1=INDICES, T2=FLOATS, T3=NUMBERS)
def mel_weight_matrix(op: OperatorContext) -> Value:
    """Lower MelWeightMatrix: (spectrogram bins, mel bins), triangles evenly apart in mel, 2595 log10(1 + Hz / 700)."""
    (bins,), (length,) = op.sizes(0, "num_mel_bins"), op.sizes(1, "dft_length")
    rate, low, high = (tf.cast(op.tensor(at), tf.float64) for at in (2, 3, 4))
    low, high = (2595 / log(10) * tf.math.log1p(tf.reshape(edge, []) / 700) for edge in (low, high))
    mels = low + tf.cast(index_range(bins + 2), tf.float64) * ((high - low) / tf.cast(bins + 2, tf.float64))
    hertz = 700 * tf.math.expm1(mels * (log(10) / 2595))
    edges = tf.floor(tf.cast(length + 1, tf.float64) * hertz / tf.reshape(rate, []))
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    place = tf.cast(index_range(length // 2 + 1), tf.float64)[:, None]
    rising = tf.where(centre > left, tf.math.divide_no_nan(place - left, centre - left), tf.ones_like(place))
    falling = tf.math.divide_no_nan(right - place, right - centre)
    up = tf.where(tf.logical_and(left <= place, place <= centre), rising, tf.zeros_like(rising))
    triangles = tf.where(tf.logical_and(centre <= place, place < right), falling, up)
    return computed(tf.cast(triangles, dtype_named(op, op.integer("output_datatype", 1))))
