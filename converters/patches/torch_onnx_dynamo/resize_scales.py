"""Pictures resized by a factor that float32 rounds, for torch's dynamo exporter.

Resize multiplies a size in float32, and makes 63 of 90 by 0.7, where PyTorch makes 62. A result's size does not tell
where its elements come from; so the picture is made a bit larger, and cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .. import private_onnxscript
from ..ledger import translations
from ..torch_shared.graph_types import OnnxValue
from ..torch_shared.onnxscript_opset import op, size_of
from ..torch_shared.size_products import is_short, multiplied


def _resized(name: str) -> Callable[..., OnnxValue]:
    """Return a translation by torchlib's function of this name."""

    def translation(
        input: OnnxValue,  # noqa: A002  (the operator's own argument)
        output_size: object,
        align_corners: bool,
        scale_factors: Sequence[float] | None,
    ) -> OnnxValue:
        own: Callable[..., OnnxValue] = getattr(private_onnxscript.nn, name)
        if scale_factors is None or all(map(is_short, scale_factors)):
            return own(input, output_size, align_corners, scale_factors)
        sizes = op.Concat(*_scaled_sizes(input, scale_factors), axis=0)
        if align_corners:  # the places follow from the sizes alone
            return own(input, sizes, align_corners, None)
        larger = own(_with_repeated_edges(input, scale_factors), None, align_corners, scale_factors)
        axes = range(2, 2 + len(scale_factors))
        return op.Slice(larger, op.Constant(value_ints=[0 for _ in axes]), sizes, op.Constant(value_ints=[*axes]))

    return translation


def _scaled_sizes(picture: OnnxValue, factors: Sequence[float]) -> list[OnnxValue]:
    """Write the new size of each axis."""
    first = op.Constant(value_ints=[0])
    return [op.Unsqueeze(multiplied(size_of(picture, axis), factor), first) for axis, factor in enumerate(factors, 2)]


def _with_repeated_edges(picture: OnnxValue, factors: Sequence[float]) -> OnnxValue:
    """Repeat the last elements, which PyTorch reads beyond the end: as many as make one of the result."""
    ends = [0 if is_short(factor) else math.ceil(1 / factor) for factor in factors]
    pads = [0] * (2 + len(factors)) + [0, 0, *ends]
    return op.Pad(picture, op.Constant(value_ints=pads), mode="edge")


PATCHES = translations(
    {
        f"aten.{name}.vec": _resized(f"aten_{name}_vec")
        for name in ("upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d")
    },
    why="Resize multiplies a size in float32: of 90 by 0.7 it makes 63, where PyTorch makes 62",
    upstream="onnxscript/function_libs/torch_lib/ops/nn.py: aten_upsample_bilinear2d_vec",
    until="torchlib computes sizes in float64, or ONNX's Resize takes sizes beside scales",
)
