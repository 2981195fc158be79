"""Small matrices solved, factored and measured by operators that every format has, a step for each row: all of them at
once, along whatever axes lie before the last two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from ..torch_shared.onnxscript_opset import ir, op
from .cumulative_operators import FAR


@dataclass(frozen=True, slots=True)
class Eliminated:
    """What Gauss-Jordan elimination leaves: the columns beside the matrix, now A^-1 B, (..., n, m); the pivots, and
    whether their row was taken from further down, each (..., 1, 1)."""

    beside: Any
    pivots: Sequence[Any]
    swapped: Sequence[Any]


def eliminated(value: Any, count: int, *, may_be_singular: bool = False) -> Eliminated:
    """Of (..., n, n + m), by the largest number of a column, of equal ones the first, as LAPACK's getrf has it. A pivot
    of 0 makes what is not finite, but where the pivots alone are asked for."""
    pivots, swapped = [], []
    for at in range(count):
        row, is_chosen = _chosen(value, at, count)
        pivot = cut(row, 1, 0, 1)
        pivots.append(pivot)
        divisor = op.Where(op.Equal(pivot, zero(pivot)), op.CastLike(1.0, pivot), pivot) if may_be_singular else pivot
        if is_chosen is not None:
            first = cut(value, 2, at, at + 1)
            swapped.append(op.Not(cut(is_chosen, 2, at, at + 1)))
            value = op.Where(is_chosen, first, value)
        row = op.Div(cut(row, 1, 1), divisor)
        others = op.Sub(cut(value, 1, 1), op.Mul(cut(value, 1, 0, 1), row))
        value = op.Where(_rows([each == at for each in range(count)], ir.DataType.BOOL), row, others)
    return Eliminated(value, pivots, swapped)


def _chosen(value: Any, at: int, count: int) -> tuple[Any, Any]:
    """The row of a step, (..., 1, m), and which it is, (..., n, 1): None where it is the last."""
    if at == count - 1:
        return cut(value, 2, at), None
    left = op.Abs(cut(cut(value, 1, 0, 1), 2, at))
    place = op.Add(op.ArgMax(left, axis=-2, keepdims=True), op.Constant(value_int=at))
    is_chosen = op.Equal(_rows([*range(count)], ir.DataType.INT64), place)
    return op.ReduceSum(op.Where(is_chosen, value, zero(value)), [-2], keepdims=True), is_chosen


def sign_of(made: Eliminated) -> Any:
    """Of the determinant: -1, 0 or 1."""
    turns = [
        op.Where(each, op.CastLike(-1.0, made.pivots[0]), op.CastLike(1.0, made.pivots[0])) for each in made.swapped
    ]
    return reduce(op.Mul, [*map(op.Sign, made.pivots), *turns])


def factored(value: Any, count: int) -> tuple[Any, Sequence[Any]]:
    """Cholesky's L of L L^T, (..., n, n), and the squares of what lies on its diagonal. Only the lower triangle of the
    matrix is read."""
    rank, columns, squares = len(value.shape), [], []
    for at in range(count):
        square = cut(cut(value, 2, 0, 1), 1, 0, 1)
        column = op.Div(cut(value, 1, 0, 1), op.Sqrt(square))
        columns.append(op.Pad(column, [*[0] * (rank - 2), at, *[0] * (rank + 1)]) if at else column)
        squares.append(square)
        below = cut(column, 2, 1)
        if at < count - 1:
            value = op.Sub(cut(cut(value, 1, 1), 2, 1), op.Mul(below, turned(below, rank)))
    return op.Concat(*columns, axis=-1), squares


def substituted(triangle: Any, right: Any, count: int, *, upper: bool, of_ones: bool = False) -> Any:
    """X of T X = B, (..., n, m), T of a triangle, which alone is read; `of_ones`: on its diagonal."""
    rows: list[Any] = []
    for at in reversed(range(count)) if upper else range(count):
        first = cut(right, 2, -1) if upper else cut(right, 2, 0, 1)
        column = cut(triangle, 1, at, at + 1)
        row = first if of_ones else op.Div(first, cut(column, 2, at, at + 1))
        rows.append(row)
        if len(rows) < count:
            left = cut(right, 2, 0, -1) if upper else cut(right, 2, 1)
            right = op.Sub(left, op.Mul(cut(column, 2, 0, at) if upper else cut(column, 2, at + 1), row))
    return op.Concat(*(reversed(rows) if upper else rows), axis=-2)


def first_of(found: Sequence[Any]) -> Any:
    """Which of these, counted from 1, is the first that holds; 0 where none does."""
    made = op.Constant(value=ir.tensor(0, dtype=ir.DataType.INT32))
    for at, each in reversed([*enumerate(found, 1)]):
        made = op.Where(each, op.Constant(value=ir.tensor(at, dtype=ir.DataType.INT32)), made)
    return made


def cut(value: Any, from_the_end: int, start: int, end: int = FAR) -> Any:
    """Along the last axis (1) or the one before (2)."""
    return op.Slice(value, [start], [end], [-from_the_end])


def turned(value: Any, rank: int) -> Any:
    """(..., n, m) -> (..., m, n)"""
    return op.Transpose(value, perm=[*range(rank - 2), rank - 1, rank - 2])


def zero(like: Any) -> Any:
    """Of its dtype."""
    return op.CastLike(0.0, like)


def _rows(values: Sequence[int], kind: Any) -> Any:
    return op.Constant(value=ir.tensor([[each] for each in values], dtype=kind))
