"""Inverses, solutions, factors and determinants of small matrices for torch's dynamo exporter.

By operators that every format has, a step for each of as many rows as are known: of all matrices at once, along
whatever axes lie before the last two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from ..ledger import missing_translations, translations
from ..torch_shared.dynamo_graph import OnnxValue, constant_of, ir, op
from .cumulative_operators import FAR

if TYPE_CHECKING:
    from onnxscript.ir import DataType

_MOST = 32  # rows that are written out: a step is some twenty operators,
_MOST_OF_TRIANGLE = 100  # and six where half of the matrix is 0


# Operators whose names end in `_ex` also return info, and take `check_errors`, which changes no answer.


def _inverse(matrix: OnnxValue) -> OnnxValue:
    return _eliminate_identity(matrix).solution


def _inverse_with_info(matrix: OnnxValue, **_: object) -> tuple[OnnxValue, OnnxValue]:
    elimination = _eliminate_identity(matrix)
    return elimination.solution, _number_of_first_zero(elimination)


def _eliminate_identity(value: OnnxValue) -> _Elimination:
    return _eliminate(op.Concat(value, op.Expand(_identity(value), op.Shape(value)), axis=-1), _rows_of(value))


def _solve(matrix: OnnxValue, right: OnnxValue, left: bool = True) -> OnnxValue:
    return _solution(matrix, right, left)[0]


def _solve_with_info(matrix: OnnxValue, right: OnnxValue, left: bool = True, **_: object) -> tuple[OnnxValue, ...]:
    solution, elimination = _solution(matrix, right, left)
    info = _number_of_first_zero(elimination)
    return solution, matrix, info, info  # the second and the third are for a backward pass


def _solution(matrix: OnnxValue, right: OnnxValue, left: bool) -> tuple[OnnxValue, _Elimination]:
    """Write X of A X = B, or of X A = B, which is A^T X^T = B^T. B may be a vector, as for torch.linalg.solve."""
    count, is_vector = _rows_of(matrix), _is_vector(matrix, right)
    rank, right_rank = len(matrix.shape), len(right.shape) + is_vector
    columns = op.Unsqueeze(right, [-1]) if is_vector else right
    if not left and not is_vector:
        matrix, columns = _transposed(matrix, rank), _transposed(columns, right_rank)
    elimination = _eliminate(op.Concat(*_with_equal_batch(matrix, rank, columns, right_rank), axis=-1), count)
    if is_vector:
        return op.Squeeze(elimination.solution, [-1]), elimination
    solution = elimination.solution
    return solution if left else _transposed(solution, max(rank, right_rank)), elimination


def _is_vector(matrix: OnnxValue, right: OnnxValue) -> bool:
    """Return whether B is a vector. Formula: linalg_solve_is_vector_rhs in LinearAlgebraUtils.h."""
    return len(right.shape) == 1 or [*right.shape] == [*matrix.shape][:-1]


def _with_equal_batch(a: OnnxValue, a_rank: int, b: OnnxValue, b_rank: int) -> tuple[OnnxValue, OnnxValue]:
    """Broadcast both over the axes before the last two that either has."""
    if a_rank == b_rank == 2:
        return a, b
    return _with_batch_of(a, b), _with_batch_of(b, a)


def _with_batch_of(value: OnnxValue, like: OnnxValue) -> OnnxValue:
    return op.Expand(value, op.Concat(op.Shape(like, end=-2), op.Constant(value_ints=[1, 1]), axis=0))


def _cholesky(matrix: OnnxValue, upper: bool = False) -> OnnxValue:
    return _factor(matrix, upper)[0]


def _cholesky_with_info(matrix: OnnxValue, upper: bool = False, **_: object) -> tuple[OnnxValue, OnnxValue]:
    factor, squares = _factor(matrix, upper)
    return factor, _squeezed(_number_of_first([op.Not(op.Greater(square, _zero(square))) for square in squares]))


def _factor(value: OnnxValue, upper: bool) -> tuple[OnnxValue, Sequence[OnnxValue]]:
    if not upper:
        return _cholesky_factor(value, _rows_of(value))
    rank = len(value.shape)
    matrix = _transposed(value, rank)
    matrix.shape = value.shape
    factor, squares = _cholesky_factor(matrix, _rows_of(value))
    return _transposed(factor, rank), squares


def _cholesky_solve(self: OnnxValue, input2: OnnxValue, upper: bool = False) -> OnnxValue:
    """Write X of A X = B, of which L L^T = A is known, or with `upper` U^T U."""
    count, rank = _rows_of(input2, _MOST_OF_TRIANGLE), len(input2.shape)
    mirrored = _transposed(input2, rank)
    lower, higher = (mirrored, input2) if upper else (input2, mirrored)
    right, _ = _with_equal_batch(self, len(self.shape), input2, rank)
    return _substitute(higher, _substitute(lower, right, count, upper=False), count, upper=True)


def _cholesky_inverse(self: OnnxValue, upper: bool = False) -> OnnxValue:
    identity = op.Expand(_identity(self), op.Shape(self))
    identity.shape = self.shape
    return _cholesky_solve(identity, self, upper)


def _solve_triangular(
    triangle: OnnxValue, right: OnnxValue, upper: bool, left: bool = True, unitriangular: bool = False
) -> OnnxValue:
    count, rank, right_rank = _rows_of(triangle, _MOST_OF_TRIANGLE), len(triangle.shape), len(right.shape)
    if not left:
        triangle, right, upper = _transposed(triangle, rank), _transposed(right, right_rank), not upper
    right, _ = _with_equal_batch(right, right_rank, triangle, rank)
    solution = _substitute(triangle, right, count, upper=upper, unit_diagonal=unitriangular)
    return solution if left else _transposed(solution, max(rank, right_rank))


def _triangular_solve(
    right: OnnxValue, matrix: OnnxValue, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[OnnxValue, OnnxValue]:
    """Translate the operator's older form, which also returns the matrix."""
    triangle = matrix
    if transpose:
        triangle = _transposed(matrix, len(matrix.shape))
        triangle.shape = matrix.shape
    return _solve_triangular(triangle, right, upper != transpose, unitriangular=unitriangular), op.Identity(matrix)


