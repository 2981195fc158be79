"""QuantizeLinear and DequantizeLinear: the dtype, and how a scale or a zero point lies beside a tensor."""

from __future__ import annotations

from enum import Enum

from ..node_reader import NodeReader, S, V


class Granularity(Enum):
    """What one number of a scale or of a zero point is for."""

    TENSOR = "tensor"
    ELEMENT = "element"  # of a vector: it broadcasts as it is
    AXIS = "axis"
    BLOCK = "block"


def granularity(op: NodeReader[V, S], part: V, value: V) -> tuple[Granularity, int, int]:
    """Return what each number of a scale or a zero point is for, the axis along which it lies, and the block's size."""
    axis, block = op.integer("axis", 1), op.integer("block_size", 0)
    if part.rank == 0 or tuple(part.shape) == (1,):
        return Granularity.TENSOR, 0, 0
    if value.rank == 1 and not block:  # the axis says nothing
        return Granularity.ELEMENT, 0, 0
    if not -value.rank <= axis < value.rank or part.rank != (value.rank if block else 1):
        where = f"the axis {axis} of {value.rank}, in blocks of {block}"
        op.refuse(f"a scale or zero point with {part.rank} axes along {where}", fix="check the model")
    return (Granularity.BLOCK if block else Granularity.AXIS), axis % value.rank, block


def quantized_dtype(op: NodeReader[V, S]) -> str:
    """Return the dtype that QuantizeLinear makes: that of output_dtype or of the zero point, and else uint8."""
    zero, named = op.optional(2), op.dtype("output_dtype", 0)
    if zero is not None and named not in ("", zero.dtype):
        op.refuse(f"its output_dtype is {named} and its zero point {zero.dtype}", fix="check the model")
    return named or "uint8" if zero is None else zero.dtype
