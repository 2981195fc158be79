"""When answers disagree: what the wrong one looks like. A match that is found here is a fail that has a name; it never
excuses anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations

import numpy as np

from ...models.signature import Array
from .numeric import BOUND_DB, compare

_MATCH_DB = 40.0  # what was found must agree this well ...
_GAIN_DB = 20.0  # ... and this much better than the answers as they stand
_LEAST_ELEMENTS = 8  # a fit to fewer numbers than this always succeeds
_MOST_AXES = 5  # 120 permutations
_NEARLY = 0.01  # 20 dB
_MOST_ROWS = 64

Answers = Mapping[str, Array]


def structure(candidate: Answers, reference: Answers) -> str | None:
    """What differs in names, order, shapes or dtypes of the outputs, in one sentence; None where nothing does."""
    ours, theirs = list(candidate), list(reference)
    if sorted(ours) != sorted(theirs):
        return f"the outputs are called {_list(ours)}, the reference's {_list(theirs)}"
    if ours != theirs:
        return f"the outputs come in the order {_list(ours)}, the reference's in {_list(theirs)}"
    for name in theirs:
        got, want = candidate[name], reference[name]
        if got.shape != want.shape:
            return f"output {name} has the shape {list(got.shape)}, the reference's {list(want.shape)}"
        if got.dtype != want.dtype:
            return f"output {name} is {got.dtype.name}, the reference's {want.dtype.name}"
    return None


def explain(candidate: Answers, reference: Answers, *, batched: bool = True) -> str | None:
    """What the candidate's answers to the same samples look like, in one sentence; None where they are close to the
    reference, or look like nothing known.

    Looked for, in this order: outputs under each other's names, an axis permutation, another shape, samples in another
    order or repeated, a reversed axis, a softmax or sigmoid too many or too few, a sign, a factor, an offset.
    `batched`: axis 0 of the outputs is of samples.
    """
    swapped = _swapped(candidate, reference)
    if swapped:
        return swapped
    for name, want in reference.items():
        got = candidate.get(name)
        if got is None or not want.size or not got.size:
            continue
        found = _explain_output(got, want, batched)
        if found:
            return f"output {name} {found}"
    return None


def join(calls: Sequence[Answers]) -> Answers:
    """Answers of several calls as of one, where the outputs have samples along axis 0; else of the first call."""
    joined = {}
    for name, first in calls[0].items():
        parts = [call[name] for call in calls]
        fits = first.ndim > 0 and len({part.shape[1:] for part in parts}) == 1
        joined[name] = np.concatenate(parts) if fits else first
    return joined


def _explain_output(got: Array, want: Array, batched: bool) -> str | None:
    if got.shape == want.shape and not _apart(got, want):
        return None
    looks: tuple[Callable[[Array, Array], str | None], ...] = (
        _permuted, _reshaped, *([_rows_moved] if batched else []), _reversed, _squashed, _scaled,
    )  # fmt: skip
    return next((found for look in looks if (found := look(got, want))), None)


def _swapped(candidate: Answers, reference: Answers) -> str | None:
    """Outputs that carry each other's values, whether or not the names are the same."""
    moved: dict[str, str] = {}
    for name, got in candidate.items():
        own = reference.get(name)
        if own is not None and own.shape == got.shape and not _apart(got, own):
            continue
        twin = next((other for other, want in reference.items() if other != name and _matches(got, want, own)), None)
        if twin is not None:
            moved[name] = twin
    if not moved or (len(moved) == 1 and next(iter(moved)) in reference):
        return None  # one output that repeats another is no exchange
    pairs = [f"{name} holds the reference's {twin}" for name, twin in moved.items()]
    what = "the outputs are exchanged" if all(name in reference for name in moved) else "the outputs go by other names"
    return f"{what}: {', '.join(pairs)}"


def _permuted(got: Array, want: Array) -> str | None:
    if want.ndim > _MOST_AXES or sorted(got.shape) != sorted(want.shape):
        return None
    for order in permutations(range(want.ndim)):
        moved = np.transpose(want, order)
        if order != tuple(range(want.ndim)) and _matches(got, moved, want):
            return f"equals the reference after the axes permutation {order}: the layout was lost{_db(got, moved)}"
    return None


def _reshaped(got: Array, want: Array) -> str | None:
    if got.shape == want.shape or got.size != want.size or not _matches(got.ravel(), want.ravel(), None):
        return None
    return f"holds the reference's values in the shape {list(got.shape)} instead of {list(want.shape)}"


