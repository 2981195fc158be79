"""Pictures resized by a factor that float32 rounds: Resize multiplies a size in float32, and makes 63 of 90 by 0.7,
where PyTorch makes 62. No size tells where its elements come from; so the picture is made a bit larger, and cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...lazy_import import LazyLibrary
from ..torch_shared.onnxscript_opset import Translations, op, size_of
from ..torch_shared.size_products import is_short, multiplied

_nn: Any = LazyLibrary("onnxscript.function_libs.torch_lib.ops", "nn")


def resized() -> Translations:
    """A part of the dynamo exporter's `custom_translation_table`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.upsample_bilinear2d.vec: _resized(_nn.aten_upsample_bilinear2d_vec),
        aten.upsample_trilinear3d.vec: _resized(_nn.aten_upsample_trilinear3d_vec),
        aten.upsample_bicubic2d.vec: _resized(_nn.aten_upsample_bicubic2d_vec),
    }


def _resized(own: Callable[..., Any]) -> Callable[..., Any]:
    def made(input: Any, output_size: Any, align_corners: bool, scale_factors: Any) -> Any:  # noqa: A002
        if scale_factors is None or all(map(is_short, scale_factors)):
            return own(input, output_size, align_corners, scale_factors)
        sizes = op.Concat(*_products(input, scale_factors), axis=0)
        if align_corners:  # which asks for sizes alone
            return own(input, sizes, align_corners, None)
        larger = own(_with_edges(input, scale_factors), None, align_corners, scale_factors)
        axes = range(2, 2 + len(scale_factors))
        return op.Slice(larger, op.Constant(value_ints=[0 for _ in axes]), sizes, op.Constant(value_ints=[*axes]))

    return made


def _products(input: Any, factors: Sequence[float]) -> list[Any]:  # noqa: A002
    """How long each axis gets."""
    first = op.Constant(value_ints=[0])
    return [op.Unsqueeze(multiplied(size_of(input, axis), factor), first) for axis, factor in enumerate(factors, 2)]


def _with_edges(input: Any, factors: Sequence[float]) -> Any:  # noqa: A002
    """With its last elements once more, which is what PyTorch takes beyond them: as many as make one of the result."""
    more = [0 if is_short(factor) else math.ceil(1 / factor) for factor in factors]
    pads = [0] * (2 + len(factors)) + [0, 0, *more]
    return op.Pad(input, op.Constant(value_ints=pads), mode="edge")
