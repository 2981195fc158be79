"""Bits shifted as PyTorch does it, for torch's dynamo exporter: that one makes int8 of uint8, asks ONNX Runtime for a
shift of 16 bits, which it lacks, and shifts by as many bits as there are, or more, which no machine need do alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..torch_shared.onnxscript_opset import Translations, ir, op

_WIDE = 32  # bits: narrower numbers are shifted in as many


def shifts() -> Translations:
    """A part of the exporter's `custom_translation_table`."""
    import torch

    aten = torch.ops.aten
    left, right = aten.bitwise_left_shift, aten.bitwise_right_shift
    return {
        **dict.fromkeys((aten.__lshift__.Scalar, aten.__lshift__.Tensor), _shift(_left)),
        **dict.fromkeys((left.Tensor, left.Tensor_Scalar, left.Scalar_Tensor), _shift(_left)),
        **dict.fromkeys((aten.__rshift__.Scalar, aten.__rshift__.Tensor), _shift(_right)),
        **dict.fromkeys((right.Tensor, right.Tensor_Scalar, right.Scalar_Tensor), _shift(_right)),
    }


def _shift(function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A translation by what shifts integers of 32 or 64 bits, by numbers from 0 on, of which those above all bits are
    as many. PyTorch takes a number below 0 for such a one."""

    def translation(self: Any, other: Any) -> Any:
        kind = (other if isinstance(self, int) else self).dtype
        wide = ir.DataType.INT32 if kind.bitwidth < _WIDE else kind
        value, by = (_number(each, kind, wide) for each in (self, other))
        zero, bits = _constant(0, wide), _constant(wide.bitwidth, wide)
        far = op.Or(op.Less(by, zero), op.Greater(by, bits))
        return op.Cast(function(value, op.Where(far, bits, by), wide), to=kind)

    return translation


def _left(value: Any, by: Any, kind: Any) -> Any:
    """0 comes in from behind."""
    most = _constant(kind.bitwidth - 1, kind)
    made = _moved(value, op.Min(by, most), kind, "LEFT")
    return op.Where(op.Greater(by, most), _constant(0, kind), made)


def _right(value: Any, by: Any, kind: Any) -> Any:
    """The sign comes in from the front: of a number below 0 the bits are turned around before and after."""
    negative = op.Less(value, _constant(0, kind))
    turned = op.Where(negative, op.BitwiseNot(value), value)
    made = _moved(turned, op.Min(by, _constant(kind.bitwidth - 1, kind)), kind, "RIGHT")
    return op.Where(negative, op.BitwiseNot(made), made)


def _moved(value: Any, by: Any, kind: Any, direction: str) -> Any:
    """ONNX shifts numbers without a sign."""
    unsigned = ir.DataType.UINT32 if kind.bitwidth == _WIDE else ir.DataType.UINT64
    made = op.BitShift(op.Cast(value, to=unsigned), op.Cast(by, to=unsigned), direction=direction)
    return op.Cast(made, to=kind)


def _number(value: Any, kind: Any, wide: Any) -> Any:
    """An integer as one of `wide`; a Python number is one of `kind` before, as PyTorch has it."""
    return op.Cast(op.Constant(value=ir.tensor(value, dtype=kind)) if isinstance(value, int) else value, to=wide)


def _constant(value: int, kind: Any) -> Any:
    return op.Constant(value=ir.tensor(value, dtype=kind))
