"""Hints for answers that disagree: what the wrong one looks like. A match names a failure; it never excuses one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations

import numpy as np

from ...models.probes.evidence import Answers
from ...models.signature import Array
from .numbers.numeric import BOUND_DB, compare

_MATCH_DB = 40.0  # a match must agree this well ...
_GAIN_DB = 20.0  # ... and this much better than the answers as they stand
_LEAST_ELEMENTS = 8  # a fit to fewer numbers than this always succeeds
_MOST_AXES = 5  # 120 permutations
_NEARLY = 0.01  # 20 dB
_MOST_ROWS = 64


def structure(candidate: Answers, reference: Answers) -> str | None:
    """Say what differs in names, order, shapes or dtypes of the outputs; None where nothing does."""
    ours, theirs = list(candidate), list(reference)
    if sorted(ours) != sorted(theirs):
        return f"the outputs are called {_list(ours)}, the reference's {_list(theirs)}"
    if order := describe_order(candidate, reference):
        return order
    for name in theirs:
        actual, expected = candidate[name], reference[name]
        if actual.shape != expected.shape:
            return f"output {name} has the shape {list(actual.shape)}, the reference's {list(expected.shape)}"
        if actual.dtype != expected.dtype:
            return f"output {name} is {actual.dtype.name}, the reference's {expected.dtype.name}"
    return None


def describe_order(candidate: Answers, reference: Answers) -> str | None:
    """Say in which order outputs of the right names come; None where it is the reference's, or the names are wrong."""
    ours, theirs = list(candidate), list(reference)
    if ours == theirs or sorted(ours) != sorted(theirs):
        return None
    return f"the outputs come in the order {_list(ours)}, the reference's in {_list(theirs)}"


def explain(candidate: Answers, reference: Answers, *, batched: bool = True) -> str | None:
    """Say what the candidate's answers to the same samples look like.

    None where they are close to the reference, or look like nothing known. It looks, in this order, for outputs under
    each other's names, an axis permutation, another shape, samples in another order or repeated, a reversed axis, a
    softmax or sigmoid too many or too few, a sign, a factor, an offset. `batched`: axis 0 of the outputs is of samples.
    """
    swapped = _swapped(candidate, reference)
    if swapped:
        return swapped
    for name, expected in reference.items():
        actual = candidate.get(name)
        if actual is None or not expected.size or not actual.size:
            continue
        hint = _explain_output(actual, expected, batched)
        if hint:
            return f"output {name} {hint}"
    return None


def join(calls: Sequence[Answers]) -> Answers:
    """Join the answers of several calls where the outputs have samples along axis 0; else return the first call's."""
    joined = {}
    for name, first in calls[0].items():
        parts = [call[name] for call in calls]
        fits = first.ndim > 0 and len({part.shape[1:] for part in parts}) == 1
        joined[name] = np.concatenate(parts) if fits else first
    return joined


def _explain_output(actual: Array, expected: Array, batched: bool) -> str | None:
    if actual.shape == expected.shape and not _apart(actual, expected):
        return None
    explanations: tuple[Callable[[Array, Array], str | None], ...] = (
        _permuted, _reshaped, *([_rows_moved] if batched else []), _reversed, _squashed, _scaled,
    )  # fmt: skip
    return next((hint for explanation in explanations if (hint := explanation(actual, expected))), None)


def _swapped(candidate: Answers, reference: Answers) -> str | None:
    """Look for outputs that carry each other's values, whether or not the names are the same."""
    moved: dict[str, str] = {}
    for name, actual in candidate.items():
        own = reference.get(name)
        if own is not None and own.shape == actual.shape and not _apart(actual, own):
            continue
        twin = next(
            (other for other, expected in reference.items() if other != name and _matches(actual, expected, own)), None
        )
        if twin is not None:
            moved[name] = twin
    if not moved or (len(moved) == 1 and next(iter(moved)) in reference):
        return None  # one output that repeats another is no exchange
    pairs = [f"{name} holds the reference's {twin}" for name, twin in moved.items()]
    statement = (
        "the outputs are exchanged" if all(name in reference for name in moved) else "the outputs go by other names"
    )
    return f"{statement}: {', '.join(pairs)}"


def _permuted(actual: Array, expected: Array) -> str | None:
    if expected.ndim > _MOST_AXES or sorted(actual.shape) != sorted(expected.shape):
        return None
    for order in permutations(range(expected.ndim)):
        moved = np.transpose(expected, order)
        if order != tuple(range(expected.ndim)) and _matches(actual, moved, expected):
            return f"equals the reference after the axes permutation {order}: the layout was lost{_db(actual, moved)}"
    return None


def _reshaped(actual: Array, expected: Array) -> str | None:
    if (
        actual.shape == expected.shape
        or actual.size != expected.size
        or not _matches(actual.ravel(), expected.ravel(), None)
    ):
        return None
    return f"holds the reference's values in the shape {list(actual.shape)} instead of {list(expected.shape)}"


