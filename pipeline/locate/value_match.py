"""Equal values of two models, whatever they are called and however their axes lie."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations

import numpy as np

from ...models.signature import Array

EXACT_DB = 200.0  # stands for no noise at all
_NEAR = 0.02  # relative difference of two sizes up to which two arrays are compared
_SAME = 1e-3  # the same, before axes are permuted
_MOST_AXES = 5
_PREVIEW = 2048  # elements that tell whether an order of axes is worth a full comparison
_PREVIEW_DB = 15.0
_MOST_ORDERS = 4
_SMALL_MATTER_DB = 40.0  # values that agree less are unequal as they are
_TELLING_BITS = 22.0
_ALLOWANCE_DB = 20.0  # the smaller half of normal values has 11 dB less signal than all of them


@dataclass(frozen=True)
class Match:
    """A candidate's value that resembles the reference's. `array`: its numbers in the reference's order of axes."""

    name: str
    agreement_db: float
    array: Array


@dataclass(frozen=True)
class _Print:
    """What a permutation of an array's elements does not change."""

    size: int
    rms: float

    @classmethod
    def of(cls, array: Array) -> _Print:
        values = array.astype(np.float64, copy=False).ravel()
        finite = values[np.isfinite(values)]
        with np.errstate(over="ignore"):
            return cls(array.size, math.sqrt(float(finite @ finite) / finite.size) if finite.size else 0.0)


class CandidateValues:
    """The values of a candidate by name, found by their numbers."""

    def __init__(self, values: Mapping[str, Array]) -> None:
        self.arrays = values
        self._by_size: dict[int, list[tuple[float, str]]] = {}
        for name, array in values.items():
            if array.size and array.dtype.kind in "fiub":
                self._by_size.setdefault(array.size, []).append((_Print.of(array).rms, name))
        for rows in self._by_size.values():
            rows.sort()

    def matches(self, array: Array) -> list[Match]:
        """Return the values that resemble an array of the reference, the best first."""
        own = _Print.of(array)
        rows = self._by_size.get(own.size, [])
        low, high = ((own.rms * (1 + sign * _NEAR) + sign * 1e-30) for sign in (-1, 1))
        near = rows[bisect_left(rows, (low, "")) : bisect_right(rows, (high, "\uffff"))]
        matches = []
        for rms, name in near:
            is_close = abs(rms - own.rms) <= _SAME * own.rms
            match = best_order(name, self.arrays[name], array, permute=is_close)
            if match is not None:
                matches.append(match)
        return sorted(matches, key=lambda match: -match.agreement_db)


def best_order(name: str, candidate: Array, reference: Array, *, permute: bool) -> Match | None:
    """Return the candidate's array in the order of axes that agrees best; None where no order agrees at all."""
    best: Match | None = None
    for restored in orders(candidate, reference.shape, permute=permute):
        preview_db = agreement_db(restored.ravel()[:_PREVIEW], reference.ravel()[:_PREVIEW])
        if best is not None and preview_db < _PREVIEW_DB:
            continue
        db = preview_db if reference.size <= _PREVIEW else agreement_db(restored, reference)
        if best is None or db > best.agreement_db:
            best = Match(name, db, restored)
        if best.agreement_db > 100:
            break
    return best


def likely_orders(name: str, candidate: Array, reference: Array) -> list[Match]:
    """Return the candidate's array in the order of axes that agrees best, or in each that fits where none agrees."""
    best = best_order(name, candidate, reference, permute=True)
    if best is None or best.agreement_db > _PREVIEW_DB or candidate.shape == reference.shape:
        return [] if best is None else [best]
    fitting = islice(orders(candidate, reference.shape, permute=True), _MOST_ORDERS)
    return [Match(name, agreement_db(array, reference), array) for array in fitting]


