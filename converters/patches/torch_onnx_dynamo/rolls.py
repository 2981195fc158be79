"""Elements rolled by a number of places that shows only as the model runs, for torch's dynamo exporter, which takes
constants alone. `torch.fft.fftshift` of an open axis is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...lazy_import import LazyLibrary
from ..torch_shared.onnxscript_opset import Translations, op

_core: Any = LazyLibrary("onnxscript.function_libs.torch_lib.ops", "core")


def rolls() -> Translations:
    """A part of the exporter's `custom_translation_table`."""
    import torch

    return {torch.ops.aten.roll.default: _rolled}


def _rolled(self: Any, shifts: Any, dims: Any = ()) -> Any:
    if all(isinstance(shift, int) for shift in shifts):
        return _core.aten_roll(self, shifts, dims)
    return rolled(self, shifts, dims, [-1])


def rolled(self: Any, shifts: Sequence[Any], dims: Sequence[int], line: Sequence[int]) -> Any:
    """Each of `dims` by its shift; without any all elements, which lie in a row of the shape `line`."""
    if not dims:
        return op.Reshape(_rolled_along(op.Reshape(self, line), shifts[0], 0), op.Shape(self))
    made, rank = self, self.rank
    for shift, axis in zip(shifts, dims, strict=True):
        made = _rolled_along(made, shift, axis % rank)
    return made


def _rolled_along(value: Any, shift: Any, axis: int) -> Any:
    """What ends an axis first: from `-shift` on, counted within the axis."""
    size = op.Shape(value, start=axis, end=axis + 1)
    size = op.Max(size, op.Constant(value_ints=[1]))  # by 0 nothing is divided
    begins = op.Mod(op.Neg(op.Reshape(shift, [1])), size)  # Mod has the sign of what divides
    later = op.Slice(value, begins, size, [axis])
    return op.Concat(later, op.Slice(value, [0], begins, [axis]), axis=axis)
