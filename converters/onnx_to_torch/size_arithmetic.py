"""Operators on sizes: what a model computes of its shapes stays whole numbers of the module's Python code.

torch.export follows a size only outside of tensors: one that was put into a tensor and read from it again is data. So
an array of sizes (Expression.parts) holds a Python expression for each element. Operators that only move elements move
expressions: their own functions move the elements' places. The operators of `_EACH` compute with expressions one by
one, with broadcasting. Every other operator gets a tensor.

Floats and booleans are among them, as exporters compare sizes in float32 and choose between them by 0 and 1: any dtype,
as long as every element is a whole number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np

from ...models.signature import Array
from .module_writer import ModuleWriter
from .values import Expression, SizeTerm, SizeTerms, express_size_terms, express_sizes
from .writers import CodegenContext

Rule = Callable[..., SizeTerm | None]  # of an element of each input; None where the answer is no whole number

_EXACT = 2**24  # float32 adds and subtracts whole numbers exactly up to this one
# The inputs that hold the elements, by operator. Its other inputs tell where they go.
_MOVED: dict[str, slice] = {
    "Concat": slice(None),
    **dict.fromkeys(
        ("Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Reshape", "Slice", "Split", "Squeeze", "Tile",
         "Transpose", "Unsqueeze"),
        slice(1),
    ),
}  # fmt: skip


def moved_elements(
    writer: ModuleWriter,
    op_type: str,
    inputs: Sequence[Expression | None],
    run: Callable[[Sequence[Expression | Array | None]], Sequence[Array | None]],
) -> list[Expression | None] | None:
    """Return the outputs of a node that only moves sizes, which `run` does with their places in their stead.

    None where it does anything else, or computed data say where to.
    """
    if op_type not in _MOVED:
        return None
    held = inputs[_MOVED[op_type]]
    elements = [None if value is None else value.elements() for value in held]
    constants = inputs[len(held) :]
    arrays = [value for value in elements if value is not None]
    if len(arrays) < len(held) or any(value is not None and value.array is None for value in constants):
        return None
    ends = np.cumsum([value.size for value in arrays])
    places = [np.arange(end - value.size, end).reshape(value.shape) for end, value in zip(ends, arrays, strict=True)]
    pool = np.concatenate([value.reshape(-1) for value in arrays])
    dtype = next(value.dtype for value in held if value is not None)
    return [
        None if moved is None else express_sizes(writer, np.asarray(pool[moved], object), dtype)
        for moved in run([*places, *constants])
    ]


def computed_each(op: CodegenContext) -> Expression | None:
    """Compute an operator on sizes one by one; None where there is no rule, or an element is not a whole number."""
    rule_of = _EACH.get(op.node.op_type)
    if rule_of is None:
        return None
    values = [op.value(0)] if op.node.op_type in _OF_ONE else op.values()
    elements = [value.elements() for value in values]
    rule = rule_of(op)
    if rule is None or any(part is None for part in elements):
        return None
    grids = np.broadcast_arrays(*(part for part in elements if part is not None))
    answers = [rule(*row) for row in zip(*(grid.reshape(-1) for grid in grids), strict=True)]
    parts = [part for part in answers if part is not None]
    return op.sized(express_size_terms(parts, grids[0].shape), _dtype(op)) if len(parts) == len(answers) else None


def _dtype(op: CodegenContext) -> str:
    """Return the dtype of the answer."""
    if op.node.op_type in COMPARISONS:
        return "bool"
    if op.node.op_type == "Cast":
        return op.dtype("to")
    return op.value(1 if op.node.op_type in ("CastLike", "Where") else 0).dtype


def reduced(op: CodegenContext, value: Expression, axes: Sequence[int], keep: bool) -> SizeTerms | None:
    """Reduce sizes over axes; None where the operator may make other numbers than whole ones."""
    held, sign = value.parts, _REDUCED.get(op.node.op_type)
    if held is None or sign is None or not held.size or value.dtype == "bool":
        return None
    combine = np.frompyfunc(partial(op.writer.combine, sign), 2, 1)
    for axis in sorted(axes, reverse=True):
        held = np.asarray(combine.reduce(held, axis=axis, keepdims=keep), object)
    return held


def _combined(sign: str) -> Callable[[CodegenContext], Rule]:
    return lambda op: lambda *row: reduce(partial(op.writer.combine, sign), row)


def _exactly(sign: str) -> Callable[[CodegenContext], Rule]:
    """Return the rule of a sum or a difference; large floats have none, because the model rounds their sums."""

    def rule(op: CodegenContext) -> Rule:
        floats = "float" in op.value(0).dtype

        def of(a: SizeTerm, b: SizeTerm) -> SizeTerm | None:
            large = floats and any(isinstance(part, int) and abs(part) > _EXACT for part in (a, b))
            return None if large else op.writer.combine(sign, a, b)

        return of

    return rule


def _divided(op: CodegenContext) -> Rule | None:
    """Return the rule of a quotient cut towards zero: // of what is not negative, or a multiple; floats have none."""
    writer = op.writer
    if "float" in op.value(0).dtype:
        return None

    def rule(a: SizeTerm, b: SizeTerm) -> SizeTerm | None:
        is_exact = writer.at_least(b, 1) and (writer.at_least(a, 0) or writer.is_multiple(a, b))
        return writer.combine("//", a, b) if is_exact else None

    return rule


def _remainder(op: CodegenContext) -> Rule | None:
    """Return the rule of a remainder: Python's, with the divisor's sign; with fmod=1 only where none is negative."""
    writer, of_dividend = op.writer, op.flag("fmod")
    if "float" in op.value(0).dtype and not of_dividend:
        return None
    return lambda a, b: (
        writer.combine("%", a, b) if writer.at_least(b, 1) and (writer.at_least(a, 0) or not of_dividend) else None
    )


def _absolute(op: CodegenContext) -> Rule:
    return lambda a: a if op.writer.at_least(a, 0) else op.writer.combine("max", a, op.writer.combine("*", a, -1))


def _itself(_: CodegenContext) -> Rule:
    return lambda a: a


def _cast(op: CodegenContext) -> Rule | None:
    """Return the rule of a cast into a dtype that holds a size as it is, or a condition."""
    writer, dtype = op.writer, _dtype(op)
    op.ignore("saturate", "round_mode", because="they speak of float8")
    if dtype == "bool":
        return _itself(op) if op.value(0).dtype == "bool" else (lambda a: writer.combine("!=", a, 0))
    return writer.counted if dtype in ("int32", "int64", "float32", "float64") else None


COMPARISONS = {"Equal": "==", "Less": "<", "LessOrEqual": "<=", "Greater": ">", "GreaterOrEqual": ">="}
_REDUCED = {"ReduceProd": "*", "ReduceSum": "+", "ReduceMax": "max", "ReduceMin": "min"}
_OF_ONE = frozenset({"Cast", "CastLike"})  # only the dtype of their second input matters
_COMBINED = {"Max": "max", "Min": "min", "And": "&", "Or": "|", **COMPARISONS}
_EACH: dict[str, Callable[[CodegenContext], Rule | None]] = {
    **{name: _combined(sign) for name, sign in _COMBINED.items()},
    **{name: _exactly(sign) for name, sign in {"Add": "+", "Sub": "-", "Mul": "*"}.items()},
    **dict.fromkeys(("Ceil", "Floor", "Round"), _itself),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    "Abs": _absolute,
    "Div": _divided,
    "Mod": _remainder,
    "Neg": lambda op: lambda a: op.writer.combine("*", a, -1),
    "Not": lambda op: op.writer.negated,
    "Where": lambda op: op.writer.chosen,
}
