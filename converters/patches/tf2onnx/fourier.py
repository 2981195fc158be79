"""TensorFlow's Fourier transforms in ONNX, of pairs (see complex_pairs.py): FFT, IFFT, RFFT and IRFFT over one axis,
two or three.

Where the sizes are known a transform is a product with a matrix: the DFT of ONNX Runtime 1.31 agrees to some 80 dB only
where the length is no power of two (Bluestein's algorithm, with angles in float32). Else it is ONNX's DFT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .graph_writer import TfGraphWriter
from .tf2onnx_graphs import TfNode, constant_of

_MOST_ELEMENTS = 2**22  # of a matrix: 16 MB, a transform of 2,000 real numbers


def real(w: TfGraphWriter, pair: str) -> str:
    """Take the real part."""
    return w.call("Gather", pair, w.constant(0), axis=-1)


def imaginary(w: TfGraphWriter, pair: str) -> str:
    """Take the imaginary part."""
    return w.call("Gather", pair, w.constant(1), axis=-1)


def paired(w: TfGraphWriter, real_part: str, imaginary_part: str) -> str:
    """Make the pair of two parts, which broadcast."""
    parts = (w.unsqueezed(part, -1) for part in (real_part, imaginary_part))
    return w.call("Where", w.constant([True, False]), *parts)


def _transform(w: TfGraphWriter, kind: str, x: str, length: int | str | None) -> str:
    """Write numpy's function `kind` of x (..., n, 2), or of the real x (..., n) of rfft, along the last axis of
    numbers: cut or filled with zeros to `length`, or as long as it is."""
    size = _known_size(w, x, -1 if kind == "rfft" else -2)
    length = size if length is None and size >= 0 else length
    if isinstance(length, int) and 0 < _matrix_elements(kind, size, length) <= _MOST_ELEMENTS:
        return _by_matrix(w, kind, x, size, length)
    if kind == "rfft":
        return _dft(w, w.unsqueezed(x, -1), -2, length, onesided=1)
    if kind == "irfft":
        return _inverse_of_half(w, x, length)
    return _dft(w, x, -2, length, inverse=int(kind == "ifft"))


def _known_size(w: TfGraphWriter, x: str, axis: int) -> int:
    """Return the size of an axis, -1 where it is not known."""
    shape = w.graph.get_shape(x)
    return -1 if shape is None else shape[axis]


def _dft(w: TfGraphWriter, x: str, axis: int, length: int | str | None, **attributes: int) -> str:
    lengths = () if length is None else (_named(w, length),)
    return w.call("DFT", x, *lengths, axis=axis, **attributes)


def _named(w: TfGraphWriter, value: int | str) -> str:
    return w.constant(value) if isinstance(value, int) else value


def _by_matrix(w: TfGraphWriter, kind: str, x: str, size: int, length: int) -> str:
    """Write a transform as a product: it is linear in real and imaginary parts, and the matrix has the transform of
    each part's unit vectors."""
    units = np.eye(size)
    basis = units if kind == "rfft" else np.stack([units, 1j * units], 1).reshape(2 * size, size)
    transformed: NDArray[Any] = getattr(np.fft, kind)(basis, length)
    gives_pairs = kind != "irfft"
    pairs = np.stack([transformed.real, transformed.imag], -1).reshape(len(basis), -1)
    flat = x if kind == "rfft" else _with_last_axes(w, x, -2, [2 * size])
    product = w.call("MatMul", flat, w.constant(pairs if gives_pairs else transformed, w.numpy_dtype(x)))
    return _with_last_axes(w, product, -1, [transformed.shape[-1], 2]) if gives_pairs else product


def _matrix_elements(kind: str, size: int, length: int) -> int:
    """Count the elements of the matrix: below 0 where a size is not known."""
    rows, columns = (1 if kind == "rfft" else 2) * size, (1 if kind in ("rfft", "irfft") else 2) * length
    return rows * columns


def _with_last_axes(w: TfGraphWriter, x: str, end: int, sizes: Sequence[int]) -> str:
    """Reshape the axes from `end` on to `sizes`."""
    return w.call("Reshape", x, w.call("Concat", leading_sizes(w, x, end), w.constant(sizes), axis=0))


def leading_sizes(w: TfGraphWriter, x: str, end: int) -> str:
    """Read the sizes of the axes before `end`, by Slice: tf2onnx's optimiser overlooks that a Shape may have an end."""
    return w.call("Slice", w.call("Shape", x), w.constant([0]), w.constant([end]))


def _inverse_of_half(w: TfGraphWriter, x: str, length: int | str | None) -> str:
    """Write the real numbers of half of a spectrum. What the other half mirrors counts twice: it has the same real
    parts, and they are the answer."""
    n = _named(w, length or 0)  # TensorFlow's always has a length
    bins = w.call("Add", w.call("Div", n, w.constant(2)), w.constant(1))
    half = w.call("Slice", x, w.constant([0]), w.int64(bins, (1,)), w.constant([-2]))
    count = w.call("Gather", w.call("Shape", half), w.constant(-2), axis=0)
    places = w.call("Range", w.constant(0), count, w.constant(1))
    inside = w.call("Less", w.call("Mul", places, w.constant(2)), n)
    mirrored = w.call("And", w.call("Greater", places, w.constant(0)), inside)
    dtype = w.numpy_dtype(x)
    factors = w.call("Where", mirrored, w.constant(2, dtype), w.constant(1, dtype))
    weighted = w.call("Mul", half, w.unsqueezed(factors, -1))
    return real(w, _dft(w, weighted, -2, n, inverse=1))


def _lengths(w: TfGraphWriter, node: TfNode, count: int) -> list[int | str | None]:
    """Read the transform's length of each axis from its second input: a number, or the name of one (int64[])."""
    if len(node.input) < 2:
        return [None] * count
    value = constant_of(node.inputs[1])
    if value is not None:
        return [int(length) for length in value]
    lengths = node.input[1]
    return [w.int64(w.call("Gather", lengths, w.constant([at]), axis=0)) for at in range(count)]


def _over_axes(kind: str, count: int, w: TfGraphWriter, node: TfNode, _are_pairs: list[bool]) -> str:
    """Write a transform over the last axes. Half a spectrum is half along the last one, which comes first in rfft and
    last on the way back."""
    *outer, last = _lengths(w, node, count)
    along_last = partial(_transform, w, kind, length=last)
    x = along_last(node.input[0]) if kind == "rfft" else node.input[0]
    for axis, length in enumerate(outer, start=-count - 1):
        if length != 1 or _known_size(w, x, axis) != 1:  # TFLite's only transform is over two axes, one of them of 1
            x = _dft(w, x, axis, length, inverse=int(kind in ("ifft", "irfft")))
    return x if kind == "rfft" else along_last(x)


TRANSFORMS: Mapping[str, Callable[[TfGraphWriter, TfNode, list[bool]], str]] = {
    f"{kind.upper()}{'' if count == 1 else f'{count}D'}": partial(_over_axes, kind, count)
    for kind in ("fft", "ifft", "rfft", "irfft")
    for count in (1, 2, 3)
}
