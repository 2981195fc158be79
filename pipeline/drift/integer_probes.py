"""Judge and describe a copy that was asked with other integers than its samples hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ...models.probes.evidence import Answers
from ...models.signature import Array

Call: TypeAlias = tuple[Mapping[str, Array], Answers, Answers]  # feeds, the copy's answers, the reference's

_EXACT_DB = 150.0  # stands for no noise at all: float32 tells no more apart
_SLACK_DB = 20.0
_NOTICED = 1e-3  # of the largest value of an output: what 60 dB allows
_SHOWN = 4  # values
_COUNTED = 20  # integers up to this size are named one by one, and larger ones by their range


def lower_floor_db(floor_db: float, last_db: float | None, more_bits: int) -> float:
    """Return the floor for integers of `more_bits` more than those at which a copy agreed to `last_db` (None: exactly).
    A sine of 10^6 in float32 is known to a few digits only, and its copy's with it. So each bit may cost 6 dB, as
    rounding does, and a copy that falls faster is wrong."""
    before_db = _EXACT_DB if last_db is None else last_db
    return min(floor_db, before_db - 20 * math.log10(2) * more_bits - _SLACK_DB)


def name_culprits(calls: Sequence[Call], names: Sequence[str], *, batched: bool) -> str | None:
    """Say which integers get wrong answers; None where no element is far off.
    They are those that stand where an output is wrong, and nowhere else. Where there are none, they are the integers of
    the wrong sample that holds the smallest."""
    for name in names:
        if culprits := _wrong_elements(calls, name):
            return f"wrong where {name} is {_values(culprits)}"
    samples = [sample.held for call in calls for sample in _samples(call, names, batched=batched) if sample.wrong]
    if not samples:
        return None
    least = min(samples, key=lambda sample: max(abs(value) for values in sample.values() for value in values))
    return "wrong where " + " and ".join(f"{name} is {_values(values)}" for name, values in least.items())


def name_suspects(calls: Sequence[Call], names: Sequence[str], *, batched: bool) -> str | None:
    """Say which integers of an input every wrong sample holds some of, and no right one any.
    None where there are no such integers: then they need not be at fault."""
    samples = [sample for call in calls for sample in _samples(call, names, batched=batched)]
    wrong = [sample.held for sample in samples if sample.wrong]
    right = [sample.held for sample in samples if not sample.wrong]
    for name in names if wrong and right else ():
        only = set[int]().union(*(held[name] for held in wrong)) - set[int]().union(*(held[name] for held in right))
        if only and all(held[name] & only for held in wrong):
            return f"wrong where {name} is {_values(only)}"
    return None


def _wrong_elements(calls: Sequence[Call], name: str) -> set[int]:
    """Return the integers of an input at which an output of its shape is wrong.
    Empty where the same integers are right elsewhere, or where most occur once: shapes that are alike prove nothing."""
    wrong_at, right_at, count = set[int](), set[int](), 0
    for feeds, copied, reference in calls:
        fed = feeds[name]
        for output, array in reference.items():
            wrong = _wrong(copied[output], array)
            if wrong.shape == fed.shape:
                wrong_at |= set(fed[wrong].tolist())
                right_at |= set(fed[~wrong].tolist())
                count += fed.size
    telling = not wrong_at & right_at and len(wrong_at | right_at) <= count / 2
    return wrong_at if telling else set()


class _Sample(NamedTuple):
    """The integers of each input in one sample, and whether an output is wrong there."""

    held: Mapping[str, set[int]]
    wrong: bool


def _samples(call: Call, names: Sequence[str], *, batched: bool) -> list[_Sample]:
    feeds, copied, reference = call
    masks = [_wrong(copied[output], array) for output, array in reference.items()]
    if not batched:
        return [_Sample({name: set(feeds[name].ravel().tolist()) for name in names}, any(map(np.any, masks)))]
    masks = [wrong for wrong in masks if wrong.ndim]
    count = max(map(len, masks), default=0)
    rows = {row for wrong in masks for row in np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))}
    return [
        _Sample({name: set(_sample_of(feeds[name], row, count).ravel().tolist()) for name in names}, row in rows)
        for row in range(count)
    ]


def _sample_of(fed: Array, row: int, count: int) -> Array:
    """Return a sample's part of an input; all of it where the input has no batch."""
    return np.asarray(fed[row]) if fed.shape[:1] == (count,) else fed


def _wrong(copied: Array, reference: Array) -> Array:
    """Mark the elements that are further off than an output may be."""
    if reference.dtype.kind in "iub":
        return np.asarray(copied != reference)
    finite = np.isfinite(copied) & np.isfinite(reference)
    alike = (copied == reference) | (np.isnan(copied) & np.isnan(reference))
    most = float(np.max(np.abs(reference), initial=0.0, where=finite))
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(~alike & ~(finite & (np.abs(copied - reference) <= _NOTICED * most)))


def _values(integers: Iterable[int]) -> str:
    ordered = sorted(integers, key=lambda value: (abs(value), value))
    if len(ordered) > _SHOWN and abs(ordered[-1]) > _COUNTED:
        return f"from {min(ordered)} to {max(ordered)}"
    return ", ".join(map(str, ordered[:_SHOWN])) + (" and others" if len(ordered) > _SHOWN else "")
