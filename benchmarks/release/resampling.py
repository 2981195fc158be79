"""How often the verdict on a release's metric is right: fresh test sets of models whose true metric is known.

Equal models have the same true metric and differ in single answers; worse ones lose twice the smallest loss that a test
set of equal models shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from transload.models.signature import Array
from transload.pipeline.drift.metrics.corpus_intervals import replicate
from transload.pipeline.drift.metrics.metric_kinds import MetricKind
from transload.pipeline.drift.metrics.outcomes import Outcome, SampleScores, paired_gain, value_interval
from transload.pipeline.result.compare.change_records import Change
from transload.pipeline.result.compare.compare_limits import CompareLimits
from transload.pipeline.result.compare.judge import difference
from transload.pipeline.result.compare.release_metric import judge_gain

Draw = Callable[[np.random.Generator, int, float], tuple[Array, Array]]  # (rng, samples, loss) -> scores of both


@dataclass(frozen=True)
class Kind:
    """A metric and how the scores of two models are drawn."""

    name: str
    draw: Draw
    unit: str = "share"
    higher_is_better: bool = True
    corpus: bool = False  # the root of the mean square, by its resamples

    @property
    def metric(self) -> MetricKind:
        """The metric's unit and direction."""
        return MetricKind(self.name, self.unit, self.higher_is_better)


def _bits(rng: np.random.Generator, samples: int, loss: float, *, right: float, other: float) -> tuple[Array, Array]:
    """Draw right answers of two models: `other` of the samples are judged differently, beside the loss."""
    old = rng.random(samples) < right
    swapped = rng.random(samples) < other / 2 / np.where(old, right, 1 - right)
    new = old ^ swapped
    new &= rng.random(samples) >= loss / right
    return old * 1.0, new * 1.0


def _errors(rng: np.random.Generator, samples: int, loss: float) -> tuple[Array, Array]:
    """Draw absolute errors, of mean 1, which share three quarters of their logarithm's variance."""
    shared, own = rng.normal(size=samples), rng.normal(size=(2, samples))
    old, new = np.exp(0.8 * (np.sqrt(0.75) * shared + 0.5 * own) - 0.32)
    return old, new * (1 + loss)


KINDS = (
    Kind("accuracy 95 %", lambda *a: _bits(*a, right=0.95, other=0.03)),
    Kind("accuracy 70 %", lambda *a: _bits(*a, right=0.7, other=0.1)),
    Kind("accuracy of a rare class 99 %", lambda *a: _bits(*a, right=0.99, other=0.005)),
    Kind("mae", _errors, "", higher_is_better=False),
    Kind("rmse", _errors, "", higher_is_better=False, corpus=True),
)


def judge_kind(kind: Kind, samples: int, draws: int, *, paired: bool, seed: int) -> dict[str, Any]:
    """Return how often equal models are called worse, and how often a loss of twice the MDE is."""
    rng = np.random.default_rng(seed)
    verdicts, losses = [], []
    for _ in range(draws):
        verdict, loss = _compare(kind, rng, samples, 0.0, paired=paired)
        verdicts.append(verdict)
        losses.append(loss)
    twice = 2 * float(np.median(losses))
    if kind.unit == "share" and twice >= 0.5:
        return {"kind": kind.name, "samples": samples, "paired": paired, "left_out": "twice the MDE is half of all"}
    found = [_compare(kind, rng, samples, twice, paired=paired)[0] is Change.WORSE for _ in range(draws)]
    return {
        "kind": kind.name, "samples": samples, "paired": paired, "draws": draws, "mde": twice / 2,
        "equal_called_worse": sum(verdict is Change.WORSE for verdict in verdicts) / draws,
        "equal_inconclusive": sum(verdict is Change.INCONCLUSIVE for verdict in verdicts) / draws,
        "loss_found": sum(found) / draws,
    }  # fmt: skip


def _compare(kind: Kind, rng: np.random.Generator, samples: int, loss: float, *, paired: bool) -> tuple[Change, float]:
    """Judge one pair of test sets as a comparison of releases does; return the smallest detectable loss, too."""
    scores = kind.draw(rng, samples, loss)
    if not paired:
        scores = scores[0], kind.draw(rng, samples, loss)[1]
    old, new = (_outcome(kind, side) for side in scores)
    gain = (
        paired_gain(old, new)
        if paired
        else difference((old.value, value_interval(old)), (new.value, value_interval(new)))[1]
    )
    limit, _ = CompareLimits().loss_limit(old.value, kind.unit, higher_is_better=kind.higher_is_better)
    judged = judge_gain((old.value, new.value), gain, limit, kind.metric, samples)
    return judged.verdict, judged.detectable_loss or 1.0


def _outcome(kind: Kind, scores: Array) -> Outcome:
    if not kind.corpus:
        return SampleScores(scores)
    squares = scores**2
    return replicate(lambda weights: np.sqrt(weights @ squares / weights.sum(axis=1)), len(scores), len(scores))