def orders(candidate: Array, shape: Sequence[int], *, permute: bool) -> Iterator[Array]:
    """Yield a candidate's array in the reference's shape, for each order of axes that fits; the plain one is first."""
    if candidate.size != math.prod(shape):
        return
    yield candidate.reshape(shape)
    long = [size for size in shape if size != 1]
    if not permute or not 2 <= len(long) <= _MOST_AXES:
        return
    own = [size for size in candidate.shape if size != 1]
    for order in permutations(range(len(long))):
        moved = [long[at] for at in order]
        if order != tuple(range(len(long))) and (moved == own or len(own) != len(long)):
            back = np.argsort(order)
            yield candidate.reshape(moved).transpose(back).reshape(shape)


def agreement_db(candidate: Array, reference: Array) -> float:
    """Return signal to noise in dB: EXACT_DB without noise; minus infinity where other elements are finite."""
    if candidate.dtype.kind not in "f" or reference.dtype.kind not in "f":
        return EXACT_DB if np.array_equal(candidate, reference) else -math.inf
    with np.errstate(all="ignore"):
        x, y = candidate.astype(np.float64).ravel(), reference.astype(np.float64).ravel()
        finite = np.isfinite(y)
        if not np.array_equal(finite, np.isfinite(x)):
            return -math.inf
        if not finite.all():
            x, y = x[finite], y[finite]
        noise, signal = float((x - y) @ (x - y)), float(y @ y)
    overall_db = _ratio_db(signal, noise)
    return min(overall_db, _small_values_db(x, y)) if _SMALL_MATTER_DB < overall_db < EXACT_DB else overall_db


def worst_element_db(candidate: Array, reference: Array) -> float:
    """Return the agreement of the element that agrees least, in dB: a logarithm magnifies the error of small ones."""
    with np.errstate(all="ignore"):
        x, y = candidate.astype(np.float64), reference.astype(np.float64)
        sizes = np.abs(x - y) / np.maximum(np.abs(y), np.finfo(np.float32).tiny)
    worst = float(np.nanmax(sizes, initial=0.0))
    return EXACT_DB if worst == 0 else -20 * math.log10(worst)


def _small_values_db(x: Array, y: Array) -> float:
    """Return the agreement of the smaller half of the values, with an allowance: beside a mask of -1e9 all of them
    could be wrong, and the whole would agree."""
    sample = np.abs(y[:: max(1, y.size // _PREVIEW)])
    small = np.abs(y) <= np.median(sample)
    x, y = x[small], y[small]
    signal = float(y @ y)
    return _ratio_db(signal, float((x - y) @ (x - y))) + _ALLOWANCE_DB if signal else EXACT_DB


def _ratio_db(signal: float, noise: float) -> float:
    if noise == 0:
        return EXACT_DB
    return -math.inf if signal == 0 else min(EXACT_DB, 10 * math.log10(signal / noise))


def is_telling(array: Array) -> bool:
    """Return whether equality of an array means anything: plain constants and a few small integers are equal by chance.
    Numbers with many digits are not, however few they are."""
    flat = array.ravel()
    if not flat.size:
        return False
    if flat.size >= (2 if array.dtype.kind == "f" else 16) and not bool(np.all(flat == flat[0])):
        return True
    return _count_bits(flat[:16]) >= _TELLING_BITS


def plain_key(array: Array) -> tuple[int, bytes]:
    """Return what equal arrays that tell nothing have in common, whatever their dtype and shape."""
    values = array.astype(np.float64).ravel() + 0.0  # -0.0 is 0.0
    is_constant = bool(values.size) and bool(np.all(values == values[0]))
    return values.size, (values[:1] if is_constant else values).tobytes()


def _count_bits(values: Array) -> float:
    """Return how many bits the different values take, without zeros behind the last digit of a float."""
    unique = np.unique(values)
    if values.dtype.kind in "iu":
        return float(np.sum(np.log2(1 + np.abs(unique.astype(np.float64)))))
    if values.dtype.kind != "f":
        return 0.0
    mantissas = np.frexp(unique[np.isfinite(unique)].astype(np.float32))[0] * np.float32(2**24)
    digits = np.abs(mantissas).astype(np.int64)
    return float(sum(int(number).bit_length() - _trailing_zeros(int(number)) for number in digits))


def _trailing_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1 if number else 0
