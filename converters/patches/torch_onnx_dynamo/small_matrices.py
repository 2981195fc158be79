"""Inverses, solutions, factors and determinants of small matrices for torch's dynamo exporter: a step for each row, of
as many rows as are known."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ..ledger import missing_translations, translations
from ..torch_shared.graph_types import OnnxValue
from ..torch_shared.onnxscript_opset import ir, op
from .elimination import (
    Elimination,
    cholesky_factor,
    determinant_sign,
    eliminate,
    number_of_first,
    solve_triangular,
    transposed,
    zero,
)

_MOST = 32  # rows that are written out: a step is some twenty operators,
_MOST_OF_TRIANGLE = 100  # and six where half of the matrix is 0


def _inverse(A: OnnxValue) -> OnnxValue:  # noqa: N803  (the operators' own names)
    return _eliminate_identity(A).solution


def _inverse_with_info(A: OnnxValue, check_errors: bool = False) -> tuple[OnnxValue, OnnxValue]:  # noqa: N803, ARG001
    elimination = _eliminate_identity(A)
    return elimination.solution, _number_of_first_zero(elimination)


def _eliminate_identity(value: OnnxValue) -> Elimination:
    return eliminate(op.Concat(value, op.Expand(_identity(value), op.Shape(value)), axis=-1), _rows_of(value))


def _solve(A: OnnxValue, B: OnnxValue, left: bool = True) -> OnnxValue:  # noqa: N803
    return _solution(A, B, left)[0]


def _solve_with_info(
    A: OnnxValue,  # noqa: N803
    B: OnnxValue,  # noqa: N803
    left: bool = True,
    check_errors: bool = False,  # noqa: ARG001
) -> tuple[OnnxValue, OnnxValue, OnnxValue, OnnxValue]:
    solution, elimination = _solution(A, B, left)
    info = _number_of_first_zero(elimination)
    return solution, A, info, info  # the second and the third are for a backward pass


def _solution(matrix: OnnxValue, right: OnnxValue, left: bool) -> tuple[OnnxValue, Elimination]:
    """Write X of A X = B, or of X A = B, which is A^T X^T = B^T. B is a vector where torch.linalg.solve takes it for
    one."""
    count, is_vector = _rows_of(matrix), _is_vector(matrix, right)
    rank, right_rank = len(matrix.shape), len(right.shape) + is_vector
    columns = op.Unsqueeze(right, [-1]) if is_vector else right
    if not left and not is_vector:
        matrix, columns = transposed(matrix, rank), transposed(columns, right_rank)
    elimination = eliminate(op.Concat(*_with_equal_batch(matrix, rank, columns, right_rank), axis=-1), count)
    if is_vector:
        return op.Squeeze(elimination.solution, [-1]), elimination
    solution = elimination.solution
    return solution if left else transposed(solution, max(rank, right_rank)), elimination


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


def _cholesky(A: OnnxValue, upper: bool = False) -> OnnxValue:  # noqa: N803
    return _factor(A, upper)[0]


def _cholesky_with_info(
    A: OnnxValue,  # noqa: N803
    upper: bool = False,
    check_errors: bool = False,  # noqa: ARG001
) -> tuple[OnnxValue, OnnxValue]:
    factor, squares = _factor(A, upper)
    info = number_of_first([op.Not(op.Greater(square, zero(square))) for square in squares])
    return factor, op.Squeeze(info, [-2, -1])


def _factor(value: OnnxValue, upper: bool) -> tuple[OnnxValue, Sequence[OnnxValue]]:
    if not upper:
        return cholesky_factor(value, _rows_of(value))
    rank = len(value.shape)
    matrix = transposed(value, rank)
    matrix.shape = value.shape
    factor, squares = cholesky_factor(matrix, _rows_of(value))
    return transposed(factor, rank), squares


def _cholesky_solve(self: OnnxValue, input2: OnnxValue, upper: bool = False) -> OnnxValue:
    """Write X of A X = B, of which L L^T = A is known, or with `upper` U^T U."""
    count, rank = _rows_of(input2, _MOST_OF_TRIANGLE), len(input2.shape)
    mirrored = transposed(input2, rank)
    lower, higher = (mirrored, input2) if upper else (input2, mirrored)
    right, _ = _with_equal_batch(self, len(self.shape), input2, rank)
    return solve_triangular(higher, solve_triangular(lower, right, count, upper=False), count, upper=True)


def _cholesky_inverse(self: OnnxValue, upper: bool = False) -> OnnxValue:
    identity = op.Expand(_identity(self), op.Shape(self))
    identity.shape = self.shape
    return _cholesky_solve(identity, self, upper)


def _solve_triangular(
    self: OnnxValue,
    B: OnnxValue,  # noqa: N803
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> OnnxValue:
    count, rank, right_rank = _rows_of(self, _MOST_OF_TRIANGLE), len(self.shape), len(B.shape)
    triangle, right = self, B
    if not left:
        triangle, right, upper = transposed(self, rank), transposed(B, right_rank), not upper
    right, _ = _with_equal_batch(right, right_rank, triangle, rank)
    solution = solve_triangular(triangle, right, count, upper=upper, unit_diagonal=unitriangular)
    return solution if left else transposed(solution, max(rank, right_rank))


def _triangular_solve(
    self: OnnxValue,
    A: OnnxValue,  # noqa: N803
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[OnnxValue, OnnxValue]:
    """Translate the operator's older form, which also returns the matrix."""
    triangle = A
    if transpose:
        triangle = transposed(A, len(A.shape))
        triangle.shape = A.shape
    return _solve_triangular(triangle, self, upper != transpose, unitriangular=unitriangular), op.Identity(A)


