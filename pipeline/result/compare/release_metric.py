"""The task's metric of two releases: the new source against the old one, each new copy against the old copy.

Paired where both runs were asked the same samples with the same labels, in whatever order; else by the intervals of
both, which is said. Formulas: docs/design/compare.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ....models.signature import Array
from ...drift.metrics.equivalence import Z95, Z99_5, detectable_loss, samples_needed
from ...drift.metrics.metric_kinds import SHARE, MetricKind
from ...drift.metrics.metric_text import format_loss, format_value
from ...drift.metrics.outcomes import SOURCE, Outcome, Outcomes, Pair, SampleScores, paired_gain, value_interval
from ...drift.metrics.paired_intervals import own_interval
from ...drift.metrics.sample_digests import sample_order
from ..schema import MetricRow, RunResult
from .change_records import Change, FigureChange, FigureKind, Interval
from .compare_limits import CompareLimits
from .judge import difference


@dataclass(frozen=True)
class Release:
    """A run, and what it kept of its answers to the test set."""

    run: RunResult
    outcomes: Outcomes = field(default_factory=Outcomes)


@dataclass(frozen=True)
class Score:
    """One model's metric on the test set of its run."""

    metric: MetricRow
    value: float
    samples: int
    sha256: str | None  # of the model

    @property
    def unit(self) -> str:
        """The metric's unit; files from before units had shares."""
        return SHARE if self.metric.unit is None else self.metric.unit


@dataclass(frozen=True)
class _Gain:
    """The 95 % interval of after - before, None where nothing gives one; `why` it is not paired, empty where it is."""

    interval: Interval | None
    why: str


def compare_scores(before: Release, after: Release, limits: CompareLimits) -> Iterator[FigureChange]:
    """Yield a row for the source, then one for each artifact in each runtime that both runs scored."""
    old, new = (scores_of(release.run) for release in (before, after))
    for pair in (pair for pair in new if pair in old):
        yield _compare(pair, (old[pair], new[pair]), (before, after), limits)


def scores_of(run: RunResult) -> dict[Pair, Score]:
    """Return the metric of the source, and of each artifact in each runtime, on the whole test set."""
    scores: dict[Pair, Score] = {}
    digests = {row.name: row.sha256 for row in run.artifacts}
    for row in run.drift:
        if (metric := row.metric) is not None:  # the row of the whole test set
            sha256 = run.source.sha256 if run.source else digests.get("pt2")
            scores.setdefault(SOURCE, Score(metric, metric.reference, row.samples, sha256))
            pair = row.artifact, row.runtime
            scores.setdefault(pair, Score(metric, metric.candidate, row.samples, digests.get(row.artifact)))
    return scores


def _compare(
    pair: Pair, scores: tuple[Score, Score], releases: tuple[Release, Release], limits: CompareLimits
) -> FigureChange:
    old, new = scores
    subject = "the new source against the old source" if pair == SOURCE else "the new copy against the old copy"
    limit, limit_words = limits.loss_limit(old.value, new.unit, higher_is_better=new.metric.higher_is_better)
    row = FigureChange(
        pair[0], None if pair == SOURCE else pair[1], None, FigureKind.METRIC, old.value, new.value, None, None, limit,
        Change.NOT_COMPARED, f"{subject}: the metric was {old.metric.name} and is {new.metric.name}", new.unit,
    )  # fmt: skip
    if old.metric.name != new.metric.name:
        return row
    gain = _gain(pair, scores, releases)
    values = f"{new.metric.name} {format_value(old.value, new.unit)} -> {format_value(new.value, new.unit)}"
    how = gain.why or f"paired on the same {new.samples:,} test samples"
    row = replace(row, change=new.value - old.value, ci95=gain.interval)
    if old.value == new.value and old.sha256 is not None and old.sha256 == new.sha256:
        return replace(row, verdict=Change.SAME, reason=f"{subject}: {values}, as the model is the same")
    if gain.interval is None:
        reason = f"{subject}: {values}, {how}, and nothing gives an interval"
        return replace(row, verdict=Change.INCONCLUSIVE, reason=reason)
    return _judged(row, scores, gain.interval, (f"{subject}: {values}, {how}", limit_words))


