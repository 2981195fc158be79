"""Rows of inputs that bring a graph's values to both sides of the numbers that it compares them with (thresholds).

Samples are scaled, flattened, and changed in single elements, within what is declared. Between two rows on either side
of a number bisection finds rows that lie close to it. Not closer than a hundredth: rounding must not choose the side.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TypeAlias

import numpy as np

from ..dataset import Dataset, take
from ..signature import Array, Signature, TensorSpec
from .declared_values import declared_ranges
from .feeds import CallRows, make_feeds, samples_per_call
from .masks import stress_inputs
from .probe_set import NEAR
from .sizes import bounds_within
from .thresholds import TAILS, Extremes, Hear, Threshold, measure_operator

Watch: TypeAlias = Callable[[Mapping[str, Array], Hear], None]  # answers a call, and tells of its operators

NEAR_S = 4.0  # that the search may take
_BASE = 8  # samples that are changed
_FACTORS = (-1, 3, -3, 10, -10, 30, -30, 100, -100, 1000, -1000)
_FLAT = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)  # of the distance from the sample's mean
_ELEMENTS, _LEVELS = 12, (30, -30, 300, -300)  # elements of each input that are changed alone, and to what
_STEPS, _NEAR = 14, 2e-2  # of bisection; how near it comes, as a share of the number
_BESIDE = 5e-2  # of the number: known rows so near to it need no others
_MOST_PAIRS = 48
MOST_ROWS = 64  # of a call
_PART = 16  # rows between two looks at the clock


@dataclass(frozen=True)
class ThresholdRows:
    """Rows by their source; how many numbers values are compared with, and how many of them no row got beyond."""

    rows: Mapping[str, Dataset] = field(default_factory=dict)
    thresholds: int = 0
    unreached: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.thresholds} constants that values are compared with, {self.unreached} of them reached by no input"
        )


@dataclass(frozen=True)
class _Pair:
    """Two rows of the pool on either side of a number: `end` 0 looks at the least of a row's values, 1 at the most."""

    threshold: Threshold
    end: int
    below: int
    above: int
    distance: float  # of these values of the two


def find_threshold_rows(
    signature: Signature,
    data: Dataset,
    watch: Watch,
    *,
    known: Sequence[Dataset] = (),
    source: str = NEAR,
    most: int = MOST_ROWS,
) -> ThresholdRows:
    """Search for rows on both sides of each number that operators compare values with, for some seconds.
    Numbers that `known` rows lie beside are left out. A call has `most` rows."""
    specs, measure = signature.inputs, partial(_measure, signature, watch, most)
    base = data.rows(0, _BASE)
    extremes = measure(base.rows(0, 1))  # a call of one row says whether there are numbers at all
    if not extremes:
        return ThresholdRows()
    if len(base) > 1:
        extremes = _joined(extremes, measure(base.rows(1, None)))
    start = time.monotonic()
    before = [measure(rows) for rows in known]
    beside = {threshold for threshold, ends in reduce(_joined, before, extremes).items() if _is_beside(threshold, ends)}
    if all(_is_straddled(threshold, ends) or threshold in beside for threshold, ends in extremes.items()):
        return ThresholdRows(thresholds=len(extremes))
    pool, origins = _pool(specs, data, base)
    for first in range(len(base), len(pool), _PART):
        if time.monotonic() - start > NEAR_S / 2:
            pool = take(pool, slice(0, first))
            break
        extremes = _joined(extremes, measure(pool.rows(first, first + _PART)))
    sought = {threshold: ends for threshold, ends in extremes.items() if threshold not in beside}
    pairs = sorted(_pairs(sought, _sizes(pool), origins), key=lambda pair: pair.threshold.constant in TAILS)
    reached = {threshold for threshold, ends in extremes.items() if threshold in beside or _is_reached(threshold, ends)}
    near = _bisect(pool, declared_ranges(specs, data), pairs[:_MOST_PAIRS], measure, start + NEAR_S)
    seconds = time.monotonic() - start
    return ThresholdRows(_by_size(near, source), len(extremes), len(extremes) - len(reached), seconds)


