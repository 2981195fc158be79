"""The noise floor of a reference: how well it agrees with itself and with float64, and the limits that follow from it.

A right copy of a float32 model rounds in another order, and so differs from the model about as much as the model's
answers differ from their truth in float64. What differs by far more computes something else. docs/design/drift.md has
the measurements behind each number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, islice
from typing import TypeAlias

import numpy as np

from ...models.dataset import Dataset
from ...models.probes.evidence import Answers, Series
from ...models.probes.probe_set import Probe
from ...models.signature import Array
from .numbers.column_drift import ColumnAxes
from .numbers.numeric import OutputDrift, compare

MARGIN_DB = 35.0  # below the floor: 152 models of the zoo and their right copies in three formats needed 31
LEAST_DB, MOST_DB = 30.0, 120.0  # a limit lies between them
UNSTEADY_DB = LEAST_DB + MARGIN_DB  # a floor below it leaves no room for the margin
EXACT_DB = MOST_DB + MARGIN_DB  # stands for no noise at all
_UNSEEN_DB = 130.0  # without float64 the floor is no higher: rounding inside the model was not seen
_ROUNDING_DB = 60.0  # two answers that agree less differ by more than rounding
_TRUSTED_DB = 40.0  # that float64 may lie below the rest; a model that lies further below computes something else in it

_NOISE_CALLS = 8  # of a probe whose calls are unlike
OutputNoise: TypeAlias = Mapping[str, float]  # dB by output of floats


class Cause(StrEnum):
    """What the reference's answers were compared with."""

    FLOAT64 = "float64"
    LAST_BITS = "last bits"  # of its inputs
    BATCH_SPLIT = "batch split"  # the same samples one by one


_PHRASES = {
    Cause.FLOAT64: "beside float64",
    Cause.LAST_BITS: "where its inputs differ in their last bits",
    Cause.BATCH_SPLIT: "where a batch is asked sample by sample",
}


@dataclass(frozen=True)
class Limit:
    """The least agreement of an output, in dB, and the floor that it was derived from."""

    sqnr_db: float
    floor_db: float
    cause: Cause

    def at_most(self, sqnr_db: float) -> Limit:
        """Return the same limit, or `sqnr_db` where that is lower."""
        return replace(self, sqnr_db=min(self.sqnr_db, sqnr_db))

    def for_inputs(self, times: float) -> Limit:
        """Return the limit where inputs have so many times the elements that the floor was measured at.
        Sums over them round more: the error of n terms grows as the square root of n where rounding is random (Higham
        and Mary, "A New Approach to Probabilistic Rounding Error Analysis", 2019)."""
        return replace(self, sqnr_db=max(LEAST_DB, self.sqnr_db - 10 * math.log10(max(1.0, times))))

    @property
    def derivation(self) -> str:
        """How the limit came about, as a clause."""
        floor = "exactly" if self.floor_db >= EXACT_DB else f"to {self.floor_db:.0f} dB"
        return f"the model itself agrees {floor} {_PHRASES[self.cause]}"


def measure_noise(answers: Answers, reference: Answers, axes: ColumnAxes | None = None) -> OutputNoise:
    """Return how well two answers to the same inputs agree, by output of floats, and by hidden column along `axes`;
    EXACT_DB where they are equal."""
    axes = axes or {}
    floats = {name: array for name, array in reference.items() if array.dtype.kind == "f"}
    return noise_of({name: compare(answers[name], array, axes=axes.get(name, ())) for name, array in floats.items()})


def measure_steadiness(nudged: Series, answers: Series) -> OutputNoise:
    """Return how well answers agree with those to inputs of other last bits; an output of integers that changed: 0."""
    noises = []
    for call, wanted in zip(nudged, answers, strict=True):
        exact = {name: array for name, array in wanted.items() if array.dtype.kind != "f"}
        changed = {name: 0.0 for name, array in exact.items() if not np.array_equal(call[name], array)}
        noises.append({**measure_noise(call, wanted), **changed})
    return worst_noise(noises)