def _rows_moved(got: Array, want: Array) -> str | None:
    """Whether each sample got the answer of another one."""
    if got.shape != want.shape or got.ndim == 0 or len(want) < 2 or want[0].size < 2:
        return None
    x, y = (array[:_MOST_ROWS].reshape(min(len(array), _MOST_ROWS), -1).astype(np.float64) for array in (got, want))
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    nearest = [int(np.argmin(np.sum((y - row) ** 2, axis=1))) for row in x]
    # Few distinct numbers are soon another's.
    nearly_own = np.sum((x - y) ** 2) < _NEARLY * np.sum((y - y.mean(0)) ** 2)
    if nearly_own or not _matches(x, y[nearest], y):
        return None
    if len(set(nearest)) == 1:
        return f"gives every sample the answer to sample {nearest[0]}: the batch was lost"
    if sorted(nearest) != list(range(len(x))):
        return "gives some samples the answers to others: the batch was mixed up"
    shown = next(at for at, other in enumerate(nearest) if at != other)
    return f"holds the samples in another order: sample {shown} got the answer to sample {nearest[shown]}"


def _reversed(got: Array, want: Array) -> str | None:
    for axis in range(want.ndim):
        if got.shape == want.shape and _matches(got, np.flip(want, axis), want):
            return f"equals the reference with axis {axis} reversed{_db(got, np.flip(want, axis))}"
    return None


def _squashed(got: Array, want: Array) -> str | None:
    if got.shape != want.shape or got.dtype.kind != "f" or want.dtype.kind != "f" or not want.ndim:
        return None
    plain = _agreement_db(got, want)
    for words, x, y in _squashes(got.astype(np.float64), want.astype(np.float64)):
        if _better(_agreement_db(x, y), plain):
            return words
    return None


def _squashes(got: Array, want: Array) -> Iterator[tuple[str, Array, Array]]:
    yield "equals the softmax of the reference", got, _softmax(want)
    yield "lacks the softmax that the reference has", _softmax(got), want
    yield "equals the sigmoid of the reference", got, _sigmoid(want)
    yield "lacks the sigmoid that the reference has", _sigmoid(got), want


def _scaled(got: Array, want: Array) -> str | None:
    """A least squares line through (reference, candidate)."""
    if got.shape != want.shape or want.size < _LEAST_ELEMENTS:
        return None
    x, y = want.astype(np.float64).ravel(), got.astype(np.float64).ravel()
    finite = np.isfinite(x) & np.isfinite(y)
    if np.count_nonzero(finite) < _LEAST_ELEMENTS or np.ptp(x[finite]) == 0 or np.ptp(y[finite]) == 0:
        return None
    x, y = x[finite], y[finite]
    for words, line in _lines(x, y):
        if _matches(y, line, x):
            return words
    return None


def _lines(x: Array, y: Array) -> Iterator[tuple[str, Array]]:
    """Simplest first: a sign, a factor, an offset, both."""
    yield "is the reference with the opposite sign", -x
    factor = float(x @ y / (x @ x))
    yield f"is the reference times {factor:.4g}", factor * x
    offset = float(np.mean(y - x))
    yield f"is the reference plus {offset:.4g}", x + offset
    slope = float((x - x.mean()) @ (y - y.mean()) / ((x - x.mean()) @ (x - x.mean())))
    rest = float(y.mean() - slope * x.mean())
    yield f"is the reference times {slope:.4g} plus {rest:.4g}", slope * x + rest


def _matches(got: Array, guess: Array, before: Array | None) -> bool:
    """Whether `guess` is what the candidate gave, and a far better guess than the plain reference is."""
    return _better(_agreement_db(got, guess), None if before is None else _agreement_db(got, before))


def _better(found: float | None, plain: float | None) -> bool:
    return found is not None and found >= _MATCH_DB and (plain is None or found >= plain + _GAIN_DB)


def _apart(got: Array, want: Array) -> bool:
    """Whether two arrays of one shape differ by more than an fp32 copy may."""
    drift = compare(got, want)
    return drift.non_finite > 0 or drift.mismatches > 0 or (drift.sqnr_db is not None and drift.sqnr_db < 60)


def _agreement_db(got: Array, want: Array) -> float | None:
    """Signal to noise; BOUND_DB where there is no noise; None where shapes or the finite patterns differ."""
    if got.shape != want.shape:
        return None
    drift = compare(got, want)
    if drift.non_finite or not drift.finite:
        return None
    return BOUND_DB if drift.sqnr_db is None else drift.sqnr_db


def _db(got: Array, guess: Array) -> str:
    db = _agreement_db(got, guess)
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
