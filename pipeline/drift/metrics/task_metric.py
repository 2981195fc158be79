"""A task's metric of a reference and a candidate on the same samples: fed call by call, asked for a row at the end.

What is kept is small: a score of each sample, or sums of groups of them, which give the metric of all samples exactly.
Only rankings and a user's function keep a sample's numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from ....models.errors import BadRequest
from ....models.probes.evidence import Answers
from ....models.signature import Array
from .corpus_intervals import GROUPS, Value, replicate
from .equivalence import detectable_loss, mcnemar, samples_needed
from .metric_kinds import SHARE, MetricKind
from .outcomes import Outcome, SampleScores, paired_gain
from .paired_intervals import is_binary, won_and_lost


@dataclass(frozen=True, eq=False)
class PairedResult:
    """A metric of both sides: result.MetricRow as JSON values, and what a later release is compared by."""

    row: dict[str, Any]
    reference: Outcome
    candidate: Outcome


class PairedAnswers(Protocol):
    """Both sides' answers of one probe, as far as a metric needs them."""

    def add(self, reference: Answers, candidate: Answers, labels: Array) -> None:
        """Add one call, with samples along axis 0. Raises BadRequest where the metric does not take it."""

    def result(self, allowed_loss: float | None) -> PairedResult:
        """Return the row and both outcomes. Raises BadRequest where the metric has no value."""


class TaskMetric(Protocol):
    """A metric of the task."""

    def open(self, labels: Array, reference: Iterable[Answers]) -> PairedAnswers:
        """Begin with the labels of all samples and all answers of the reference, which say how answers are read.
        Raises BadRequest where the two do not go together."""


def metric_row(
    kind: MetricKind, outcomes: tuple[Outcome, Outcome], allowed_loss: float | None, *, p_value: float | None = None
) -> dict[str, Any]:
    """Return a result.MetricRow as JSON values, of the outcomes of the reference and of the candidate.
    Raises BadRequest where a side has no finite value."""
    before, after = outcomes
    sides, samples = (before.value, after.value), before.samples
    for side, value in zip(("reference", "candidate"), sides, strict=True):
        if not np.isfinite(value):
            raise BadRequest(
                f"the metric {kind.name} has no finite value for the {side}",
                fix="give samples of every class, or another metric",
            )
    reference, candidate = sides
    row: dict[str, Any] = {
        "name": kind.name,
        "reference": reference,
        "candidate": candidate,
        "delta": candidate - reference,
        "ci95": list(paired_gain(before, after)),
        "unit": kind.unit,
        "higher_is_better": kind.higher_is_better,
        "p_value": p_value,
    }
    alike = reference == candidate and p_value in (None, 1.0)
    needed = samples_needed(samples, row, allowed_loss, alike=alike)
    return {**row, "samples_needed": needed, "detectable_loss": detectable_loss(samples, row, allowed_loss)}


@dataclass
class PairedScores:
    """Scores of a sample, whose mean is the metric."""

    kind: MetricKind
    score: Callable[[Answers, Array], Array]  # (answers, labels) -> (samples,)
    is_unit_known: bool = True  # else scores of 0 and 1 are a share
    sides: tuple[list[Array], list[Array]] = field(default_factory=lambda: ([], []))

    def add(self, reference: Answers, candidate: Answers, labels: Array) -> None:
        """Score one call of both sides."""
        for scores, answers in zip(self.sides, (reference, candidate), strict=True):
            scores.append(np.array(self.score(answers, labels)))  # a view would keep what it is of

    def result(self, allowed_loss: float | None) -> PairedResult:
        """Return the means, with the interval of their paired difference."""
        reference, candidate = (_scores(self.kind.name, np.concatenate(scores)) for scores in self.sides)
        if reference.shape != candidate.shape:
            raise BadRequest(
                f"the metric {self.kind.name} gave {len(reference)} and {len(candidate)} scores for the same samples",
                fix="let the metric return one score a sample",
            )
        binary = is_binary(reference) and is_binary(candidate)
        kind = replace(self.kind, unit=SHARE) if binary and not self.is_unit_known else self.kind
        outcomes = SampleScores(reference), SampleScores(candidate)
        p_value = mcnemar(*won_and_lost(reference, candidate)) if binary else None
        return PairedResult(metric_row(kind, outcomes, allowed_loss, p_value=p_value), *outcomes)


