"""Comparisons, logic, bits, and choices by them."""

from __future__ import annotations

from ..reader import Op
from ..registry import BOOL, INTEGERS, NUMBERS, ORDINARY, Written, writes
from ..values import Size, Value
from .elementwise import pair

_COMPARED = {"Equal": "==", "Less": "<", "LessOrEqual": "<=", "Greater": ">", "GreaterOrEqual": ">="}


def _comparison(name: str, sign: str) -> None:
    @writes(name, since=7, T=ORDINARY if name == "Equal" else NUMBERS)
    def written(op: Op) -> Written:
        a, b = pair(op.value(0), op.value(1))
        return _sizes_differ(op) or f"{a} {sign} {b}"

    def _sizes_differ(op: Op) -> Value | None:
        """Exporters ask whether a size is -1: it never is, and so what hangs on it is known."""
        a, b = op.value(0), op.value(1)
        left, right = a.size_parts(), b.size_parts()
        if sign != "==" or (a.parts is None and b.parts is None) or left is None or right is None:
            return None
        if len(left) != len(right) and 1 not in (len(left), len(right)):
            return None
        count = max(len(left), len(right))
        pairs = list(zip(left * (count // len(left)), right * (count // len(right)), strict=True))
        if not all(_known_apart(*each) or _known_equal(*each) for each in pairs):
            return None
        import numpy as np

        shape = () if a.rank + b.rank == 0 else (count,)
        return op.known(np.array([_known_equal(*each) for each in pairs]).reshape(shape))


def _known_equal(a: object, b: object) -> bool:
    if isinstance(a, Size) and isinstance(b, Size):
        return bool(a.trial.node.expr == b.trial.node.expr)
    return isinstance(a, int) and isinstance(b, int) and a == b


def _known_apart(a: object, b: object) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a != b
    size, other = (a, b) if isinstance(a, Size) else (b, a)
    return isinstance(size, Size) and isinstance(other, int) and other < 0 and size.non_negative


for _name, _sign in _COMPARED.items():
    _comparison(_name, _sign)

_LOGICAL = {"And": "&", "Or": "|", "Xor": "^", "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^"}


def _logical(name: str, sign: str) -> None:
    @writes(name, since=7, T=INTEGERS if name.startswith("Bitwise") else BOOL)
    def written(op: Op) -> Written:
        return f"{op.value(0)} {sign} {op.value(1)}"


for _name, _sign in _LOGICAL.items():
    _logical(_name, _sign)


@writes("Not", since=1, T=BOOL)
@writes("BitwiseNot", since=18, T=INTEGERS)
def inverted(op: Op) -> Written:
    """Every bit turned around."""
    return f"~{op.value(0)}"


@writes("BitShift", since=11, T=INTEGERS)
def shifted(op: Op) -> Written:
    """Bits moved to the left or to the right."""
    sign = {"LEFT": "<<", "RIGHT": ">>"}[op.word("direction", "", ("LEFT", "RIGHT"))]
    return f"{op.value(0)} {sign} {op.value(1)}"


@writes("Where", since=9)
def where(op: Op) -> Written:
    """X where the condition holds, and y elsewhere; of sizes, where the condition is known."""
    condition, x, y = op.value(0), op.value(1), op.value(2)
    chosen = _chosen_sizes(op, condition, x, y)
    if chosen is not None:
        return chosen
    if x.scalar is not None and y.scalar is not None and x.dtype != "float32":
        return f"torch.where({condition}, {x}, {y})"
    if x.rank <= condition.rank and x.scalar is not None and y.scalar is None:
        return f"torch.where({condition}, {x.scalar}, {y})"
    if y.rank <= condition.rank and y.scalar is not None and x.scalar is None:
        return f"torch.where({condition}, {x}, {y.scalar})"
    return f"torch.where({condition}, {x}, {y})"


def _chosen_sizes(op: Op, condition: Value, x: Value, y: Value) -> Value | None:
    left, right = x.size_parts(), y.size_parts()
    if condition.array is None or condition.rank > 1 or left is None or right is None:
        return None
    count = max(condition.array.size, len(left), len(right))
    if any(length not in (1, count) for length in (condition.array.size, len(left), len(right))):
        return None
    chosen = list(condition.array.reshape(-1)) * (count // condition.array.size)
    pairs = zip(left * (count // len(left)), right * (count // len(right)), strict=True)
    parts = [a if yes else b for yes, (a, b) in zip(chosen, pairs, strict=True)]
    return op.sized(parts, scalar=condition.rank + x.rank + y.rank == 0, dtype=x.dtype)
