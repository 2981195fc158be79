"""The drift of answers to inputs that no sample holds: blank ones and stress, whose answers may be 0 or not steady."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from ...models.dataset import Dataset
from ...models.probes.evidence import Answers, Series
from ...models.probes.probe_set import Probe
from ...models.signature import Array
from .noise_floor import MARGIN_DB, UNSTEADY_DB, Limit, OutputNoise
from .numbers.numeric import OutputDrift

# The drift of an output of which only that it is finite is held against a copy.
_as_equal = partial(replace, noise=0.0, max_abs=0.0, mismatches=0, by_scale=None)


def drifts_to_judge(
    probe: Probe,
    drifts: Mapping[str, OutputDrift],
    usual: Series,
    steadiness: OutputNoise,
    truth: OutputNoise,
    *,
    limits: Mapping[str, Limit],
) -> dict[str, OutputDrift]:
    """Return the drifts of a probe as they are judged; `usual` are the reference's answers to samples, `truth`
    how well those to the probe agree with float64, rounded at random too, `limits` those of the probe's outputs.

    Their noise is held against the usual size of an output at least, because theirs may be 0: exp(x) - 1 loses all its
    bits beside 0. Rounding says which of equal scores is the largest, so integers of blank samples are not compared;
    those of stress are where the reference gives the same to inputs of other last bits. An output that rounding turns
    over as a whole (rows in the order of equal scores) is held to being finite alone.
    """
    if probe.is_near:
        return _near_constants(drifts, limits)
    if not (probe.is_blank or probe.is_stress):
        return dict(drifts)
    power = _mean_squares(usual)
    unsteady = {name for name, noise_db in truth.items() if noise_db < UNSTEADY_DB}
    beside = {
        name: _as_equal(drift) if name in unsteady else drift.beside(power[name]) for name, drift in drifts.items()
    }
    if probe.is_blank:
        return beside
    return {
        name: replace(drift, mismatches=0 if steadiness.get(name) == 0 else drifts[name].mismatches)
        for name, drift in beside.items()
    }


def _near_constants(drifts: Mapping[str, OutputDrift], limits: Mapping[str, Limit]) -> dict[str, OutputDrift]:
    """Return the drifts of rows near constants as they are judged.

    No sample holds such rows. Where the model multiplies what is rounded in its answers to them, they tell a copy whose
    answers have nothing to do with the model's, and neither a small difference nor a small doubt.
    """
    unsteady = {name: limit.floor_db - MARGIN_DB for name, limit in limits.items() if limit.floor_db < UNSTEADY_DB}
    return {
        name: _as_equal(drift)
        if name in unsteady and (drift.sqnr_db is None or drift.sqnr_db >= max(0.0, unsteady[name]))
        else drift
        for name, drift in drifts.items()
    }


def is_finite_answer(answers: Series) -> bool:
    """Return whether every float of the answers is finite: a model that is asked NaN has then replaced it."""
    floats = (array for call in answers for array in call.values() if array.dtype.kind == "f")
    return all(np.isfinite(array).all() for array in floats)


def describe_replaced(calls: Iterable[tuple[Answers, Answers]]) -> str | None:
    """Say what a copy answers where the model's answers are not finite; None where both answer the same there.
    `calls`: the answers of the copy and of the model to each call."""
    kinds: dict[str, int] = {}
    for copy, model in calls:
        for name, wanted in model.items():
            if wanted.dtype.kind != "f":
                continue
            actual, nan = copy[name], np.isnan(wanted)
            numbers, other = np.isfinite(actual), ~np.isfinite(wanted) & (actual != wanted)
            for words, where in (
                ("numbers where the model answers NaN", nan & numbers),
                ("infinity where the model answers NaN", nan & np.isinf(actual)),
                ("numbers where the model answers infinity", ~nan & numbers & other),
                ("NaN or the other infinity where the model answers infinity", ~nan & ~numbers & other),
            ):
                kinds[words] = kinds.get(words, 0) + int(np.count_nonzero(where))
    counted = [f"{words} ({count} element{'s' * (count > 1)})" for words, count in kinds.items() if count]
    return f"answers {' and '.join(counted)}" if counted else None


def settle_moved(copy: Answers, model: Answers) -> dict[str, Array]:
    """Return the copy's answers with the model's in samples where the copy has lost or moved what is not finite.
    Sorting puts NaN first in one runtime and last in another, and so moves the numbers beside it. A sample keeps its
    own numbers where it is not finite in the same places, or in more places than the model's. Samples lie along axis 0.
    """
    settled = dict(copy)
    for name, wanted in model.items():
        if wanted.dtype.kind != "f" or not wanted.ndim:
            continue
        theirs, own = (~np.isfinite(array).reshape(len(array), -1) for array in (wanted, copy[name]))
        moved = (theirs & ~own).any(axis=1) & (own.sum(axis=1) <= theirs.sum(axis=1))
        settled[name] = np.where(moved.reshape(-1, *[1] * (wanted.ndim - 1)), wanted, copy[name])
    return settled


def settle_undefined(copy: Answers, model: Answers, feeds: Mapping[str, Array]) -> tuple[Answers, str | None]:
    """Return the copy's answers as `settle_moved` does, in samples alone whose inputs hold NaN or infinities, and what
    it answers there itself. Its own, unchanged, where inputs and outputs have not all their samples along axis 0."""
    floats = [array for array in feeds.values() if array.dtype.kind == "f" and array.ndim]
    lengths = {len(array) if array.ndim else 0 for array in (*floats, *model.values())}
    if len(lengths) != 1 or all(np.isfinite(array).all() for array in floats):
        return copy, None
    undefined = np.any([~np.isfinite(array).reshape(len(array), -1).all(axis=1) for array in floats], axis=0)
    settled = settle_moved(copy, model)
    kept = {
        name: np.where(undefined.reshape(-1, *[1] * (array.ndim - 1)), settled[name], array)
        for name, array in copy.items()
    }
    own, wanted = ({name: array[undefined] for name, array in side.items()} for side in (copy, model))
    return kept, describe_replaced([(own, wanted)])


def describe_place(probe: Probe, data: Dataset) -> str:
    """Name the first place of each input that is not finite, as "x[0, 4] = nan"."""
    first = {name: np.argwhere(~np.isfinite(data.inputs[name]))[0] for name in probe.fills}
    words = (f"{name}{[int(at) for at in place]} = {data.inputs[name][tuple(place)]}" for name, place in first.items())
    return ", ".join(words)


def _mean_squares(calls: Series) -> dict[str, float]:
    """Return the mean square of each output."""
    squares = {name: [np.square(call[name].astype(np.float64)).ravel() for call in calls] for name in calls[0]}
    with np.errstate(invalid="ignore", over="ignore"):
        means = {name: float(np.nanmean(np.concatenate(arrays))) for name, arrays in squares.items()}
    return {name: mean if math.isfinite(mean) else 0.0 for name, mean in means.items()}
