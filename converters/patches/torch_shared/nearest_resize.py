"""Resizing by nearest elements, where ONNX's Resize takes other elements than PyTorch.

PyTorch multiplies the place by float32(size / new size), and ONNX divides it by float32(new size / size). From 14 to 2
elements PyTorch's second is the eighth, at 7.0, and ONNX's the seventh, at floor(6.9999995). By a power of two both
are exact, and Resize stays; else the elements are gathered. Formula: nearest_idx in UpSample.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .. import private_onnxscript, private_torch
from ..ledger import symbolics, translations
from .dynamo_graph import OnnxValue, op, size_of
from .formulas import DOUBLE, FLOAT, INT64, GraphValue, OpWriter
from .size_products import multiplied
from .traced_graph import Traced, TracedGraph, TracedValue, constant, helper


def _resized(input: Any, output_size: Any = None, scale_factors: Any = None) -> Any:  # noqa: A002  (PyTorch's name)
    if output_size is None:
        is_same = all(map(is_exact, scale_factors))
    else:
        is_same = all(map(_are_exact, list(input.shape)[2:], output_size))
    if is_same:
        return private_onnxscript.nn.aten_upsample_nearestnd_vec(input, output_size, scale_factors)
    return _nearest_elements(input, output_size, scale_factors)


def _nearest_elements(input: OnnxValue, output_size: Any, scale_factors: Any) -> OnnxValue:  # noqa: A002
    sizes = [size_of(input, axis) for axis in range(2, len(input.shape))]
    if output_size is not None:
        pairs = zip(sizes, output_size, strict=True)
        return _gathered(op, input, [_places(op, size, op.Cast(new, to=INT64)) for size, new in pairs])
    is_picture = len(sizes) == _PICTURE_AXES
    places = [
        _by_factor(op, size, multiplied(size, factor), factor, is_picture=is_picture)
        for size, factor in zip(sizes, scale_factors, strict=True)
    ]
    return _gathered(op, input, places)


def _resized_traced(axes: int) -> Callable[..., TracedValue]:
    def symbolic(g: TracedGraph, self: TracedValue, output_size: TracedValue, *scales: TracedValue) -> TracedValue:
        write = Traced(g)
        sizes = [write.Gather(write.Shape(self), constant(g, axis)) for axis in range(2, 2 + axes)]
        if not helper._is_none(output_size):
            pairs = zip(sizes, _listed(g, output_size, axes), strict=True)
            return _gathered(write, self, [_places(write, size, new) for size, new in pairs])
        factors = list(map(_unrounded, helper._get_const(scales[0], "fs", "scale_factors")))  # of an archive
        if all(map(is_exact, factors)):
            own = private_torch.symbolic_opset11._interpolate(f"upsample_nearest{axes}d", axes + 2, "nearest")
            resized: TracedValue = own(g, self, output_size, *scales)
            return resized
        places = [
            _by_factor(write, size, _traced_product(g, size, factor), factor, is_picture=axes == _PICTURE_AXES)
            for size, factor in zip(sizes, factors, strict=True)
        ]
        return _gathered(write, self, places)

    return symbolic


def _gathered(write: OpWriter[GraphValue], value: GraphValue, places: Sequence[GraphValue]) -> GraphValue:
    for axis, at in enumerate(places, 2):
        value = write.Gather(value, at, axis=axis)
    return value


def _unrounded(factor: float) -> float:
    """Return the simple fraction that the exporter has rounded to float32, if there is one: 0.7 for 0.699999988."""
    simple = Fraction(factor).limit_denominator(_SIMPLE)
    return float(simple) if np.float32(float(simple)) == np.float32(factor) else factor


def _traced_product(g: TracedGraph, size: TracedValue, factor: float) -> TracedValue:
    """Write a size times a factor in float64, as `multiplied` does; of rank 0 the exporter would make float32."""
    import torch

    first = constant(g, [0])
    wide = g.op("Cast", g.op("Unsqueeze", size, first), to_i=DOUBLE)
    product = g.op("Mul", wide, constant(g, [factor], torch.float64))
    return g.op("Squeeze", g.op("Cast", product, to_i=INT64), first)


def _listed(g: TracedGraph, sizes: TracedValue, axes: int) -> list[TracedValue]:
    """Return the elements of a list of sizes, each of rank 0."""
    if helper._is_packed_list(sizes):
        return [g.op("Cast", size, to_i=INT64) for size in helper._unpack_list(sizes)]
    return [g.op("Gather", sizes, constant(g, at)) for at in range(axes)]


def _by_factor(
    write: OpWriter[GraphValue], size: GraphValue, new: GraphValue, factor: float, *, is_picture: bool
) -> GraphValue:
    """Write which elements are taken where `new` was computed by a factor.

    In a picture that keeps its size, or gets twice its size, PyTorch does not multiply by the factor; except in the
    rows of large ones, as it has two kernels.
    """
    share: GraphValue | float = 1 / factor
    if is_picture:
        twice = write.Add(size, size)
        is_simple = write.Or(write.Equal(new, size), write.Equal(new, twice))
        share = write.Where(is_simple, _quotient(write, size, new), share)
    return _places(write, size, new, share)


def _quotient(write: OpWriter[GraphValue], size: GraphValue, new: GraphValue) -> GraphValue:
    return write.Div(write.Cast(size, to=FLOAT), write.Cast(new, to=FLOAT))


def _places(
    write: OpWriter[GraphValue], size: GraphValue, new: GraphValue, share: GraphValue | float | None = None
) -> GraphValue:
    """Write which of `size` elements (int64) each of `new` takes: that at its place times `share`, or size / new."""
    share = _quotient(write, size, new) if share is None else share
    zero, unit = (write.Cast(number, to=INT64) for number in (0.0, 1.0))
    at = write.Cast(write.Range(zero, new, unit), to=FLOAT)
    return write.Min(write.Cast(write.Floor(write.Mul(at, share)), to=INT64), write.Sub(size, unit))


def is_exact(factor: float) -> bool:
    """Return whether a factor is a power of two, by which no place is rounded.

    By others ONNX Runtime takes neither the specification's elements nor PyTorch's (17 / 1.7 was 9).
    """
    return math.frexp(factor)[0] == _POWER_OF_TWO


_POWER_OF_TWO = 0.5  # the mantissa of any
_PICTURE_AXES = 2
_SIMPLE = 1000  # the largest denominator


def _are_exact(size: object, new: object) -> bool:
    """Return whether two known sizes differ by a power of two."""
    return isinstance(size, int) and isinstance(new, int) and size > 0 and is_exact(new / size)


_WHY = "Writes Resize, which takes other nearest elements than PyTorch where the factor is no power of two."
PATCHES = (
    *translations(
        {f"aten.upsample_nearest{axes}d.vec": _resized for axes in (1, 2, 3)},
        why=_WHY,
        upstream="onnxscript/function_libs/torch_lib/ops/nn.py (aten_upsample_nearestnd_vec)",
        until="Resize can be told PyTorch's rounding",
    ),
    *symbolics(
        {f"aten::upsample_nearest{axes}d": _resized_traced(axes) for axes in (1, 2, 3)},
        why=_WHY,
        upstream="torch/onnx/_internal/torchscript_exporter/symbolic_opset11.py (_interpolate)",
    ),
)