def _rows_moved(actual: Array, expected: Array) -> str | None:
    """Look for samples that have the answer to another one."""
    if actual.shape != expected.shape or actual.ndim == 0 or len(expected) < 2 or expected[0].size < 2:
        return None
    x, y = (
        array[:_MOST_ROWS].reshape(min(len(array), _MOST_ROWS), -1).astype(np.float64) for array in (actual, expected)
    )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    nearest = [int(np.argmin(np.sum((y - row) ** 2, axis=1))) for row in x]
    # Samples of few distinct numbers soon equal another.
    nearly_own = np.sum((x - y) ** 2) < _NEARLY * np.sum((y - y.mean(0)) ** 2)
    if nearly_own or not _matches(x, y[nearest], y):
        return None
    if len(set(nearest)) == 1:
        return f"gives every sample the answer to sample {nearest[0]}: the batch was lost"
    if sorted(nearest) != list(range(len(x))):
        return "gives some samples the answers to others: the batch was mixed up"
    shown = next(at for at, other in enumerate(nearest) if at != other)
    return f"holds the samples in another order: sample {shown} got the answer to sample {nearest[shown]}"


def _reversed(actual: Array, expected: Array) -> str | None:
    for axis in range(expected.ndim):
        if actual.shape == expected.shape and _matches(actual, np.flip(expected, axis), expected):
            return f"equals the reference with axis {axis} reversed{_db(actual, np.flip(expected, axis))}"
    return None


def _squashed(actual: Array, expected: Array) -> str | None:
    if actual.shape != expected.shape or actual.dtype.kind != "f" or expected.dtype.kind != "f" or not expected.ndim:
        return None
    plain = _agreement_db(actual, expected)
    for words, x, y in _squashes(actual.astype(np.float64), expected.astype(np.float64)):
        if _better(_agreement_db(x, y), plain):
            return words
    return None


def _squashes(actual: Array, expected: Array) -> Iterator[tuple[str, Array, Array]]:
    yield "equals the softmax of the reference", actual, _softmax(expected)
    yield "lacks the softmax that the reference has", _softmax(actual), expected
    yield "equals the sigmoid of the reference", actual, _sigmoid(expected)
    yield "lacks the sigmoid that the reference has", _sigmoid(actual), expected


def _scaled(actual: Array, expected: Array) -> str | None:
    """Fit a least squares line through (reference, candidate)."""
    if actual.shape != expected.shape or expected.size < _LEAST_ELEMENTS:
        return None
    x, y = expected.astype(np.float64).ravel(), actual.astype(np.float64).ravel()
    finite = np.isfinite(x) & np.isfinite(y)
    if np.count_nonzero(finite) < _LEAST_ELEMENTS or np.ptp(x[finite]) == 0 or np.ptp(y[finite]) == 0:
        return None
    x, y = x[finite], y[finite]
    for words, line in _lines(x, y):
        if _matches(y, line, x):
            return words
    return None


def _lines(x: Array, y: Array) -> Iterator[tuple[str, Array]]:
    """Yield lines to try, simplest first: a sign, a factor, an offset, both."""
    yield "is the reference with the opposite sign", -x
    factor = float(x @ y / (x @ x))
    yield f"is the reference times {factor:.4g}", factor * x
    offset = float(np.mean(y - x))
    yield f"is the reference plus {offset:.4g}", x + offset
    slope = float((x - x.mean()) @ (y - y.mean()) / ((x - x.mean()) @ (x - x.mean())))
    rest = float(y.mean() - slope * x.mean())
    yield f"is the reference times {slope:.4g} plus {rest:.4g}", slope * x + rest


def _matches(actual: Array, guess: Array, before: Array | None) -> bool:
    """Return whether `guess` equals the candidate's answer, and is a far better guess than the plain reference."""
    return _better(_agreement_db(actual, guess), None if before is None else _agreement_db(actual, before))


def _better(guess_db: float | None, plain_db: float | None) -> bool:
    return guess_db is not None and guess_db >= _MATCH_DB and (plain_db is None or guess_db >= plain_db + _GAIN_DB)


def _apart(actual: Array, expected: Array) -> bool:
    """Return whether two arrays of one shape differ by more than an fp32 copy may."""
    drift = compare(actual, expected)
    return drift.non_finite > 0 or drift.mismatches > 0 or (drift.sqnr_db is not None and drift.sqnr_db < 60)


def _agreement_db(actual: Array, expected: Array) -> float | None:
    """Return signal to noise: BOUND_DB without noise, None where shapes or the finite patterns differ."""
    if actual.shape != expected.shape:
        return None
    drift = compare(actual, expected)
    if drift.non_finite or not drift.finite:
        return None
    return BOUND_DB if drift.sqnr_db is None else drift.sqnr_db


def _db(actual: Array, guess: Array) -> str:
    db = _agreement_db(actual, guess)
    return "" if db is None else " (to the last bit)" if db == BOUND_DB else f" (to {db:.0f} dB)"


def _softmax(x: Array) -> Array:
    with np.errstate(all="ignore"):
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return np.asarray(e / np.sum(e, axis=-1, keepdims=True))


def _sigmoid(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def _list(names: list[str]) -> str:
    return ", ".join(names) or "nothing"
