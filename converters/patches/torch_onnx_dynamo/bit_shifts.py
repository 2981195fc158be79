"""Shifts of bits for torch's dynamo exporter, as PyTorch does them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..ledger import translations
from ..torch_shared.dynamo_graph import Number, OnnxValue, constant_of, ir, op

if TYPE_CHECKING:
    from onnxscript.ir import DataType

_WIDE = 32  # bits: narrower numbers are shifted in as many


def _shift(shift: Callable[[OnnxValue, OnnxValue, DataType], OnnxValue]) -> Callable[..., OnnxValue]:
    """Return a translation by what shifts integers of 32 or 64 bits, by numbers from 0 on.

    PyTorch takes a count below 0, or above the number of bits, for one that shifts all of them out.
    """

    def translation(self: Number, other: Number) -> OnnxValue:
        dtype = _dtype_of(self, other)
        wide = ir.DataType.INT32 if dtype.bitwidth < _WIDE else dtype
        value, count = (_widened(number, dtype, wide) for number in (self, other))
        zero, bits = constant_of(0, wide), constant_of(wide.bitwidth, wide)
        is_out = op.Or(op.Less(count, zero), op.Greater(count, bits))
        return op.Cast(shift(value, op.Where(is_out, bits, count), wide), to=dtype)

    return translation


def _dtype_of(self: Number, other: Number) -> DataType:
    for number in (self, other):
        if not isinstance(number, int | float):
            return number.dtype
    raise NotImplementedError("a shift of two Python numbers")


def _left(value: OnnxValue, count: OnnxValue, dtype: DataType) -> OnnxValue:
    """Shift in zeros from behind."""
    most = constant_of(dtype.bitwidth - 1, dtype)
    shifted = _shifted(value, op.Min(count, most), dtype, "LEFT")
    return op.Where(op.Greater(count, most), constant_of(0, dtype), shifted)


def _right(value: OnnxValue, count: OnnxValue, dtype: DataType) -> OnnxValue:
    """Shift in the sign from the front: of a number below 0 the bits are inverted before and after."""
    is_negative = op.Less(value, constant_of(0, dtype))
    inverted = op.Where(is_negative, op.BitwiseNot(value), value)
    shifted = _shifted(inverted, op.Min(count, constant_of(dtype.bitwidth - 1, dtype)), dtype, "RIGHT")
    return op.Where(is_negative, op.BitwiseNot(shifted), shifted)


def _shifted(value: OnnxValue, count: OnnxValue, dtype: DataType, direction: str) -> OnnxValue:
    """Shift as unsigned integers: ONNX shifts no others."""
    unsigned = ir.DataType.UINT32 if dtype.bitwidth == _WIDE else ir.DataType.UINT64
    shifted = op.BitShift(op.Cast(value, to=unsigned), op.Cast(count, to=unsigned), direction=direction)
    return op.Cast(shifted, to=dtype)


def _widened(value: Number, dtype: DataType, wide: DataType) -> OnnxValue:
    """Cast an integer to `wide`; a Python number becomes one of `dtype` before, as PyTorch has it."""
    return op.Cast(constant_of(value, dtype) if isinstance(value, int) else value, to=wide)


_LEFT = ("__lshift__.Scalar", "__lshift__.Tensor", "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar",
         "bitwise_left_shift.Scalar_Tensor")  # fmt: skip
PATCHES = translations(
    {
        **{f"aten.{name}": _shift(_left) for name in _LEFT},
        **{f"aten.{name.replace('left', 'right').replace('lshift', 'rshift')}": _shift(_right) for name in _LEFT},
    },
    why="torchlib makes int8 of uint8, asks ONNX Runtime for a shift of 16 bits, which it lacks, and shifts by as many "
    "bits as there are, or more, which no two machines need do alike",
    upstream="onnxscript/function_libs/torch_lib/ops/core.py: aten_bitwise_left_shift",
    until="torchlib shifts in 32 or 64 bits and bounds the count",
)
