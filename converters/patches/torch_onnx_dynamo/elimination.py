"""Small matrices solved, factored and measured by operators that every format has, a step for each row: all matrices
at once, along whatever axes lie before the last two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from ..torch_shared.graph_types import OnnxValue
from ..torch_shared.onnxscript_opset import ir, op
from .cumulative_operators import FAR

if TYPE_CHECKING:
    from onnxscript.ir import DataType


@dataclass(frozen=True, slots=True)
class Elimination:
    """The result of Gauss-Jordan elimination of (A | B).

    `solution`: A^-1 B, (..., n, m). `pivots`, and whether their row was swapped (`swaps`): each (..., 1, 1).
    """

    solution: OnnxValue
    pivots: Sequence[OnnxValue]
    swaps: Sequence[OnnxValue]


def eliminate(value: OnnxValue, count: int, *, may_be_singular: bool = False) -> Elimination:
    """Eliminate (..., n, n + m) by the largest number of a column, of equal ones the first, as LAPACK's getrf does.

    A pivot of 0 makes numbers that are not finite, unless `may_be_singular`: then the pivots alone are right.
    """
    pivots, swaps = [], []
    for at in range(count):
        row, is_chosen = _pivot_row(value, at, count)
        pivot = cut(row, 1, 0, 1)
        pivots.append(pivot)
        divisor = op.Where(op.Equal(pivot, zero(pivot)), op.CastLike(1.0, pivot), pivot) if may_be_singular else pivot
        if is_chosen is not None:
            first = cut(value, 2, at, at + 1)
            swaps.append(op.Not(cut(is_chosen, 2, at, at + 1)))
            value = op.Where(is_chosen, first, value)
        row = op.Div(cut(row, 1, 1), divisor)
        rest = op.Sub(cut(value, 1, 1), op.Mul(cut(value, 1, 0, 1), row))
        value = op.Where(_column([index == at for index in range(count)], ir.DataType.BOOL), row, rest)
    return Elimination(value, pivots, swaps)


def _pivot_row(value: OnnxValue, at: int, count: int) -> tuple[OnnxValue, OnnxValue | None]:
    """Return the row of a step, (..., 1, m), and which one it is, (..., n, 1): None where it is the last."""
    if at == count - 1:
        return cut(value, 2, at), None
    candidates = op.Abs(cut(cut(value, 1, 0, 1), 2, at))
    place = op.Add(op.ArgMax(candidates, axis=-2, keepdims=True), op.Constant(value_int=at))
    is_chosen = op.Equal(_column([*range(count)], ir.DataType.INT64), place)
    return op.ReduceSum(op.Where(is_chosen, value, zero(value)), [-2], keepdims=True), is_chosen


def determinant_sign(elimination: Elimination) -> OnnxValue:
    """Write the sign of the determinant: -1, 0 or 1."""
    pivot = elimination.pivots[0]
    turns = [op.Where(swap, op.CastLike(-1.0, pivot), op.CastLike(1.0, pivot)) for swap in elimination.swaps]
    return reduce(op.Mul, [*map(op.Sign, elimination.pivots), *turns])


def cholesky_factor(value: OnnxValue, count: int) -> tuple[OnnxValue, Sequence[OnnxValue]]:
    """Write L of L L^T, (..., n, n), and the squares of its diagonal. Only the lower triangle of the matrix is read."""
    rank, columns, squares = len(value.shape), [], []
    for at in range(count):
        square = cut(cut(value, 2, 0, 1), 1, 0, 1)
        column = op.Div(cut(value, 1, 0, 1), op.Sqrt(square))
        columns.append(op.Pad(column, [*[0] * (rank - 2), at, *[0] * (rank + 1)]) if at else column)
        squares.append(square)
        below = cut(column, 2, 1)
        if at < count - 1:
            value = op.Sub(cut(cut(value, 1, 1), 2, 1), op.Mul(below, transposed(below, rank)))
    return op.Concat(*columns, axis=-1), squares


def solve_triangular(
    triangle: OnnxValue, right: OnnxValue, count: int, *, upper: bool, unit_diagonal: bool = False
) -> OnnxValue:
    """Write X of T X = B, (..., n, m), of which the triangle T alone is read."""
    rows: list[OnnxValue] = []
    for at in reversed(range(count)) if upper else range(count):
        first = cut(right, 2, -1) if upper else cut(right, 2, 0, 1)
        column = cut(triangle, 1, at, at + 1)
        row = first if unit_diagonal else op.Div(first, cut(column, 2, at, at + 1))
        rows.append(row)
        if len(rows) < count:
            rest = cut(right, 2, 0, -1) if upper else cut(right, 2, 1)
            right = op.Sub(rest, op.Mul(cut(column, 2, 0, at) if upper else cut(column, 2, at + 1), row))
    return op.Concat(*(reversed(rows) if upper else rows), axis=-2)


def number_of_first(conditions: Sequence[OnnxValue]) -> OnnxValue:
    """Write which of the conditions, counted from 1, is the first that holds; 0 where none does."""
    number = op.Constant(value=ir.tensor(0, dtype=ir.DataType.INT32))
    for at, condition in reversed([*enumerate(conditions, 1)]):
        number = op.Where(condition, op.Constant(value=ir.tensor(at, dtype=ir.DataType.INT32)), number)
    return number


def cut(value: OnnxValue, from_the_end: int, start: int, end: int = FAR) -> OnnxValue:
    """Slice the last axis (1) or the one before (2)."""
    return op.Slice(value, [start], [end], [-from_the_end])


def transposed(value: OnnxValue, rank: int) -> OnnxValue:
    """Transpose (..., n, m) to (..., m, n)."""
    return op.Transpose(value, perm=[*range(rank - 2), rank - 1, rank - 2])


def zero(like: OnnxValue) -> OnnxValue:
    """Write 0 in the dtype of a tensor."""
    return op.CastLike(0.0, like)


def _column(values: Sequence[int], dtype: DataType) -> OnnxValue:
    return op.Constant(value=ir.tensor([[value] for value in values], dtype=dtype))