def _det(matrix: OnnxValue) -> OnnxValue:
    elimination = _eliminate(matrix, _rows_of(matrix), may_be_singular=True)
    return _squeezed(op.Mul(_determinant_sign(elimination), reduce(op.Mul, map(op.Abs, elimination.pivots))))


def _slogdet(matrix: OnnxValue) -> tuple[OnnxValue, OnnxValue]:
    """Write the sign of the determinant, and the logarithm of its absolute value."""
    elimination = _eliminate(matrix, _rows_of(matrix), may_be_singular=True)
    logs = reduce(op.Add, [op.Log(op.Abs(pivot)) for pivot in elimination.pivots])
    return _squeezed(_determinant_sign(elimination)), _squeezed(logs)


def _logdet(self: OnnxValue) -> OnnxValue:
    sign, size = _slogdet(self)
    return op.Where(op.Less(sign, _zero(sign)), op.CastLike(float("nan"), size), size)


def _squeezed(value: OnnxValue) -> OnnxValue:
    return op.Squeeze(value, [-2, -1])


def _number_of_first_zero(elimination: _Elimination) -> OnnxValue:
    return _squeezed(_number_of_first([op.Equal(pivot, _zero(pivot)) for pivot in elimination.pivots]))


def _identity(like: OnnxValue) -> OnnxValue:
    import numpy as np

    count = _rows_of(like, _MOST_OF_TRIANGLE)
    return constant_of(np.eye(count, dtype=like.dtype.numpy()))


def _rows_of(value: OnnxValue, most: int = _MOST) -> int:
    """Return the number of rows of a matrix.

    Raises NotImplementedError, which the exporter tells with its operator, where that is open, or they are too many.
    """
    count = value.shape[-1]
    if not isinstance(count, int):
        raise NotImplementedError(f"it is written out for matrices of a known size, and one is {count} wide")
    if not 0 < count <= most:
        raise NotImplementedError(f"it is written out for matrices of up to {most} rows, and one has {count}")
    return count


@dataclass(frozen=True, slots=True)
class _Elimination:
    """The result of Gauss-Jordan elimination of (A | B).

    `solution`: A^-1 B, (..., n, m). `pivots`, and whether their row was swapped (`swaps`): each (..., 1, 1).
    """

    solution: OnnxValue
    pivots: Sequence[OnnxValue]
    swaps: Sequence[OnnxValue]


def _eliminate(value: OnnxValue, count: int, *, may_be_singular: bool = False) -> _Elimination:
    """Eliminate (..., n, n + m) by the largest number of a column, of equal ones the first, as LAPACK's getrf does.

    A pivot of 0 makes numbers that are not finite, unless `may_be_singular`: then the pivots alone are right.
    """
    pivots, swaps = [], []
    for at in range(count):
        row, is_chosen = _pivot_row(value, at, count)
        pivot = _cut(row, 1, 0, 1)
        pivots.append(pivot)
        divisor = op.Where(op.Equal(pivot, _zero(pivot)), op.CastLike(1.0, pivot), pivot) if may_be_singular else pivot
        if is_chosen is not None:
            first = _cut(value, 2, at, at + 1)
            swaps.append(op.Not(_cut(is_chosen, 2, at, at + 1)))
            value = op.Where(is_chosen, first, value)
        row = op.Div(_cut(row, 1, 1), divisor)
        rest = op.Sub(_cut(value, 1, 1), op.Mul(_cut(value, 1, 0, 1), row))
        value = op.Where(_column([index == at for index in range(count)], ir.DataType.BOOL), row, rest)
    return _Elimination(value, pivots, swaps)


def _pivot_row(value: OnnxValue, at: int, count: int) -> tuple[OnnxValue, OnnxValue | None]:
    """Return the row of a step, (..., 1, m), and which one it is, (..., n, 1): None where it is the last."""
    if at == count - 1:
        return _cut(value, 2, at), None
    candidates = op.Abs(_cut(_cut(value, 1, 0, 1), 2, at))
    place = op.Add(op.ArgMax(candidates, axis=-2, keepdims=True), op.Constant(value_int=at))
    is_chosen = op.Equal(_column([*range(count)], ir.DataType.INT64), place)
    return op.ReduceSum(op.Where(is_chosen, value, _zero(value)), [-2], keepdims=True), is_chosen