def _judged(row: FigureChange, scores: tuple[Score, Score], gain: Interval, words: tuple[str, ...]) -> FigureChange:
    """Return the row with its verdict, and what this test set can show."""
    old, new = scores
    judged = judge_gain((old.value, new.value), gain, row.limit or 0.0, new.metric, min(old.samples, new.samples))
    needed, detectable = judged.samples_needed, judged.detectable_loss
    parts = [*words, f"about {needed:,} samples would decide it"] if needed else [*words]
    if detectable is not None:
        parts.append(f"this test set shows a loss from {format_loss(detectable, new.unit)} on")
    return replace(
        row, ci95=judged.interval, verdict=judged.verdict, reason="; ".join(parts), samples_needed=needed,
        detectable_loss=detectable,
    )  # fmt: skip


@dataclass(frozen=True)
class GainJudgement:
    """The verdict on a later model's gain, and the interval that decides."""

    verdict: Change
    interval: Interval
    samples_needed: int | None
    detectable_loss: float | None


def judge_gain(
    values: tuple[float, float], gain: Interval, limit: float, metric: MetricKind | MetricRow, samples: int
) -> GainJudgement:
    """Judge a gain by its 95 % interval, whose end towards no loss is moved out to 99.5 %: so models that are equal are
    called worse in 1 of 200 comparisons at most, however small the limit is beside the interval.
    Worse: all of the loss lies beyond the limit. No worse: all of it lies within (better: all of it is a gain)."""
    (before, after), (low, high) = values, gain
    change, wider = after - before, Z99_5 / Z95
    facts = {
        "ci95": gain, "delta": change, "unit": metric.unit, "higher_is_better": metric.higher_is_better,
        "reference": before, "candidate": after,
    }  # fmt: skip
    if metric.higher_is_better:
        interval = low, change + (high - change) * wider
        least, most = -interval[1], -low
    else:
        interval = change - (change - low) * wider, high
        least, most = interval
    verdict = Change.WORSE if least > limit else Change.INCONCLUSIVE if most > limit else Change.SAME
    if most < 0 and change:
        verdict = Change.BETTER
    needed = samples_needed(samples, facts, limit) if verdict is Change.INCONCLUSIVE else None
    return GainJudgement(verdict, interval, needed, detectable_loss(samples, facts, limit, z=Z99_5))


def _gain(pair: Pair, scores: tuple[Score, Score], releases: tuple[Release, Release]) -> _Gain:
    """Return the gain with its interval: paired where the samples and labels are the same."""
    old, new = (release.outcomes.outcomes.get(pair) for release in releases)
    why = why_unpaired(*releases)
    if not why and (old is None or new is None):
        why = "unpaired, as a run kept no scores by sample"
    if not why and old is not None and new is not None:
        orders = [sample_order(release.outcomes.digests) for release in releases]
        paired = _in_one_order(old, new, (orders[0], orders[1]))
        if paired:
            return _Gain(paired_gain(*paired), "")
        why = "unpaired, as this metric is of all samples together and their order is another"
    was, now = (_own_interval(*side) for side in zip((old, new), scores, strict=True))
    if was is None or now is None:
        return _Gain(None, why)
    return _Gain(difference((scores[0].value, was), (scores[1].value, now))[1], why)


def _in_one_order(old: Outcome, new: Outcome, orders: tuple[Array, Array]) -> tuple[Outcome, Outcome] | None:
    """Return both outcomes with their samples in one order; None where the metric cannot be put into another."""
    if isinstance(old, SampleScores) and isinstance(new, SampleScores):
        return SampleScores(old.scores[orders[0]]), SampleScores(new.scores[orders[1]])
    is_alike = type(old) is type(new) and old.samples == new.samples and np.array_equal(*orders)
    return (old, new) if is_alike else None


def why_unpaired(before: Release, after: Release) -> str:
    """Say why the samples of two runs cannot be paired; empty where they can."""
    old, new = before.run.source, after.run.source
    if old is None or new is None:
        return "unpaired, as the baseline is from before runs kept scores by sample"
    if old.test_set.inputs_sha256 != new.test_set.inputs_sha256:
        return "unpaired, as the test samples are others"
    if old.test_set.labels_sha256 != new.test_set.labels_sha256:
        return "unpaired, as the labels are others"
    if not (before.outcomes.digests and after.outcomes.digests):
        return "unpaired, as a run's outcomes.npz is gone"
    return ""


def _own_interval(outcome: Outcome | None, score: Score) -> Interval | None:
    """Return the 95 % interval of one model's metric; without its outcome that of a share of so many samples."""
    if outcome is not None:
        return value_interval(outcome)
    if score.unit != SHARE or not 0 <= score.value <= 1 or not score.samples:
        return None
    right = round(score.value * score.samples)
    return own_interval(np.repeat([1.0, 0.0], [right, score.samples - right]))