def _pool(specs: Sequence[TensorSpec], data: Dataset, base: Dataset) -> tuple[Dataset, Array]:
    """Return the samples and changed ones, and the number of the sample that each was made of."""
    ranges = declared_ranges(specs, data)
    names = [spec.name for spec in specs if spec.dtype.startswith("float") and spec.name in ranges]
    names += [spec.name for spec in stress_inputs(specs)]
    changed: list[tuple[int, Mapping[str, Array]]] = [(at, {}) for at in range(len(base))]
    for number, change in enumerate(_changes([base.inputs[name] for name in names])):
        at = number % len(base)
        own = {name: change(base.inputs[name][at].astype(np.float64), which) for which, name in enumerate(names)}
        limited = {name: np.clip(array, *ranges[name]) if name in ranges else array for name, array in own.items()}
        changed.append((at, limited))
    origins = np.array([at for at, _ in changed])
    inputs = {name: array[origins] for name, array in base.inputs.items()}
    for row, (_, arrays) in enumerate(changed):
        for name, array in arrays.items():
            inputs[name][row] = array
    return Dataset(inputs), origins


def _changes(floats: Sequence[Array]) -> Iterator[Callable[[Array, int], Array]]:
    """Yield changes of a sample of one input, by its number: of all inputs at once, then of single elements."""
    if floats:
        yield from (partial(_scale, factor) for factor in _FACTORS)
        yield from (partial(_flatten, share) for share in _FLAT)
    for which, array in enumerate(floats):
        size = array[0].size
        for place in np.unique(np.linspace(0, size - 1, min(size, _ELEMENTS)).astype(int)):
            yield from (partial(_with_element, which, int(place), level) for level in _LEVELS)


def _scale(factor: float, sample: Array, _own: int) -> Array:
    return np.asarray(sample * factor)


def _flatten(share: float, sample: Array, _own: int) -> Array:
    return np.asarray(sample.mean() + (sample - sample.mean()) * share)


def _with_element(which: int, place: int, level: float, sample: Array, own: int) -> Array:
    if own == which:
        sample.reshape(-1)[place] = level
    return sample


def _measure(signature: Signature, watch: Watch, most: int, rows: Dataset) -> Extremes:
    """Measure the values that operators compare with numbers, row by row."""
    bounds = bounds_within(signature.inputs, signature.batch)
    parts: list[Extremes] = []
    for chosen in CallRows(len(rows), bounds.nearest(samples_per_call(rows, most)), bounds):
        extremes: dict[Threshold, tuple[Array, Array]] = {}

        def hear(place: str, kind: str, values: Sequence[Array], numbers: Sequence[float]) -> None:
            extremes.update(measure_operator(place, kind, values, numbers, len(chosen)))  # noqa: B023  (called here)

        watch(make_feeds(rows, chosen, signature), hear)
        parts.append(extremes)
    joined = reduce(_joined, parts)
    return {threshold: (least[: len(rows)], most[: len(rows)]) for threshold, (least, most) in joined.items()}


def _joined(first: Extremes, second: Extremes) -> Extremes:
    """Join the extremes of rows; a number that only some calls compare a value with is left out."""
    return {
        threshold: (np.concatenate([least, second[threshold][0]]), np.concatenate([most, second[threshold][1]]))
        for threshold, (least, most) in first.items()
        if threshold in second
    }


def _sizes(rows: Dataset) -> Array:
    floats = [array.reshape(len(rows), -1) for array in rows.inputs.values() if array.dtype.kind == "f" and array.size]
    sizes = [np.abs(array.astype(np.float64)).max(1, initial=0.0) for array in floats]
    return np.max(sizes, axis=0) if sizes else np.zeros(len(rows))


def _is_reached(threshold: Threshold, ends: tuple[Array, Array]) -> bool:
    least, most = ends
    return bool((least < threshold.constant).any() and (most > threshold.constant).any())


def _is_straddled(threshold: Threshold, ends: tuple[Array, Array]) -> bool:
    return bool((ends[0] < threshold.constant).all() and (ends[1] > threshold.constant).all())