def _determinant_sign(elimination: _Elimination) -> OnnxValue:
    """Write the sign of the determinant: -1, 0 or 1."""
    pivot = elimination.pivots[0]
    turns = [op.Where(swap, op.CastLike(-1.0, pivot), op.CastLike(1.0, pivot)) for swap in elimination.swaps]
    return reduce(op.Mul, [*map(op.Sign, elimination.pivots), *turns])


def _cholesky_factor(value: OnnxValue, count: int) -> tuple[OnnxValue, Sequence[OnnxValue]]:
    """Write L of L L^T, (..., n, n), and the squares of its diagonal. Only the lower triangle of the matrix is read."""
    rank, columns, squares = len(value.shape), [], []
    for at in range(count):
        square = _cut(_cut(value, 2, 0, 1), 1, 0, 1)
        column = op.Div(_cut(value, 1, 0, 1), op.Sqrt(square))
        columns.append(op.Pad(column, [*[0] * (rank - 2), at, *[0] * (rank + 1)]) if at else column)
        squares.append(square)
        below = _cut(column, 2, 1)
        if at < count - 1:
            value = op.Sub(_cut(_cut(value, 1, 1), 2, 1), op.Mul(below, _transposed(below, rank)))
    return op.Concat(*columns, axis=-1), squares


def _substitute(
    triangle: OnnxValue, right: OnnxValue, count: int, *, upper: bool, unit_diagonal: bool = False
) -> OnnxValue:
    """Write X of T X = B, (..., n, m), of which the triangle T alone is read."""
    rows: list[OnnxValue] = []
    for at in reversed(range(count)) if upper else range(count):
        first = _cut(right, 2, -1) if upper else _cut(right, 2, 0, 1)
        column = _cut(triangle, 1, at, at + 1)
        row = first if unit_diagonal else op.Div(first, _cut(column, 2, at, at + 1))
        rows.append(row)
        if len(rows) < count:
            rest = _cut(right, 2, 0, -1) if upper else _cut(right, 2, 1)
            right = op.Sub(rest, op.Mul(_cut(column, 2, 0, at) if upper else _cut(column, 2, at + 1), row))
    return op.Concat(*(reversed(rows) if upper else rows), axis=-2)


def _number_of_first(conditions: Sequence[OnnxValue]) -> OnnxValue:
    """Write which of the conditions, counted from 1, is the first that holds; 0 where none does."""
    number = constant_of(0, ir.DataType.INT32)
    for at, condition in reversed([*enumerate(conditions, 1)]):
        number = op.Where(condition, constant_of(at, ir.DataType.INT32), number)
    return number


def _cut(value: OnnxValue, from_the_end: int, start: int, end: int = FAR) -> OnnxValue:
    """Slice the last axis (1) or the one before (2)."""
    return op.Slice(value, [start], [end], [-from_the_end])


def _transposed(value: OnnxValue, rank: int) -> OnnxValue:
    """Transpose (..., n, m) to (..., m, n)."""
    return op.Transpose(value, perm=[*range(rank - 2), rank - 1, rank - 2])


def _zero(like: OnnxValue) -> OnnxValue:
    """Write 0 in the dtype of a tensor."""
    return op.CastLike(0.0, like)


def _column(values: Sequence[int], dtype: DataType) -> OnnxValue:
    return constant_of([[value] for value in values], dtype)


PATCHES = (
    *missing_translations(
        {
            "aten.inverse.default": _inverse,
            "aten.linalg_inv.default": _inverse,
            "aten.linalg_inv_ex.default": _inverse_with_info,
            "aten.linalg_solve.default": _solve,
            "aten._linalg_solve_ex.default": _solve_with_info,
            "aten.linalg_cholesky.default": _cholesky,
            "aten.linalg_cholesky_ex.default": _cholesky_with_info,
            "aten.cholesky.default": _cholesky,
            "aten.cholesky_solve.default": _cholesky_solve,
            "aten.cholesky_inverse.default": _cholesky_inverse,
            "aten.linalg_solve_triangular.default": _solve_triangular,
            "aten.triangular_solve.default": _triangular_solve,
        }
    ),
    *translations(
        {
            "aten.linalg_det.default": _det,
            "aten.det.default": _det,
            "aten._linalg_det.default": lambda matrix: (_det(matrix), matrix, matrix),  # factors: for a backward pass
            "aten.linalg_slogdet.default": _slogdet,
            "aten.slogdet.default": _slogdet,
            "aten._linalg_slogdet.default": lambda matrix: (*_slogdet(matrix), matrix, matrix),
            "aten.logdet.default": _logdet,
        },
        why="torchlib writes ONNX's Det, which TFLite has not, and whose logarithm ends where float32 does",
        upstream="onnxscript/function_libs/torch_lib/ops/linalg.py: aten_linalg_det",
        until="torchlib computes logarithms of determinants by their factors",
    ),
)
