"""Inverses, solutions, factors and determinants of small matrices, of which torch's dynamo exporter has no ONNX: a step
for each row, of as many rows as are known. Of a determinant it has one that TFLite has not, and whose logarithm ends
where float32 does.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from ..torch_shared.onnxscript_opset import Translations, ir, op
from .elimination import Eliminated, eliminated, factored, first_of, sign_of, substituted, turned, zero

_MOST = 32  # rows that are written out: a step is some twenty operators,
_MOST_OF_TRIANGLE = 100  # and six where half of the matrix is 0


def matrices() -> Translations:
    """A part of the exporter's `custom_translation_table`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.inverse.default: _inverse,
        aten.linalg_inv.default: _inverse,
        aten.linalg_inv_ex.default: _inverse_with_info,
        aten.linalg_solve.default: _solution,
        aten._linalg_solve_ex.default: _solution_with_info,
        aten.linalg_cholesky.default: _cholesky,
        aten.linalg_cholesky_ex.default: _cholesky_with_info,
        aten.cholesky.default: _cholesky,
        aten.cholesky_solve.default: _by_factor,
        aten.cholesky_inverse.default: _inverse_by_factor,
        aten.linalg_solve_triangular.default: _of_triangle,
        aten.triangular_solve.default: _of_triangle_before,
        aten.linalg_det.default: _determinant,
        aten.det.default: _determinant,
        aten._linalg_det.default: _determinant_with_factors,
        aten.linalg_slogdet.default: _log_determinant,
        aten.slogdet.default: _log_determinant,
        aten._linalg_slogdet.default: _log_determinant_with_factors,
        aten.logdet.default: _log,
    }


def _inverse(A: Any) -> Any:  # noqa: N803  (the operators' own names)
    return _inverted(A).beside


def _inverse_with_info(A: Any, check_errors: bool = False) -> tuple[Any, Any]:  # noqa: N803, ARG001
    made = _inverted(A)
    return made.beside, _number_of_first_zero(made)


def _inverted(value: Any) -> Eliminated:
    return eliminated(op.Concat(value, op.Expand(_identity(value), op.Shape(value)), axis=-1), _rows_of(value))


def _solution(A: Any, B: Any, left: bool = True) -> Any:  # noqa: N803
    return _solved(A, B, left)[0]


def _solution_with_info(
    A: Any,  # noqa: N803
    B: Any,  # noqa: N803
    left: bool = True,
    check_errors: bool = False,  # noqa: ARG001
) -> tuple[Any, Any, Any, Any]:
    solution, made = _solved(A, B, left)
    info = _number_of_first_zero(made)
    return solution, A, info, info  # the second and the third are for a backward pass


def _solved(matrix: Any, right: Any, left: bool) -> tuple[Any, Eliminated]:
    """X of A X = B, or of X A = B, which is A^T X^T = B^T. B is a vector as torch.linalg.solve takes it for one."""
    count, is_vector = _rows_of(matrix), _is_vector(matrix, right)
    rank, wide = len(matrix.shape), len(right.shape) + is_vector
    columns = op.Unsqueeze(right, [-1]) if is_vector else right
    if not left and not is_vector:
        matrix, columns = turned(matrix, rank), turned(columns, wide)
    made = eliminated(op.Concat(*_of_equal_batch(matrix, rank, columns, wide), axis=-1), count)
    if is_vector:
        return op.Squeeze(made.beside, [-1]), made
    return made.beside if left else turned(made.beside, max(rank, wide)), made


def _is_vector(matrix: Any, right: Any) -> bool:
    """Formula: linalg_solve_is_vector_rhs in LinearAlgebraUtils.h."""
    return len(right.shape) == 1 or [*right.shape] == [*matrix.shape][:-1]


def _of_equal_batch(one: Any, one_rank: int, two: Any, two_rank: int) -> tuple[Any, Any]:
    """Both over the axes before the last two that either has."""
    if one_rank == two_rank == 2:
        return one, two
    return _spread(one, two), _spread(two, one)


def _spread(value: Any, like: Any) -> Any:
    return op.Expand(value, op.Concat(op.Shape(like, end=-2), op.Constant(value_ints=[1, 1]), axis=0))


def _cholesky(A: Any, upper: bool = False) -> Any:  # noqa: N803
    return _factored(A, upper)[0]


