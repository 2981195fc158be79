"""Pictures and lines made larger or smaller by their nearest elements, where Resize takes others than PyTorch.

PyTorch multiplies the place by float32(size / new size), ONNX divides it by float32(new size / size): of 14 elements
PyTorch's second of two is the eighth, 7.0, and ONNX's the seventh, floor(6.9999995). By a power of two both are
exact, and Resize stays; else the elements are gathered. Formulas: nearest_idx and nearest_exact_idx in UpSample.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .. import private_onnxscript, private_torch
from .onnxscript_opset import Translations, op, size_of
from .size_products import multiplied
from .traced_symbolics import DOUBLE, FLOAT, INT64, Traced, constant, helper, register


def nearest() -> Translations:
    """A part of the dynamo exporter's `custom_translation_table`."""
    import torch

    own = private_onnxscript.nn.aten_upsample_nearestnd_vec

    def larger(input: Any, output_size: Any = None, scale_factors: Any = None) -> Any:  # noqa: A002  (PyTorch's name)
        if output_size is None:
            stays = all(map(is_exact, scale_factors))
        else:
            stays = all(map(_are_exact, list(input.shape)[2:], output_size))
        return own(input, output_size, scale_factors) if stays else _taken(input, output_size, scale_factors)

    aten = torch.ops.aten
    firsts = (aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d)
    middles = (aten._upsample_nearest_exact1d, aten._upsample_nearest_exact2d, aten._upsample_nearest_exact3d)
    return {**{each.vec: larger for each in firsts}, **{each.vec: _taken_by_middles for each in middles}}


def _taken_by_middles(input: Any, output_size: Any = None, scale_factors: Any = None) -> Any:  # noqa: A002
    return _taken(input, output_size, scale_factors, middle=0.5)


def _taken(input: Any, output_size: Any, scale_factors: Any, middle: float = 0.0) -> Any:  # noqa: A002
    sizes = [size_of(input, axis) for axis in range(2, len(input.shape))]
    if output_size is not None:
        asked = zip(sizes, output_size, strict=True)
        return _gathered(op, input, [_to_size(op, size, op.Cast(made, to=INT64), middle) for size, made in asked])
    is_picture = len(sizes) == _PICTURE_AXES and not middle
    places = [
        _by_factor(op, size, multiplied(size, factor), factor, middle, is_picture=is_picture)
        for size, factor in zip(sizes, scale_factors, strict=True)
    ]
    return _gathered(op, input, places)


def mend_nearest() -> None:
    """Register the right form for every later export by the older exporter."""
    register({f"aten::upsample_nearest{axes}d": _larger(axes) for axes in (1, 2, 3)})


def _larger(axes: int) -> Callable[..., Any]:
    def translation(g: Any, self: Any, output_size: Any, *scales: Any) -> Any:
        write = Traced(g)
        sizes = [write.Gather(write.Shape(self), constant(g, axis)) for axis in range(2, 2 + axes)]
        if not helper._is_none(output_size):
            asked = zip(sizes, _listed(g, output_size, axes), strict=True)
            return _gathered(write, self, [_to_size(write, size, made) for size, made in asked])
        factors = list(map(_unrounded, helper._get_const(scales[0], "fs", "scale_factors")))  # of an archive
        if all(map(is_exact, factors)):
            own = private_torch.symbolic_opset11._interpolate(f"upsample_nearest{axes}d", axes + 2, "nearest")
            return own(g, self, output_size, *scales)
        places = [
            _by_factor(write, size, _traced_product(g, size, factor), factor, 0.0, is_picture=axes == _PICTURE_AXES)
            for size, factor in zip(sizes, factors, strict=True)
        ]
        return _gathered(write, self, places)

    return translation


def _gathered(write: Any, made: Any, places: Sequence[Any]) -> Any:
    for axis, each in enumerate(places, 2):
        made = write.Gather(made, each, axis=axis)
    return made


def _unrounded(factor: float) -> float:
    """What the exporter has made float32 of, where that is a simple fraction: 0.7 of 0.699999988."""
    simple = Fraction(factor).limit_denominator(_SIMPLE)
    return float(simple) if np.float32(float(simple)) == np.float32(factor) else factor


def _traced_product(g: Any, size: Any, factor: float) -> Any:
    """In float64, as `multiplied` has it. Of numbers without axes the exporter makes float32."""
    import torch

    first = constant(g, [0])
    wide = g.op("Cast", g.op("Unsqueeze", size, first), to_i=DOUBLE)
    made = g.op("Mul", wide, constant(g, [factor], torch.float64))
    return g.op("Squeeze", g.op("Cast", made, to_i=INT64), first)


def _listed(g: Any, sizes: Any, axes: int) -> list[Any]:
    """Each of a list of sizes as a number without axes."""
    if helper._is_packed_list(sizes):
        return [g.op("Cast", each, to_i=INT64) for each in helper._unpack_list(sizes)]
    return [g.op("Gather", sizes, constant(g, at)) for at in range(axes)]


def _to_size(write: Any, size: Any, made: Any, middle: float = 0.0) -> Any:
    """Which of `size` elements is taken for each of `made`, both int64."""
    return _places(write, size, made, _quotient(write, size, made), middle)


def _by_factor(write: Any, size: Any, made: Any, factor: float, middle: float, *, is_picture: bool) -> Any:
    """The same where `made` was worked out by a factor. A place in a picture that keeps its size, or has twice its size
    then, is not multiplied by it (but in the rows of large ones: PyTorch has two kernels)."""
    share: Any = 1 / factor
    if is_picture:
        twice = write.Add(size, size)
        is_simple = write.Or(write.Equal(made, size), write.Equal(made, twice))
        share = write.Where(is_simple, _quotient(write, size, made), share)
    return _places(write, size, made, share, middle)


def _quotient(write: Any, size: Any, made: Any) -> Any:
    return write.Div(write.Cast(size, to=FLOAT), write.Cast(made, to=FLOAT))


def _places(write: Any, size: Any, made: Any, share: Any, middle: float) -> Any:
    """`share`: what a place is multiplied by. `middle`: where in an element its place is."""
    zero, one = (write.Cast(each, to=INT64) for each in (0.0, 1.0))
    at = write.Cast(write.Range(zero, made, one), to=FLOAT)
    at = write.Add(at, middle) if middle else at
    return write.Min(write.Cast(write.Floor(write.Mul(at, share)), to=INT64), write.Sub(size, one))


def is_exact(factor: float) -> bool:
    """Whether nothing is rounded on the way to a place by this factor: powers of two. Of others ONNX Runtime takes
    neither what the specification says nor what PyTorch takes (17 / 1.7 was 9)."""
    return math.frexp(factor)[0] == _POWER_OF_TWO


_POWER_OF_TWO = 0.5  # the mantissa of any
_PICTURE_AXES = 2
_SIMPLE = 1000  # the largest denominator


def _are_exact(size: Any, made: Any) -> bool:
    """The same of two sizes, of which one may be known as the model runs only."""
    return isinstance(size, int) and isinstance(made, int) and size > 0 and is_exact(made / size)
