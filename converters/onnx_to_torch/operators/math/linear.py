"""Products of matrices."""

from __future__ import annotations

import re

from ...safe_names import number
from ...values import Expression
from ...writers import FLOATS, MICROSOFT, NUMBERS, CodegenContext, OutputCode, write_as, writes

_EIGHT_BITS = frozenset({"int8", "uint8"})
_SCALES = frozenset({"float32"})

write_as("MatMul", "torch.matmul({0}, {1})", since=1, T=NUMBERS)
write_as("Det", "torch.linalg.det({0})", since=11)


@writes("Gemm", since=7, T=NUMBERS)
def gemm(op: CodegenContext) -> OutputCode:
    """Write Gemm: alpha A B + beta C, of which A and B may be transposed."""
    a, b, c = op.value(0), op.value(1), op.optional(2)
    alpha, beta = op.real("alpha", 1.0), op.real("beta", 1.0)
    turn_a, turn_b = op.flag("transA"), op.flag("transB")
    if turn_b and not turn_a and alpha == 1 and beta == 1 and (c is None or c.rank == 1) and "float" in a.dtype:
        return f"F.linear({a}, {b})" if c is None else f"F.linear({a}, {b}, {c})"
    product = _times(f"torch.matmul({_turned(a, turn_a)}, {_turned(b, turn_b)})", alpha, a.dtype)
    return product if c is None else f"{product} + {_times(f'{c}', beta, a.dtype)}"


@writes("FusedMatMul", domain=MICROSOFT, T=FLOATS)
def fused_matmul(op: CodegenContext) -> OutputCode:
    """Write alpha A B, with either matrix transposed where the attributes say so."""
    if op.flag("transBatchA") or op.flag("transBatchB"):
        op.refuse("its attributes transBatchA and transBatchB are not carried", fix="export without this fusion")
    left, right, alpha = op.value(0), op.value(1), op.real("alpha", 1.0)
    if left.rank < 2 or right.rank < 2:
        op.refuse("it multiplies a vector", fix="export without this fusion")
    a, b = _turned(left, op.flag("transA"), "-2, -1"), _turned(right, op.flag("transB"), "-2, -1")
    return _times(f"torch.matmul({a}, {b})", alpha, left.dtype)


def _turned(value: Expression, turn: bool, axes: str = "0, 1") -> str:
    return f"{value}.transpose({axes})" if turn else f"{value}"


def _times(code: str, factor: float, dtype: str) -> str:
    if factor == 1:
        return code
    return f"{int(factor) if 'int' in dtype else number(factor, dtype)} * {code}"


@writes("Einsum", since=12, until=28, T=NUMBERS)
def einsum(op: CodegenContext) -> OutputCode:
    """Write Einsum."""
    equation = "".join(op.text("equation").split())
    if not re.fullmatch(r"[A-Za-z.,]+(->[A-Za-z.]*)?", equation):
        op.refuse(f"its equation {equation!r} has other signs than letters, commas, dots and an arrow")
    return f'torch.einsum("{equation}", {", ".join(map(str, op.values()))})'


@writes("MatMulInteger", since=10)
def matmul_integer(op: CodegenContext) -> OutputCode:
    """Write MatMulInteger: 8-bit numbers less their zero points, in int32."""
    a, b = _less_zero(op, 0, 2, rows=True), _less_zero(op, 1, 3)
    return f"torch.matmul({a}, {b})"


@writes("QLinearMatMul", since=21, T1=_EIGHT_BITS, T2=_EIGHT_BITS, T3=_EIGHT_BITS, TS=_SCALES)
@writes("QLinearMatMul", since=10, until=20, T1=_EIGHT_BITS, T2=_EIGHT_BITS, T3=_EIGHT_BITS)
def quantized_matmul(op: CodegenContext) -> OutputCode:
    """Write QLinearMatMul: MatMulInteger, from the scale of the products to that of the output."""
    a, b = _less_zero(op, 0, 2, rows=True), _less_zero(op, 3, 5)
    scale = f"{_spread(op.value(1), rows=True)} * {_spread(op.value(4))} / {op.value(6)}"
    return f"rescaled(torch.matmul({a}, {b}), {scale}, {op.value(7)})"


def _less_zero(op: CodegenContext, at: int, place: int, *, rows: bool = False) -> str:
    value, zero = op.value(at), op.optional(place)
    return f"{value}.int()" if zero is None else f"({value}.int() - {_spread(zero, rows=rows)}.int())"


def _spread(part: Expression, *, rows: bool = False) -> str:
    """Return a scale or a zero point: one, or one for each row or column of a matrix."""
    return f"{part}.unsqueeze(-1)" if rows and part.rank == 1 and part.shape != (1,) else f"{part}"
