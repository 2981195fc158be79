"""Comparisons, logic, bits, and choices by them."""

from __future__ import annotations

from ...operator_context import CodegenContext
from ...writers import BOOL, INTEGERS, NUMBERS, ORDINARY, OutputCode, writes
from .elementwise import pair

_COMPARED = {"Equal": "==", "Less": "<", "LessOrEqual": "<=", "Greater": ">", "GreaterOrEqual": ">="}


def _comparison(name: str, sign: str) -> None:
    @writes(name, since=7, T=ORDINARY if name == "Equal" else NUMBERS)
    def written(op: CodegenContext) -> OutputCode:
        a, b = pair(op.value(0), op.value(1))
        return f"{a} {sign} {b}"


for _name, _sign in _COMPARED.items():
    _comparison(_name, _sign)

_LOGICAL = {"And": "&", "Or": "|", "Xor": "^", "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^"}


def _logical(name: str, sign: str) -> None:
    @writes(name, since=7, T=INTEGERS if name.startswith("Bitwise") else BOOL)
    def written(op: CodegenContext) -> OutputCode:
        return f"{op.value(0)} {sign} {op.value(1)}"


for _name, _sign in _LOGICAL.items():
    _logical(_name, _sign)


@writes("Not", since=1, T=BOOL)
@writes("BitwiseNot", since=18, T=INTEGERS)
def inverted(op: CodegenContext) -> OutputCode:
    """Write Not or BitwiseNot."""
    return f"~{op.value(0)}"


@writes("BitShift", since=11, T=INTEGERS)
def shifted(op: CodegenContext) -> OutputCode:
    """Write BitShift."""
    sign = {"LEFT": "<<", "RIGHT": ">>"}[op.word("direction", "", ("LEFT", "RIGHT"))]
    return f"{op.value(0)} {sign} {op.value(1)}"


@writes("Where", since=9)
def where(op: CodegenContext) -> OutputCode:
    """Write Where."""
    condition, x, y = op.value(0), op.value(1), op.value(2)
    if x.scalar is not None and y.scalar is not None and x.dtype != "float32":
        return f"torch.where({condition}, {x}, {y})"
    if x.rank <= condition.rank and x.scalar is not None and y.scalar is None:
        return f"torch.where({condition}, {x.scalar}, {y})"
    if y.rank <= condition.rank and y.scalar is not None and x.scalar is None:
        return f"torch.where({condition}, {x}, {y.scalar})"
    return f"torch.where({condition}, {x}, {y})"