def _scores(name: str, scores: Array) -> Array:
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1 or not len(scores):
        raise BadRequest(
            f"the metric {name} gave scores of the shape {list(scores.shape)}", fix="let it return one score a sample"
        )
    bad = int(np.count_nonzero(~np.isfinite(scores)))
    if bad:
        raise BadRequest(
            f"the metric {name} gave no finite score for {bad} of {len(scores)} samples",
            fix="let it return a finite number for every sample, whatever the outputs hold",
        )
    return scores


@dataclass
class PairedSums:
    """Rows of a sample, of both sides beside each other, and the metric as a function of their sums.

    Above 4,096 samples the rows are summed in as many random groups, the same for both sides: the metric stays exact,
    and resampling groups has the variance of resampling samples.
    """

    kind: MetricKind
    rows: Callable[[Answers, Array], Array]  # (answers, labels) -> (samples, columns)
    value: Callable[[Array], Array]  # sums (..., columns) -> (...)
    parts: list[Array] = field(default_factory=list)
    sums: Array | None = None  # of the groups, once there are more samples than groups
    samples: int = 0

    def add(self, reference: Answers, candidate: Answers, labels: Array) -> None:
        """Add the rows of one call."""
        self.parts.append(np.concatenate([self.rows(side, labels) for side in (reference, candidate)], axis=1))
        self.samples += len(labels)
        if sum(map(len, self.parts)) > GROUPS:
            self._fold()

    def _fold(self) -> None:
        """Add the rows to random groups, which depend on a sample's number alone: so do those of other models."""
        rows = np.concatenate(self.parts)
        groups = random_groups(self.samples - len(rows), len(rows), GROUPS)
        self.sums = np.zeros((GROUPS, rows.shape[1])) if self.sums is None else self.sums
        np.add.at(self.sums, groups, rows)
        self.parts.clear()

    def result(self, allowed_loss: float | None) -> PairedResult:
        """Return the metric of both sides, with the interval of the difference."""
        if self.sums is not None and self.parts:
            self._fold()
        rows = np.concatenate(self.parts) if self.sums is None else self.sums
        halves = np.split(rows, 2, axis=1)
        values = [partial(self._value_of, half) for half in halves]
        return _of_corpus(self.kind, values, (len(rows), self.samples), allowed_loss)

    def _value_of(self, rows: Array, weights: Array) -> Array:
        with np.errstate(all="ignore"):
            return self.value(weights @ rows)


@dataclass
class PairedRankings:
    """Scores of every sample, which are ranked as a whole."""

    kind: MetricKind
    rows: Callable[[Answers, Array], Array]
    value: Callable[[Array, Array], Array]  # rows, weights (resamples, samples) -> (resamples,)
    parts: tuple[list[Array], list[Array]] = field(default_factory=lambda: ([], []))

    def add(self, reference: Answers, candidate: Answers, labels: Array) -> None:
        """Add the scores of one call."""
        for rows, side in zip(self.parts, (reference, candidate), strict=True):
            rows.append(self.rows(side, labels))

    def result(self, allowed_loss: float | None) -> PairedResult:
        """Return the metric of both sides, with the interval of the difference."""
        values = [partial(self.value, np.concatenate(rows)) for rows in self.parts]
        samples = sum(map(len, self.parts[0]))
        return _of_corpus(self.kind, values, (samples, samples), allowed_loss)


def _of_corpus(
    kind: MetricKind, values: Sequence[Value], counts: tuple[int, int], allowed_loss: float | None
) -> PairedResult:
    """Return the result of a metric of all samples. `counts`: of what is weighted (samples, or groups), of samples."""
    reference, candidate = (replicate(value, *counts) for value in values)
    return PairedResult(metric_row(kind, (reference, candidate), allowed_loss), reference, candidate)


def random_groups(first: int, count: int, groups: int) -> Array:
    """Return the random groups of the samples first .. first + count - 1; a sample's depends on its number alone.
    The finaliser of splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014)."""
    state = (np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((state ^ (state >> np.uint64(31))) % np.uint64(groups)).astype(np.int64)
