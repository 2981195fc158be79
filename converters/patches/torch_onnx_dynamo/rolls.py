"""Elements rolled by a number of places that shows only as the model runs, for torch's dynamo exporter."""

from __future__ import annotations

from collections.abc import Sequence

from .. import private_onnxscript
from ..ledger import translations
from ..torch_shared.graph_types import Number, OnnxValue
from ..torch_shared.onnxscript_opset import op


def _roll(self: OnnxValue, shifts: Sequence[Number], dims: Sequence[int] = ()) -> OnnxValue:
    if all(isinstance(shift, int) for shift in shifts):
        own: OnnxValue = private_onnxscript.core.aten_roll(self, shifts, dims)
        return own
    return rolled(self, shifts, dims, [-1])


def rolled(self: OnnxValue, shifts: Sequence[Number], dims: Sequence[int], line: Sequence[int]) -> OnnxValue:
    """Roll each of `dims` by its shift; without any, all elements, in a row of the shape `line`."""
    if not dims:
        return op.Reshape(_rolled_along(op.Reshape(self, line), shifts[0], 0), op.Shape(self))
    value, rank = self, self.rank
    for shift, axis in zip(shifts, dims, strict=True):
        value = _rolled_along(value, shift, axis % rank)
    return value


def _rolled_along(value: OnnxValue, shift: Number, axis: int) -> OnnxValue:
    """Put the end of an axis first: from `-shift` on, counted within the axis."""
    size = op.Shape(value, start=axis, end=axis + 1)
    size = op.Max(size, op.Constant(value_ints=[1]))  # Mod by 0 is undefined
    start = op.Mod(op.Neg(op.Reshape(shift, [1])), size)  # Mod has the sign of the divisor
    end = op.Slice(value, start, size, [axis])
    return op.Concat(end, op.Slice(value, [0], start, [axis]), axis=axis)


PATCHES = translations(
    {"aten.roll.default": _roll},
    why="torchlib takes constant shifts alone; torch.fft.fftshift of an open axis has one that is a size",
    upstream="onnxscript/function_libs/torch_lib/ops/core.py: aten_roll",
    until="torchlib's aten_roll takes shifts that are tensors",
)
