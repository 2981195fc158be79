"""Operators on sizes: what a model computes of its shapes stays whole numbers of the module's Python code.

torch.export follows a size only outside of tensors: one that was put into a tensor and read from it again is data. So
an array of sizes (Value.parts) holds a Python expression for each element. Operators that only move elements move
expressions: they are asked, by their own functions, to move the elements' places. The operators of `_EACH` compute
with expressions one by one, broadcasting as ever. Every other operator is given a tensor.

Floats and booleans are among them, as exporters compare sizes in float32 and choose between them by 0 and 1: any dtype,
as long as every element is a whole number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from ...models.signature import Array
from .module_writer import Page
from .operator_context import Op
from .values import Part, Parts, Value, as_parts, of_sizes

Rule = Callable[..., Part | None]  # of an element of each input; None: what comes out is no whole number

_EXACT = 2**24  # of whole numbers up to this one float32 computes the sum and the difference
# By operator that moves elements: the inputs that hold them. What else it has, tells where.
_MOVED: dict[str, slice] = {
    "Concat": slice(None),
    **dict.fromkeys(
        ("Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Reshape", "Slice", "Split", "Squeeze", "Tile",
         "Transpose", "Unsqueeze"),
        slice(1),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Moves:
    """A node that moves sizes: its inputs with places in their stead, and what lies in each place."""

    inputs: Sequence[Value | Array | None]
    pool: Parts
    dtype: str

    def answer(self, page: Page, places: Array) -> Value:
        """What lies in these places."""
        return of_sizes(page, np.asarray(self.pool[places], object), self.dtype)


def moves(op_type: str, inputs: Sequence[Value | None]) -> Moves | None:
    """The node by places; None where it does not only move sizes, or something but a size tells where to."""
    if op_type not in _MOVED:
        return None
    held = inputs[_MOVED[op_type]]
    found = [None if each is None else each.elements() for each in held]
    others = inputs[len(held) :]
    if any(each is None for each in found) or any(each is not None and each.array is None for each in others):
        return None
    arrays = [each for each in found if each is not None]
    ends = np.cumsum([each.size for each in arrays])
    places = [np.arange(end - each.size, end).reshape(each.shape) for end, each in zip(ends, arrays, strict=True)]
    pool = np.concatenate([each.reshape(-1) for each in arrays])
    return Moves([*places, *others], pool, held[0].dtype if held[0] is not None else "")


def computed_each(op: Op) -> Value | None:
    """The answer of an operator that computes with sizes one by one; None where it is no such operator, or the answer
    holds something else than whole numbers."""
    found = _EACH.get(op.node.op_type)
    if found is None:
        return None
    values = [op.value(0)] if op.node.op_type in _OF_ONE else op.values()
    elements = [value.elements() for value in values]
    rule = found(op)
    if rule is None or any(each is None for each in elements):
        return None
    grids = np.broadcast_arrays(*(each for each in elements if each is not None))
    answers = [rule(*row) for row in zip(*(grid.reshape(-1) for grid in grids), strict=True)]
    whole = [each for each in answers if each is not None]
    return op.sized(as_parts(whole, grids[0].shape), _dtype(op)) if len(whole) == len(answers) else None


def _dtype(op: Op) -> str:
    """What the answer of one of these operators holds."""
    if op.node.op_type in _COMPARED:
        return "bool"
    if op.node.op_type == "Cast":
        return op.dtype("to")
    return op.value(1 if op.node.op_type in ("CastLike", "Where") else 0).dtype


def reduced(op: Op, value: Value, axes: Sequence[int], keep: bool) -> Parts | None:
    """Over the axes, by an operator that makes whole numbers of whole numbers; None where it is none."""
    held, sign = value.parts, _REDUCED.get(op.node.op_type)
    if held is None or sign is None or not held.size or value.dtype == "bool":
        return None
    combine = np.frompyfunc(partial(op.page.combine, sign), 2, 1)
    for axis in sorted(axes, reverse=True):
        held = np.asarray(combine.reduce(held, axis=axis, keepdims=keep), object)
    return held


def _combined(sign: str) -> Callable[[Op], Rule]:
    return lambda op: lambda *row: reduce(partial(op.page.combine, sign), row)


def _exactly(sign: str) -> Callable[[Op], Rule]:
    """As above; not of large floats, of which the model computes a rounded sum."""

    def rule(op: Op) -> Rule:
        floats = "float" in op.value(0).dtype

        def of(a: Part, b: Part) -> Part | None:
            large = floats and any(isinstance(each, int) and abs(each) > _EXACT for each in (a, b))
            return None if large else op.page.combine(sign, a, b)

        return of

    return rule


def _divided(op: Op) -> Rule | None:
    """Cut towards zero, as // is of what is not negative, or a multiple. Of floats a quotient is no whole number."""
    page = op.page
    if "float" in op.value(0).dtype:
        return None

    def rule(a: Part, b: Part) -> Part | None:
        is_exact = page.at_least(b, 1) and (page.at_least(a, 0) or page.is_multiple(a, b))
        return page.combine("//", a, b) if is_exact else None

    return rule


def _remainder(op: Op) -> Rule | None:
    """With the divisor's sign as Python has it; with fmod=1 the dividend's, which is the same where there are none."""
    page, of_dividend = op.page, op.flag("fmod")
    if "float" in op.value(0).dtype and not of_dividend:
        return None
    return lambda a, b: (
        page.combine("%", a, b) if page.at_least(b, 1) and (page.at_least(a, 0) or not of_dividend) else None
    )


def _absolute(op: Op) -> Rule:
    return lambda a: a if op.page.at_least(a, 0) else op.page.combine("max", a, op.page.combine("*", a, -1))


def _itself(_: Op) -> Rule:
    return lambda a: a


def _cast(op: Op) -> Rule | None:
    """Into a dtype that holds a size as it is, and a yes or no."""
    page, dtype = op.page, _dtype(op)
    op.ignore("saturate", "round_mode", because="they speak of float8")
    if dtype == "bool":
        return _itself(op) if op.value(0).dtype == "bool" else (lambda a: page.combine("!=", a, 0))
    return page.counted if dtype in ("int32", "int64", "float32", "float64") else None


_COMPARED = {"Equal": "==", "Less": "<", "LessOrEqual": "<=", "Greater": ">", "GreaterOrEqual": ">="}
_REDUCED = {"ReduceProd": "*", "ReduceSum": "+", "ReduceMax": "max", "ReduceMin": "min"}
_OF_ONE = frozenset({"Cast", "CastLike"})  # whose second input is looked at for its dtype alone
_COMBINED = {"Max": "max", "Min": "min", "And": "&", "Or": "|", **_COMPARED}
_EACH: dict[str, Callable[[Op], Rule | None]] = {
    **{name: _combined(sign) for name, sign in _COMBINED.items()},
    **{name: _exactly(sign) for name, sign in {"Add": "+", "Sub": "-", "Mul": "*"}.items()},
    **dict.fromkeys(("Ceil", "Floor", "Round"), _itself),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    "Abs": _absolute,
    "Div": _divided,
    "Mod": _remainder,
    "Neg": lambda op: lambda a: op.page.combine("*", a, -1),
    "Not": lambda op: op.page.negated,
    "Where": lambda op: op.page.chosen,
}
