"""What one model's answers were worth on a test set, as two releases are compared by it: outcomes.npz.

A metric that is the mean of scores keeps the score of each sample; one of all samples together keeps its resamples.
Keys are `ARTIFACT|RUNTIME|FIELD`, and `samples||inputs`, `samples||labels` for the digests of the test samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ....models.array_file import read_arrays, write_arrays
from ....models.errors import BadRequest
from ....models.signature import Array
from .corpus_intervals import Replicates
from .paired_intervals import own_interval, paired_interval

OUTCOMES = "outcomes.npz"
SOURCE = ("source", "torch")  # the key of the source itself
COPY = ("copy", "")  # that of the copy, in the file of a single check
_SAMPLES = ("samples", "")
_SCORES = "scores"
Pair = tuple[str, str]  # artifact, runtime


@dataclass(frozen=True, eq=False)
class SampleScores:
    """One score a sample, shape (samples,): the metric is their mean."""

    scores: Array

    @property
    def value(self) -> float:
        """The metric."""
        return float(np.mean(self.scores, dtype=np.float64))

    @property
    def samples(self) -> int:
        """How many samples were scored."""
        return len(self.scores)


Outcome: TypeAlias = SampleScores | Replicates


def paired_gain(before: Outcome, after: Outcome) -> tuple[float, float]:
    """Return the 95 % interval of after - before, of two outcomes on the same samples in the same order.
    Raises ValueError where the two are of different forms."""
    if isinstance(before, SampleScores) and isinstance(after, SampleScores):
        return paired_interval(before.scores, after.scores)
    if isinstance(before, Replicates) and isinstance(after, Replicates):
        return after.minus(before).interval(before.unseen_reach)
    raise ValueError("a metric of scores and one of all samples together are not paired")


def value_interval(outcome: Outcome) -> tuple[float, float]:
    """Return the 95 % interval of one model's metric."""
    return own_interval(outcome.scores) if isinstance(outcome, SampleScores) else outcome.interval(outcome.unseen_reach)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes of a run's models, and the digests of the samples that they were asked.
    `digests`: for each sample 64 bits of its inputs, and of its labels; empty where the run kept none."""

    outcomes: Mapping[Pair, Outcome] = field(default_factory=dict)
    digests: Mapping[str, Array] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the file; nothing where there is no outcome."""
        arrays = {"|".join((*_SAMPLES, name)): array for name, array in self.digests.items()}
        for pair, outcome in self.outcomes.items():
            arrays |= {"|".join((*pair, name)): array for name, array in _fields(outcome).items()}
        if self.outcomes:
            write_arrays(path, arrays)


def _fields(outcome: Outcome) -> dict[str, Array]:
    if isinstance(outcome, SampleScores):
        scores = outcome.scores
        return {_SCORES: scores.astype(np.uint8) if np.isin(scores, (0, 1)).all() else scores}
    facts = np.array([outcome.value, outcome.samples], np.float64)
    return {"value": facts, "draws": outcome.draws, "influences": outcome.influences}


def read_outcomes(folder: Path) -> Outcomes:
    """Read what a folder keeps of outcomes; nothing where it has no such file.
    Raises BadRequest where the file is none of ours."""
    path = folder / OUTCOMES
    if not path.is_file():
        return Outcomes()
    by_pair: dict[Pair, dict[str, Array]] = {}
    for key, array in read_arrays(path).items():
        artifact, _, rest = key.partition("|")
        runtime, _, name = rest.partition("|")
        by_pair.setdefault((artifact, runtime), {})[name] = array
    digests = by_pair.pop(_SAMPLES, {})
    try:
        return Outcomes({pair: _outcome(fields) for pair, fields in by_pair.items()}, digests)
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise BadRequest(
            f"{path} holds no outcomes: {error!r}", fix="run again: what is finished is not repeated"
        ) from error


def _outcome(fields: Mapping[str, Array]) -> Outcome:
    """Return an outcome from its arrays, whose form anybody may have written."""
    vectors = [np.asarray(array, np.float64) for array in fields.values()]
    if any(vector.ndim != 1 for vector in vectors):
        raise ValueError("an array of outcomes has one axis")
    if _SCORES in fields:
        scores = np.asarray(fields[_SCORES], np.float64)
        if not len(scores) or not np.isfinite(scores).all():
            raise ValueError("scores are finite numbers")
        return SampleScores(scores)
    value, samples = (float(number) for number in fields["value"])
    draws, influences = (np.asarray(fields[name], np.float64) for name in ("draws", "influences"))
    return Replicates(value, draws, influences, int(samples))
