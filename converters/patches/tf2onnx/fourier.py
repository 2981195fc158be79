"""TensorFlow's Fourier transforms in ONNX, of pairs (see pairs.py): FFT, IFFT, RFFT and IRFFT over one axis, two or
three.

Where the sizes are known a transform is a product with a matrix: the DFT of ONNX Runtime 1.31 agrees to some 80 dB only
where the length is no power of two (Bluestein's algorithm, with angles in float32). Else it is ONNX's DFT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .loop_counting import Builder, Node

_MOST_ELEMENTS = 2**22  # of a matrix: 16 MB, a transform of 2,000 real numbers


def real(b: Builder, pair: str) -> str:
    """The real part."""
    return b.call("Gather", pair, b.constant(0), axis=-1)


def imaginary(b: Builder, pair: str) -> str:
    """The imaginary part."""
    return b.call("Gather", pair, b.constant(1), axis=-1)


def paired(b: Builder, real_part: str, imaginary_part: str) -> str:
    """The pair of two parts, which broadcast."""
    parts = (b.call("Unsqueeze", each, b.constant([-1])) for each in (real_part, imaginary_part))
    return b.call("Where", b.constant([True, False], np.bool_), *parts)


def _transform(b: Builder, kind: str, x: str, length: int | str | None) -> str:
    """What numpy's function of this name makes of x (..., n, 2), or of the real x (..., n) of rfft, along the last axis
    of numbers: cut or filled with zeros to `length`, or as long as it is."""
    size = _size(b, x, -1 if kind == "rfft" else -2)
    length = size if length is None and size >= 0 else length
    if isinstance(length, int) and 0 < _elements(kind, size, length) <= _MOST_ELEMENTS:
        return _by_matrix(b, kind, x, size, length)
    if kind == "rfft":
        return _dft(b, b.call("Unsqueeze", x, b.constant([-1])), -2, length, onesided=1)
    if kind == "irfft":
        return _half_back(b, x, length)
    return _dft(b, x, -2, length, inverse=int(kind == "ifft"))


def _size(b: Builder, x: str, axis: int) -> int:
    """The size of an axis, -1 where it is not known."""
    shape = b.graph.get_shape(x)
    return -1 if shape is None else int(shape[axis])


def _dft(b: Builder, x: str, axis: int, length: int | str | None, **attributes: int) -> str:
    given = () if length is None else (_number(b, length),)
    return b.call("DFT", x, *given, axis=axis, **attributes)


def _number(b: Builder, value: int | str) -> str:
    return b.constant(value) if isinstance(value, int) else value


def _by_matrix(b: Builder, kind: str, x: str, size: int, length: int) -> str:
    """A transform is linear in real and imaginary parts: the matrix has what it makes of each of them alone."""
    units = np.eye(size)
    basis = units if kind == "rfft" else np.stack([units, 1j * units], 1).reshape(2 * size, size)
    made: Any = getattr(np.fft, kind)(basis, length)
    gives_pairs = kind != "irfft"
    rows = np.stack([made.real, made.imag], -1).reshape(len(basis), -1) if gives_pairs else made
    flat = x if kind == "rfft" else _reshaped(b, x, -2, [2 * size])
    product = b.call("MatMul", flat, b.constant(rows, dtype_of(b, x)))
    return _reshaped(b, product, -1, [made.shape[-1], 2]) if gives_pairs else product


def _elements(kind: str, size: int, length: int) -> int:
    """Of the matrix; none are known where a size is not."""
    rows, columns = (1 if kind == "rfft" else 2) * size, (1 if kind in ("rfft", "irfft") else 2) * length
    return rows * columns


def _reshaped(b: Builder, x: str, end: int, sizes: Sequence[int]) -> str:
    """With other axes in the place of those from `end` on."""
    return b.call("Reshape", x, b.call("Concat", leading(b, x, end), b.constant(sizes), axis=0))


def leading(b: Builder, x: str, end: int) -> str:
    """The sizes of the axes before `end`. tf2onnx's optimiser overlooks that a Shape may be a part of one."""
    return b.call("Slice", b.call("Shape", x), b.constant([0]), b.constant([end]))


def dtype_of(b: Builder, x: str) -> Any:
    """Numpy's dtype of a tensor."""
    from onnx.helper import tensor_dtype_to_np_dtype

    return tensor_dtype_to_np_dtype(b.graph.get_dtype(x))


def _half_back(b: Builder, x: str, length: int | str | None) -> str:
    """The real numbers of half of a spectrum. What the other half mirrors counts twice: it has the same real parts, and
    they are the answer."""
    n = _number(b, length or 0)  # TensorFlow's always has one
    bins = b.call("Add", b.call("Div", n, b.constant(2)), b.constant(1))
    half = b.call("Slice", x, b.constant([0]), b.int64(bins, (1,)), b.constant([-2]))
    count = b.call("Gather", b.call("Shape", half), b.constant(-2), axis=0)
    places = b.call("Range", b.constant(0), count, b.constant(1))
    inside = b.call("Less", b.call("Mul", places, b.constant(2)), n)
    mirrored = b.call("And", b.call("Greater", places, b.constant(0)), inside)
    dtype = dtype_of(b, x)
    times = b.call("Where", mirrored, b.constant(2, dtype), b.constant(1, dtype))
    weighed = b.call("Mul", half, b.call("Unsqueeze", times, b.constant([-1])))
    return real(b, _dft(b, weighed, -2, n, inverse=1))


def _lengths(b: Builder, node: Node, count: int) -> list[int | str | None]:
    """What the transform's second input says of each axis: a number, or the name of one (int64[])."""
    if len(node.input) < 2:
        return [None] * count
    given = node.inputs[1]
    if given.is_const():
        return [int(each) for each in given.get_tensor_value(as_list=False)]
    return [b.int64(b.call("Gather", given.output[0], b.constant([at]), axis=0)) for at in range(count)]


def _over_axes(kind: str, count: int, b: Builder, node: Node) -> str:
    """A transform over the last axes. Half a spectrum is half along the last one, which comes first there and last on
    the way back."""
    *outer, last = _lengths(b, node, count)
    along = partial(_transform, b, kind, length=last)
    x = along(node.input[0]) if kind == "rfft" else node.input[0]
    for axis, length in enumerate(outer, start=-count - 1):
        if length != 1 or _size(b, x, axis) != 1:  # as TFLite has it, whose one transform is over two axes
            x = _dft(b, x, axis, length, inverse=int(kind in ("ifft", "irfft")))
    return x if kind == "rfft" else along(x)


TRANSFORMS: Mapping[str, Callable[[Builder, Node], str]] = {
    f"{kind.upper()}{'' if count == 1 else f'{count}D'}": partial(_over_axes, kind, count)
    for kind in ("fft", "ifft", "rfft", "irfft")
    for count in (1, 2, 3)
}
