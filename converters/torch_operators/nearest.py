"""Pictures and lines made larger or smaller by their nearest elements, where Resize takes others than PyTorch.

PyTorch multiplies the place by float32(size / new size), ONNX divides it by float32(new size / size): of 14 elements
PyTorch's second of two is the eighth, 7.0, and ONNX's the seventh, floor(6.9999995). By a power of two both are
exact, and Resize stays; else the elements are gathered. Formula: nearest_idx in aten's UpSample.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .script import Translations, op, size_of
from .traced import DOUBLE, FLOAT, INT64, Traced, constant, helper, register


def nearest() -> Translations:
    """A part of the dynamo exporter's `custom_translation_table`."""
    import torch
    from onnxscript.function_libs.torch_lib.ops import nn

    own = nn.aten_upsample_nearestnd_vec

    def larger(input: Any, output_size: Any = None, scale_factors: Any = None) -> Any:  # noqa: A002  (PyTorch's name)
        if output_size is None:
            asked, read = scale_factors, _by_factor
            stays = all(map(is_exact, asked))
        else:
            asked, read = output_size, _to_size
            stays = all(map(_are_exact, list(input.shape)[2:], asked))
        if stays:
            return own(input, output_size, scale_factors)
        taken = input
        for axis, each in enumerate(asked, 2):
            size = size_of(input, axis)
            taken = op.Gather(taken, _places(op, size, *read(size, each)), axis=axis)
        return taken

    aten = torch.ops.aten
    return {each.vec: larger for each in (aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d)}


def mend_nearest() -> None:
    """Register the right form for every later export by the older exporter."""
    register({f"aten::upsample_nearest{axes}d": _larger(axes) for axes in (1, 2, 3)})


def _larger(axes: int) -> Callable[..., Any]:
    def translation(g: Any, self: Any, output_size: Any, *scales: Any) -> Any:
        from torch.onnx._internal.torchscript_exporter import symbolic_opset11

        if helper._is_none(output_size):  # not of a trace, which makes sizes of factors (words.py)
            own = symbolic_opset11._interpolate(f"upsample_nearest{axes}d", axes + 2, "nearest")
            return own(g, self, output_size, *scales)
        write = Traced(g)
        for axis, made in enumerate(_listed(g, output_size, axes), 2):
            size = write.Gather(write.Shape(self), constant(g, axis))
            self = write.Gather(self, _places(write, size, made, None), axis=axis)
        return self

    return translation


def _listed(g: Any, sizes: Any, axes: int) -> list[Any]:
    """Each of a list of sizes as a number without axes."""
    if helper._is_packed_list(sizes):
        return [g.op("Cast", each, to_i=INT64) for each in helper._unpack_list(sizes)]
    return [g.op("Gather", sizes, constant(g, at)) for at in range(axes)]


def _places(write: Any, size: Any, made: Any, share: float | None) -> Any:
    """Which of `size` elements is taken for each of `made`, all of them int64. `share`: what a place is multiplied by,
    where it is no quotient of the two."""
    zero, one = (write.Cast(each, to=INT64) for each in (0.0, 1.0))
    at = write.Cast(write.Range(zero, made, one), to=FLOAT)
    by = write.Div(write.Cast(size, to=FLOAT), write.Cast(made, to=FLOAT)) if share is None else share
    return write.Min(write.Cast(write.Floor(write.Mul(at, by)), to=INT64), write.Sub(size, one))


def _by_factor(size: Any, factor: float, /) -> tuple[Any, float | None]:
    """How many are made of `size` elements, and what a place is multiplied by."""
    return op.Cast(op.Mul(op.Cast(size, to=DOUBLE), op.Cast(factor, to=DOUBLE)), to=INT64), 1 / factor


def _to_size(_size: Any, made: Any, /) -> tuple[Any, float | None]:
    """The same where that is asked for."""
    return op.Constant(value_int=made) if isinstance(made, int) else op.Cast(made, to=INT64), None


def is_exact(factor: float) -> bool:
    """Whether nothing is rounded on the way to a place by this factor: powers of two. Of others ONNX Runtime takes
    neither what the specification says nor what PyTorch takes (17 / 1.7 was 9)."""
    return math.frexp(factor)[0] == _POWER_OF_TWO


_POWER_OF_TWO = 0.5  # the mantissa of any


def _are_exact(size: Any, made: Any) -> bool:
    """The same of two sizes, of which one may be known as the model runs only."""
    return isinstance(size, int) and isinstance(made, int) and size > 0 and is_exact(made / size)


__all__ = ["is_exact", "mend_nearest", "nearest"]