def _is_beside(threshold: Threshold, ends: tuple[Array, Array]) -> bool:
    """Return whether rows lie on both sides of a number, and near to it."""
    distances = np.concatenate(ends) - threshold.constant
    near = _BESIDE * abs(threshold.constant) if threshold.constant else np.inf
    return all(((side > 0) & (side <= near)).any() for side in (distances, -distances))


def _pairs(extremes: Extremes, sizes: Array, origins: Array) -> Iterator[_Pair]:
    """Yield the smallest rows on either side of each number; of one sample, where there are such."""
    for threshold, ends in extremes.items():
        for end in (1, 0) if threshold.constant > 0 else (0, 1):
            above = np.flatnonzero(ends[end] > threshold.constant)
            below = np.flatnonzero(ends[end] < threshold.constant)
            if not (len(above) and len(below)):
                continue
            rarer, more = (above, below) if len(above) <= len(below) else (below, above)
            first = rarer[np.argmin(sizes[rarer])]
            alike = more[origins[more] == origins[first]]
            rest = alike if len(alike) else more
            second = rest[np.argmin(sizes[rest])]
            low, high = (second, first) if rarer is above else (first, second)
            yield _Pair(threshold, end, low, high, float(ends[end][high] - ends[end][low]))
            break


def _bisect(
    pool: Dataset,
    declared: Collection[str],
    pairs: Sequence[_Pair],
    measure: Callable[[Dataset], Extremes],
    deadline: float,
) -> Dataset | None:
    """Return rows between those of each pair, as near to the number from both sides as they may come."""
    if not pairs:
        return None
    twice = [pair for pair in pairs for _ in range(2)]  # once for each side
    below, above = (take(pool, np.array([getattr(pair, side) for pair in twice])) for side in ("below", "above"))
    numbers = np.array([pair.threshold.constant for pair in twice])
    is_above = np.arange(len(twice)) % 2 == 1
    margins = np.where(numbers, np.abs(numbers), [pair.distance for pair in twice]) * _NEAR
    targets = numbers + np.where(is_above, margins, -margins)
    low, high = np.zeros(len(twice)), np.ones(len(twice))  # shares of the way from below to above
    for _ in range(_STEPS):
        if time.monotonic() > deadline:
            break
        middle = (low + high) / 2
        measured = measure(_between(below, above, middle, declared))
        values = np.array(
            [measured.get(pair.threshold, (targets, targets))[pair.end][at] for at, pair in enumerate(twice)]
        )
        low, high = np.where(values < targets, middle, low), np.where(values > targets, middle, high)
    return _between(below, above, np.where(is_above, high, low), declared)


def _between(below: Dataset, above: Dataset, shares: Array, declared: Collection[str]) -> Dataset:
    """Return rows at shares of the way. Integers go along where they are declared."""
    rows = {}
    for name, first in below.inputs.items():
        second = above.inputs[name]
        share = shares.reshape(-1, *[1] * (first.ndim - 1))
        rows[name] = first
        if first.dtype.kind == "f" or (first.dtype.kind in "iu" and name in declared):
            mixed = first.astype(np.float64) * (1 - share) + second.astype(np.float64) * share
            rows[name] = (mixed if first.dtype.kind == "f" else np.rint(mixed)).astype(first.dtype)
    return Dataset(rows)


def _by_size(rows: Dataset | None, source: str) -> dict[str, Dataset]:
    """Group different rows by the power of ten of their largest float: beside a large one no small one is seen."""
    if rows is None:
        return {}
    bytes_of = [b"".join(array[at].tobytes() for array in rows.inputs.values()) for at in range(len(rows))]
    kept = np.array(sorted({row: at for at, row in enumerate(bytes_of)}.values()))
    sizes = _sizes(rows)[kept]
    powers = np.ceil(np.log10(np.maximum(sizes, 1.0))).astype(int)
    groups = {}
    for power in sorted(set(powers[np.isfinite(sizes)])):
        chosen = kept[(powers == power) & np.isfinite(sizes)]
        groups[f"{source} up to {math.pow(10, power):g}"] = take(rows, chosen)
    return groups
