"""Comparisons, logic, bits, and choices by them."""

from __future__ import annotations

from ...operator_context import CodegenContext
from ...size_arithmetic import COMPARISONS
from ...writers import BOOL, INTEGERS, NUMBERS, ORDINARY, OutputCode, write_as, writes
from .elementwise import write_binary

for _name, _sign in COMPARISONS.items():
    write_binary(_name, _sign, ORDINARY if _name == "Equal" else NUMBERS)

_LOGICAL = {"And": "&", "Or": "|", "Xor": "^", "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^"}


for _name, _sign in _LOGICAL.items():
    write_as(_name, f"{{0}} {_sign} {{1}}", since=7, T=INTEGERS if _name.startswith("Bitwise") else BOOL)

write_as("Not", "~{0}", since=1, T=BOOL)
write_as("BitwiseNot", "~{0}", since=18, T=INTEGERS)


@writes("BitShift", since=11, T=INTEGERS)
def shifted(op: CodegenContext) -> OutputCode:
    """Write BitShift."""
    sign = {"LEFT": "<<", "RIGHT": ">>"}[op.word("direction", "", ("LEFT", "RIGHT"))]
    return f"{op.value(0)} {sign} {op.value(1)}"


@writes("Where", since=9)
def where(op: CodegenContext) -> OutputCode:
    """Write Where."""
    condition, x, y = op.value(0), op.value(1), op.value(2)
    if x.rank <= condition.rank and x.scalar is not None and y.scalar is None:
        return f"torch.where({condition}, {x.scalar}, {y})"
    if y.rank <= condition.rank and y.scalar is not None and x.scalar is None:
        return f"torch.where({condition}, {x}, {y.scalar})"
    return f"torch.where({condition}, {x}, {y})"
