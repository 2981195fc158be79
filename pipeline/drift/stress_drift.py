"""The drift of answers to inputs that no sample holds: blank ones and stress, whose answers may be 0 or not steady."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from ...models.probes.evidence import Series
from ...models.probes.probe_set import Probe
from .noise_floor import UNSTEADY_DB, OutputNoise
from .numeric import OutputDrift


def drifts_to_judge(
    probe: Probe,
    drifts: Mapping[str, OutputDrift],
    usual: Series,
    steadiness: OutputNoise,
    truth: OutputNoise,
) -> dict[str, OutputDrift]:
    """Return the drifts of a probe as they are judged; `usual` are the reference's answers to samples, `truth`
    how well those to the probe agree with float64, rounded at random too.

    Their noise is held against the usual size of an output at least, because theirs may be 0: exp(x) - 1 loses all its
    bits beside 0. Rounding says which of equal scores is the largest, so integers of blank samples are not compared;
    those of stress are where the reference gives the same to inputs of other last bits. An output that rounding turns
    over as a whole (rows in the order of equal scores) is held to being finite alone.
    """
    if not (probe.is_blank or probe.is_stress):
        return dict(drifts)
    power = _mean_squares(usual)
    unsteady = {name for name, noise_db in truth.items() if noise_db < UNSTEADY_DB}
    equal = partial(replace, noise=0.0, max_abs=0.0, mismatches=0, by_scale=None)
    beside = {name: equal(drift) if name in unsteady else drift.beside(power[name]) for name, drift in drifts.items()}
    if probe.is_blank:
        return beside
    return {
        name: replace(drift, mismatches=0 if steadiness.get(name) == 0 else drifts[name].mismatches)
        for name, drift in beside.items()
    }


def describe_lost(where: str, count: int | None) -> str | None:
    """Say how many elements are not finite on one side only; None where that is not what differs."""
    return f"{where}: {count} elements are NaN or infinite on one side only" if count else None


def _mean_squares(calls: Series) -> dict[str, float]:
    """Return the mean square of each output."""
    squares = {name: [np.square(call[name].astype(np.float64)).ravel() for call in calls] for name in calls[0]}
    with np.errstate(invalid="ignore", over="ignore"):
        means = {name: float(np.nanmean(np.concatenate(arrays))) for name, arrays in squares.items()}
    return {name: mean if math.isfinite(mean) else 0.0 for name, mean in means.items()}
