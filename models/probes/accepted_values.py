"""Search for numbers that a model takes where it refuses those of random samples.

Random integers are 0 to 3, for most integers are indices. A table of two rows has no third, and nothing divides by 0.
Random floats are around 0, and some below it: a model that makes ids of them, or takes them for probabilities, refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ..signature import Array, TensorSpec, ValueRange
from .random_inputs import drawing_at_random, sample_tensors

EXAMPLE = ValueRange(0, 9)
_SMALL_TABLES = (2, 3)  # rows that random integers do not keep to
_LESS = 0.01  # that the largest float lies below the number of rows
_POSITIVE = (ValueRange(1, 9), ValueRange(1, 2))

ChosenValues: TypeAlias = Mapping[str, ValueRange | None]  # by input; None: ones
AcceptsValues: TypeAlias = Callable[[ChosenValues], bool]


def suggest_values(inputs: Sequence[TensorSpec], ranges: Mapping[str, ValueRange]) -> str:
    """Say how the values of the inputs in `ranges` are declared."""
    specs = [replace(spec, values=ranges.get(spec.name, spec.values)) for spec in inputs]
    options = " ".join(f"--input '{spec}'" if spec.values else f"--input {spec}" for spec in specs)
    return f"say which values it takes, as in {options}"


def find_refused(names: Sequence[str], accepts: AcceptsValues) -> Sequence[str]:
    """Return the inputs whose numbers are at fault: ones in their place have an answer, in one input, else in all.
    Empty where the numbers of none are."""
    if not names or accepts({}):
        return ()
    groups = [*([name] for name in names), *([list(names)] if len(names) > 1 else [])]
    return next((group for group in groups if accepts(dict.fromkeys(group))), ())


def find_values(
    refused: Sequence[str], accepts: AcceptsValues, tables: Iterable[int], *, integers: bool = True
) -> dict[str, ValueRange]:
    """Return the widest range of numbers that was tried and has answers, by refused input.
    `tables`: how many rows the tables of the model may have. `integers`: the numbers are such. An input for which no
    range has an answer is left out."""
    values: dict[str, ValueRange | None] = dict.fromkeys(refused)
    for name in refused:
        tried = _ranges({*tables, *_SMALL_TABLES}, integers=integers)
        values[name] = next((limits for limits in tried if accepts({**values, name: limits})), None)
    return {name: limits for name, limits in values.items() if limits is not None}


def _ranges(tables: Collection[int], *, integers: bool) -> Iterator[ValueRange]:
    """Yield what may index a table of so many rows, the largest first, and then what may divide.
    A float is cut to an id, so that 1.99 is the second row; where it is rounded, it is none."""
    largest_first = sorted(tables, reverse=True)
    yield from () if integers else (ValueRange(0, rows - _LESS) for rows in largest_first)
    yield from (ValueRange(0, rows - 1) for rows in largest_first if rows > 1)
    yield from _POSITIVE


def describe_values(spec: TensorSpec, limits: ValueRange, tables: Collection[int]) -> str:
    """Say in a sentence for the user which numbers an input is asked with, and why no others."""
    rows = sorted(rows for rows in tables if rows > 1)
    by_table = limits.low == 0 and rows[:1] == [int(limits.high) + 1]
    ids = by_table and np.dtype(spec.dtype).kind in "iu"
    why = "by its smallest table" if by_table else "by asking the model, which refuses others"
    if by_table and len(rows) > 1 and spec.shape and isinstance(spec.shape[-1], int) and spec.shape[-1] > 1:
        why = f"in all {spec.shape[-1]} columns, {why} (of {', '.join(map(str, rows))} rows)"
    return f"{spec.name}: {'ids' if ids else 'numbers'} {limits} {why}; give --data for more"


def replace_values(arrays: Mapping[str, Array], values: ChosenValues) -> dict[str, Array]:
    """Return the arrays with other numbers in the inputs that `values` names; both ends of a range are among them."""
    drawn = dict(arrays)
    for name, limits in values.items():
        array = arrays[name]
        spec = TensorSpec(name, array.dtype.name, array.shape, values=limits)
        with drawing_at_random():
            drawn[name] = np.ones_like(array) if limits is None else sample_tensors([spec], {})[name]
    return drawn
