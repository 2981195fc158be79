"""A task's metric of a reference and a candidate on the same samples: fed call by call, asked for a row at the end.

What is kept is small and may be merged: scores of samples, or sums of groups of them, which give the metric of all
samples exactly. Only rankings and a user's function keep a sample's numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from ....models.errors import BadRequest
from ....models.probes.evidence import Answers
from ....models.signature import Array
from .corpus_intervals import Difference, bootstrap_interval, jackknife_interval, unseen_interval
from .equivalence import mcnemar, samples_needed
from .metric_kinds import SHARE, MetricKind
from .paired_intervals import LARGE, PairedSpread

GROUPS = 4096  # of samples: sums of more samples than this are put together at random


class PairedAnswers(Protocol):
    """Both sides' answers of one probe, as far as a metric needs them."""

    def add(self, reference: Answers, candidate: Answers, labels: Array) -> None:
        """Add one call, with samples along axis 0. Raises BadRequest where the metric does not take it."""

    def row(self, allowed_loss: float | None) -> dict[str, Any]:
        """Return result.MetricRow as JSON values. Raises BadRequest where the metric has no value."""


class TaskMetric(Protocol):
    """A metric of the task."""

    def open(self, labels: Array, reference: Iterable[Answers]) -> PairedAnswers:
        """Begin with the labels of all samples and all answers of the reference, which say how answers are read.
        Raises BadRequest where the two do not go together."""


def metric_row(
    kind: MetricKind,
    sides: tuple[float, float],
    ci95: tuple[float, float],
    samples: int,
    allowed_loss: float | None,
    *,
    p_value: float | None = None,
) -> dict[str, Any]:
    """Return a result.MetricRow as JSON values.
    Raises BadRequest where a side has no finite value."""
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
        "ci95": list(ci95),
        "unit": kind.unit,
        "higher_is_better": kind.higher_is_better,
        "p_value": p_value,
    }
    alike = reference == candidate and p_value in (None, 1.0)
    return {**row, "samples_needed": samples_needed(samples, row, allowed_loss, alike=alike)}


@dataclass
class PairedScores:
    """Scores of a sample, whose mean is the metric. Of more than are resampled only sums are kept."""

    kind: MetricKind
    score: Callable[[Answers, Array], Array]  # (answers, labels) -> (samples,)
    is_unit_known: bool = True  # else scores of 0 and 1 are a share
    sides: tuple[list[Array], list[Array]] = field(default_factory=lambda: ([], []))
    spread: PairedSpread | None = None  # of all scores that are no longer in `sides`

    def add(self, reference: Answers, candidate: Answers, labels: Array) -> None:
        """Score one call of both sides."""
        for scores, answers in zip(self.sides, (reference, candidate), strict=True):
            scores.append(np.array(self.score(answers, labels)))  # a view would keep what it is of
        if sum(map(len, self.sides[0])) > LARGE:
            self._fold()

    def _fold(self) -> PairedSpread:
        """Add the scores to the sums. Raises BadRequest where they are none that can be paired."""
        reference, candidate = (_scores(self.kind.name, np.concatenate(scores)) for scores in self.sides)
        if reference.shape != candidate.shape:
            raise BadRequest(
                f"the metric {self.kind.name} gave {len(reference)} and {len(candidate)} scores for the same samples",
                fix="let the metric return one score a sample",
            )
        spread = PairedSpread.of(reference, candidate)
        self.spread = spread if self.spread is None else self.spread.merge(spread)
        for scores in self.sides:
            scores.clear()
        return self.spread

    def row(self, allowed_loss: float | None) -> dict[str, Any]:
        """Return the means, with the interval of their paired difference."""
        spread = self._fold() if self.sides[0] or self.spread is None else self.spread
        kind = replace(self.kind, unit=SHARE) if spread.binary and not self.is_unit_known else self.kind
        return metric_row(
            kind,
            (spread.reference / spread.samples, spread.candidate / spread.samples),
            spread.interval(),
            spread.samples,
            allowed_loss,
            p_value=mcnemar(spread.won, spread.lost) if spread.binary else None,
        )


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
        """Add the rows to random groups."""
        rows = np.concatenate(self.parts)
        groups = np.random.default_rng(self.samples).integers(GROUPS, size=len(rows))
        self.sums = np.zeros((GROUPS, rows.shape[1])) if self.sums is None else self.sums
        np.add.at(self.sums, groups, rows)
        self.parts.clear()

    def row(self, allowed_loss: float | None) -> dict[str, Any]:
        """Return the metric of both sides, with the interval of the difference."""
        if self.sums is not None and self.parts:
            self._fold()
        rows = np.concatenate(self.parts) if self.sums is None else self.sums
        reference, candidate = (partial(self._value_of, half) for half in np.split(rows, 2, axis=1))
        every = np.ones((1, len(rows)))
        sides = float(reference(every)[0]), float(candidate(every)[0])
        ci95 = paired_interval_of(reference, candidate, len(rows))
        return metric_row(self.kind, sides, ci95, self.samples, allowed_loss)

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

    def row(self, allowed_loss: float | None) -> dict[str, Any]:
        """Return the metric of both sides, with the interval of the difference."""
        reference, candidate = (partial(self.value, np.concatenate(rows)) for rows in self.parts)
        samples = sum(map(len, self.parts[0]))
        every = np.ones((1, samples))
        sides = float(reference(every)[0]), float(candidate(every)[0])
        return metric_row(self.kind, sides, paired_interval_of(reference, candidate, samples), samples, allowed_loss)


def paired_interval_of(reference: Difference, candidate: Difference, samples: int) -> tuple[float, float]:
    """Return the 95 % interval of the difference of two values of weighted samples.
    Up to 4,096 samples are resampled; of more, which only rankings have, groups are left out."""

    def difference(weights: Array) -> Array:
        return candidate(weights) - reference(weights)

    interval = (bootstrap_interval if samples <= GROUPS else jackknife_interval)(difference, samples)
    if interval is not None:
        return interval
    return unseen_interval(float(difference(np.ones((1, samples)))[0]), reference, samples)