def _cholesky_with_info(
    A: Any,  # noqa: N803
    upper: bool = False,
    check_errors: bool = False,  # noqa: ARG001
) -> tuple[Any, Any]:
    made, squares = _factored(A, upper)
    info = first_of([op.Not(op.Greater(each, zero(each))) for each in squares])
    return made, op.Squeeze(info, [-2, -1])


def _factored(value: Any, upper: bool) -> Any:
    if not upper:
        return factored(value, _rows_of(value))
    rank = len(value.shape)
    given = turned(value, rank)
    given.shape = value.shape
    made, squares = factored(given, _rows_of(value))
    return turned(made, rank), squares


def _by_factor(self: Any, input2: Any, upper: bool = False) -> Any:
    """X of A X = B, of which L L^T = A is known, or the other way round U^T U."""
    count, rank = _rows_of(input2, _MOST_OF_TRIANGLE), len(input2.shape)
    other = turned(input2, rank)
    lower, higher = (other, input2) if upper else (input2, other)
    right, _ = _of_equal_batch(self, len(self.shape), input2, rank)
    return substituted(higher, substituted(lower, right, count, upper=False), count, upper=True)


def _inverse_by_factor(self: Any, upper: bool = False) -> Any:
    identity = op.Expand(_identity(self), op.Shape(self))
    identity.shape = self.shape
    return _by_factor(identity, self, upper)


def _of_triangle(
    self: Any,
    B: Any,  # noqa: N803
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Any:
    count, rank, wide = _rows_of(self, _MOST_OF_TRIANGLE), len(self.shape), len(B.shape)
    triangle, right = self, B
    if not left:
        triangle, right, upper = turned(self, rank), turned(B, wide), not upper
    right, _ = _of_equal_batch(right, wide, triangle, rank)
    made = substituted(triangle, right, count, upper=upper, of_ones=unitriangular)
    return made if left else turned(made, max(rank, wide))


def _of_triangle_before(
    self: Any,
    A: Any,  # noqa: N803
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Any, Any]:
    """The operator's older form, and the matrix itself."""
    triangle = A
    if transpose:
        triangle = turned(A, len(A.shape))
        triangle.shape = A.shape
    return _of_triangle(triangle, self, upper != transpose, unitriangular=unitriangular), op.Identity(A)


def _determinant(A: Any) -> Any:  # noqa: N803
    made = _measured(A)
    return _alone(op.Mul(sign_of(made), reduce(op.Mul, map(op.Abs, made.pivots))))


def _determinant_with_factors(A: Any) -> tuple[Any, Any, Any]:  # noqa: N803
    return _determinant(A), A, A  # the others are for a backward pass


def _log_determinant(A: Any) -> tuple[Any, Any]:  # noqa: N803
    """The sign, and the logarithm of what it is without."""
    made = _measured(A)
    logs = reduce(op.Add, [op.Log(op.Abs(each)) for each in made.pivots])
    return _alone(sign_of(made)), _alone(logs)


def _log_determinant_with_factors(A: Any) -> tuple[Any, Any, Any, Any]:  # noqa: N803
    return *_log_determinant(A), A, A


def _log(self: Any) -> Any:
    sign, size = _log_determinant(self)
    return op.Where(op.Less(sign, zero(sign)), op.CastLike(float("nan"), size), size)


def _measured(value: Any) -> Eliminated:
    return eliminated(value, _rows_of(value), may_be_singular=True)


def _alone(value: Any) -> Any:
    return op.Squeeze(value, [-2, -1])


def _number_of_first_zero(made: Eliminated) -> Any:
    return _alone(first_of([op.Equal(each, zero(each)) for each in made.pivots]))


def _identity(like: Any) -> Any:
    import numpy as np

    count = _rows_of(like, _MOST_OF_TRIANGLE)
    return op.Constant(value=ir.tensor(np.eye(count, dtype=like.dtype.numpy())))


def _rows_of(value: Any, most: int = _MOST) -> int:
    """How many a matrix has.

    Raises NotImplementedError, which the exporter tells with its operator, where that is open, or they are too many.
    """
    count = value.shape[-1]
    if not isinstance(count, int):
        raise NotImplementedError(f"it is written out for matrices of a known size, and one is {count} wide")
    if not 0 < count <= most:
        raise NotImplementedError(f"it is written out for matrices of up to {most} rows, and one has {count}")
    return count