def noise_calls(probe: Probe, rows: Dataset) -> list[Array]:
    """Return the calls of a probe that its noise is measured by: the first, and more where rows are unlike."""
    return [*islice(probe.rows(rows), _NOISE_CALLS if probe.is_near else 1)]


def worst_noise(noises: Iterable[OutputNoise]) -> OutputNoise:
    """Return the least agreement of each output."""
    worst: dict[str, float] = {}
    for noise in noises:
        worst |= {name: min(noise_db, worst.get(name, noise_db)) for name, noise_db in noise.items()}
    return worst


def noise_of(drifts: Mapping[str, OutputDrift]) -> OutputNoise:
    """Return the noise of drifts by output; an output that is finite on one side only has none that means something."""
    finite = {name: drift for name, drift in drifts.items() if not drift.non_finite}
    columns = (sums.floors_db(name, _UNSEEN_DB) for name, drift in finite.items() for sums in drift.columns)
    outputs = {name: min(EXACT_DB, EXACT_DB if (db := drift.sqnr_db) is None else db) for name, drift in finite.items()}
    return {**outputs, **dict(chain.from_iterable(columns))}


def measure_batch_split(largest: Series, single: Series, axes: ColumnAxes | None = None) -> OutputNoise:
    """Return how well batched answers agree with those to the same samples one by one.

    Empty for outputs without samples along axis 0, and where samples influence each other, which is no rounding.
    """
    batched, split = _join_samples(largest), _join_samples(single)
    rows = {name: min(len(array), len(split[name])) for name, array in batched.items() if name in split}
    shared = {name: count for name, count in rows.items() if batched[name].shape[1:] == split[name].shape[1:]}
    first, second = ({name: side[name][:count] for name, count in shared.items()} for side in (batched, split))
    noise = measure_noise(first, second, axes)
    return {name: noise_db for name, noise_db in noise.items() if noise_db >= _ROUNDING_DB}


def _join_samples(series: Series) -> dict[str, Array]:
    """Join the outputs that have samples along axis 0, of one shape in all calls."""
    calls = {name: [call[name] for call in series] for name in series[0]}
    return {
        name: np.concatenate(arrays)
        for name, arrays in calls.items()
        if arrays[0].ndim and len({array.shape[1:] for array in arrays}) == 1
    }


def derive_limits(noise: Mapping[Cause, OutputNoise]) -> dict[str, Limit]:
    """Derive the limit of each output: MARGIN_DB below its floor, within LEAST_DB and MOST_DB.

    The floor is the lowest of the causes. Outputs of which nothing is known have no limit here.
    """
    outputs = dict.fromkeys(name for by_output in noise.values() for name in by_output)
    floors = {name: _floor({cause: noise[cause][name] for cause in noise if name in noise[cause]}) for name in outputs}
    return {
        name: Limit(min(MOST_DB, max(LEAST_DB, floor_db - MARGIN_DB)), floor_db, cause)
        for name, (floor_db, cause) in floors.items()
        if floor_db < EXACT_DB or cause is Cause.FLOAT64  # answers that agree with themselves exactly tell nothing
    }


def _floor(by_cause: Mapping[Cause, float]) -> tuple[float, Cause]:
    own: dict[Cause, float] = {cause: by_cause[cause] for cause in by_cause if cause is not Cause.FLOAT64}
    own_db = min(own.values(), default=EXACT_DB)
    truth_db = by_cause.get(Cause.FLOAT64)
    if own_db == EXACT_DB:
        return (EXACT_DB, Cause.LAST_BITS) if truth_db is None else (truth_db, Cause.FLOAT64)
    if truth_db is not None and truth_db >= min(own_db, _UNSEEN_DB) - _TRUSTED_DB:
        return _lowest(by_cause)
    floor_db, cause = _lowest(own)
    return min(floor_db, _UNSEEN_DB), cause


def _lowest(by_cause: Mapping[Cause, float]) -> tuple[float, Cause]:
    return min((noise_db, cause) for cause, noise_db in by_cause.items())