def _det(A: OnnxValue) -> OnnxValue:  # noqa: N803
    elimination = _eliminate_alone(A)
    return _squeezed(op.Mul(determinant_sign(elimination), reduce(op.Mul, map(op.Abs, elimination.pivots))))


def _det_with_factors(A: OnnxValue) -> tuple[OnnxValue, OnnxValue, OnnxValue]:  # noqa: N803
    return _det(A), A, A  # the factors are for a backward pass


def _slogdet(A: OnnxValue) -> tuple[OnnxValue, OnnxValue]:  # noqa: N803
    """Write the sign of the determinant, and the logarithm of its absolute value."""
    elimination = _eliminate_alone(A)
    logs = reduce(op.Add, [op.Log(op.Abs(pivot)) for pivot in elimination.pivots])
    return _squeezed(determinant_sign(elimination)), _squeezed(logs)


def _slogdet_with_factors(A: OnnxValue) -> tuple[OnnxValue, OnnxValue, OnnxValue, OnnxValue]:  # noqa: N803
    return *_slogdet(A), A, A


def _logdet(self: OnnxValue) -> OnnxValue:
    sign, size = _slogdet(self)
    return op.Where(op.Less(sign, zero(sign)), op.CastLike(float("nan"), size), size)


def _eliminate_alone(value: OnnxValue) -> Elimination:
    return eliminate(value, _rows_of(value), may_be_singular=True)


def _squeezed(value: OnnxValue) -> OnnxValue:
    return op.Squeeze(value, [-2, -1])


def _number_of_first_zero(elimination: Elimination) -> OnnxValue:
    return _squeezed(number_of_first([op.Equal(pivot, zero(pivot)) for pivot in elimination.pivots]))


def _identity(like: OnnxValue) -> OnnxValue:
    import numpy as np

    count = _rows_of(like, _MOST_OF_TRIANGLE)
    return op.Constant(value=ir.tensor(np.eye(count, dtype=like.dtype.numpy())))


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
        },
    ),
    *translations(
        {
            "aten.linalg_det.default": _det,
            "aten.det.default": _det,
            "aten._linalg_det.default": _det_with_factors,
            "aten.linalg_slogdet.default": _slogdet,
            "aten.slogdet.default": _slogdet,
            "aten._linalg_slogdet.default": _slogdet_with_factors,
            "aten.logdet.default": _logdet,
        },
        why="torchlib writes ONNX's Det, which TFLite has not, and whose logarithm ends where float32 does",
        upstream="onnxscript/function_libs/torch_lib/ops/linalg.py: aten_linalg_det",
        until="torchlib computes logarithms of determinants by their factors",
    ),
)
