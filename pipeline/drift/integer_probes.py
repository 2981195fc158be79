"""What is judged, and what is said, of a copy that was asked with other integers than its samples hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ...models.probes.stress_values import Reach
from ...models.signature import Array
from .recorded_answers import Answers

Call: TypeAlias = tuple[Mapping[str, Array], Answers, Answers]  # feeds, the copy's answers, the reference's

WORD_BITS = 31  # of an int32: with larger ones the runtimes themselves are wrong (docs/design/drift.md)
_EXACT_DB = 150.0  # stands for no noise at all: float32 tells no more apart
_SLACK_DB = 20.0
_NOTICED = 1e-3  # of the largest value of an output: what 60 dB allows
_SHOWN = 4  # values, or names
_COUNTED = 20  # integers up to this one are named one by one, and larger ones by their range


def eased_db(floor_db: float, last_db: float | None, more_bits: int) -> float:
    """The floor for integers of so many bits more than those at which a copy agreed to `last_db` (None: exactly).

    A sine of 10^6 in float32 is known to a few digits only, and its copy's with it. So each bit may cost 6 dB, as
    rounding does, and what falls faster is wrong.
    """
    before_db = _EXACT_DB if last_db is None else last_db
    return min(floor_db, before_db - 20 * math.log10(2) * more_bits - _SLACK_DB)


def reach_told(reaches: Mapping[str, Reach]) -> str:
    """Which input is asked with which integers: ids up to 1023 and x, y within ±2^31."""
    names: dict[Reach, list[str]] = {}
    for name, reach in reaches.items():
        names.setdefault(reach, []).append(name)
    return " and ".join(f"{_listed(each)} {reach}" for reach, each in names.items())


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def culprits(calls: Sequence[Call], names: Sequence[str], *, batched: bool) -> str | None:
    """Which integers wrong answers were given to: those that stand where an output is wrong, and nowhere else; or what
    a wrong sample holds, the one with the smallest. None where no element is far off."""
    for name in names:
        if found := _elements(calls, name):
            return f"wrong where {name} is {_values(found)}"
    samples = [each.held for call in calls for each in _samples(call, names, batched=batched) if each.wrong]
    if not samples:
        return None
    least = min(samples, key=lambda sample: max(abs(value) for values in sample.values() for value in values))
    return "wrong where " + " and ".join(f"{name} is {_values(values)}" for name, values in least.items())


def suspects(calls: Sequence[Call], names: Sequence[str], *, batched: bool) -> str | None:
    """The integers of one input that each wrong sample holds some of, and no right one any. None where there are no
    such: then it need not be the integers."""
    samples = [each for call in calls for each in _samples(call, names, batched=batched)]
    wrong = [each.held for each in samples if each.wrong]
    right = [each.held for each in samples if not each.wrong]
    for name in names if wrong and right else ():
        only = set[int]().union(*(held[name] for held in wrong)) - set[int]().union(*(held[name] for held in right))
        if only and all(held[name] & only for held in wrong):
            return f"wrong where {name} is {_values(only)}"
    return None


def _elements(calls: Sequence[Call], name: str) -> set[int]:
    """The integers of an input at which an output of its shape is wrong. None where the same are right elsewhere, or
    where most come once: shapes that are alike prove nothing."""
    wrong_at, right_at, count = set[int](), set[int](), 0
    for feeds, got, want in calls:
        fed = feeds[name]
        for output, array in want.items():
            wrong = _wrong(got[output], array)
            if wrong.shape == fed.shape:
                wrong_at |= set(fed[wrong].tolist())
                right_at |= set(fed[~wrong].tolist())
                count += fed.size
    told = not wrong_at & right_at and len(wrong_at | right_at) <= count / 2
    return wrong_at if told else set()


class _Sample(NamedTuple):
    """The integers of each input in one sample, and whether an output is wrong there."""

    held: Mapping[str, set[int]]
    wrong: bool


def _samples(call: Call, names: Sequence[str], *, batched: bool) -> list[_Sample]:
    feeds, got, want = call
    masks = [_wrong(got[output], array) for output, array in want.items()]
    if not batched:
        return [_Sample({name: set(feeds[name].ravel().tolist()) for name in names}, any(map(np.any, masks)))]
    masks = [wrong for wrong in masks if wrong.ndim]
    count = max(map(len, masks), default=0)
    rows = {row for wrong in masks for row in np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))}
    return [
        _Sample({name: set(_part(feeds[name], row, count).ravel().tolist()) for name in names}, row in rows)
        for row in range(count)
    ]


def _part(fed: Array, row: int, count: int) -> Array:
    """What a sample has of an input; all, where that has no batch."""
    return np.asarray(fed[row]) if fed.shape[:1] == (count,) else fed


def _wrong(got: Array, want: Array) -> Array:
    """The elements that are further off than an output may be."""
    if want.dtype.kind in "iub":
        return np.asarray(got != want)
    finite = np.isfinite(got) & np.isfinite(want)
    alike = (got == want) | (np.isnan(got) & np.isnan(want))
    most = float(np.max(np.abs(want), initial=0.0, where=finite))
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(~alike & ~(finite & (np.abs(got - want) <= _NOTICED * most)))


def _values(found: Iterable[int]) -> str:
    ordered = sorted(found, key=lambda value: (abs(value), value))
    if len(ordered) > _SHOWN and abs(ordered[-1]) > _COUNTED:
        return f"from {min(ordered)} to {max(ordered)}"
    return ", ".join(map(str, ordered[:_SHOWN])) + (" and others" if len(ordered) > _SHOWN else "")
