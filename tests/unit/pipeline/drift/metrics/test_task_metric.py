"""A metric's row: both sides, the paired difference, its interval and what the interval decides."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from transload.models.errors import BadRequest
from transload.models.recipe import Metric
from transload.models.signature import Array
from transload.pipeline.drift.metrics import (
    class_metrics,
    corpus_intervals,
    ranking_metrics,
    task_metric,
    value_metrics,
)
from transload.pipeline.drift.metrics.chosen_metric import RecipeMetric
from transload.pipeline.drift.metrics.metric_kinds import MetricKind, kind_of_metric
from transload.pipeline.drift.metrics.named_metric import NamedMetric
from transload.pipeline.drift.metrics.outcomes import SampleScores, paired_gain
from transload.pipeline.drift.metrics.paired_intervals import paired_interval, paired_proportions
from transload.pipeline.drift.metrics.task_metric import PairedScores


def scored(reference: Array, candidate: Array, kind: MetricKind | None = None) -> PairedScores:
    pairs = PairedScores(kind or MetricKind("m"), lambda answers, _: answers["score"])
    pairs.add({"score": reference}, {"score": candidate}, np.zeros(len(reference)))
    return pairs


def test_the_row_has_both_sides_and_the_difference() -> None:
    reference, candidate = np.array([1.0, 1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0])
    row = scored(reference, candidate, kind_of_metric("accuracy")).result(None).row
    assert row == {
        "name": "accuracy", "reference": 0.5, "candidate": 0.25, "delta": -0.25,
        "ci95": list(paired_proportions(0, 1, 4)),
        "unit": "share", "higher_is_better": True, "p_value": 1.0, "samples_needed": None,
        "detectable_loss": None,  # four samples show no loss of a share
    }  # fmt: skip


def test_scores_of_many_calls_are_those_of_all_samples() -> None:
    rng = np.random.default_rng(1)
    reference, candidate = rng.normal(size=(2, 20_100))
    pairs = scored(reference[:100], candidate[:100])
    for start in range(100, 20_100, 250):
        rows = slice(start, start + 250)
        pairs.add({"score": reference[rows]}, {"score": candidate[rows]}, rng.normal(size=250))
    result = pairs.result(None)
    row = result.row
    assert isinstance(result.candidate, SampleScores)
    assert np.array_equal(result.candidate.scores, candidate)
    assert row["candidate"] == pytest.approx(candidate.mean(), rel=1e-12)
    assert row["ci95"] == pytest.approx(list(paired_interval(reference, candidate)), rel=1e-12)


BAD = [
    (np.array([1.0, np.nan]), "the metric m gave no finite score for 1 of 2 samples"),
    (np.array([[1.0, 2.0]]), "the metric m gave scores of the shape [1, 2]"),
    (np.array([]), "the metric m gave scores of the shape [0]"),
    (np.array([1.0]), "the metric m gave 2 and 1 scores for the same samples"),
]


@pytest.mark.parametrize(("scores", "words"), BAD)
def test_scores_that_cannot_be_paired_are_refused(scores: Array, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        scored(np.array([0.0, 1.0]), scores).result(None)
    assert caught.value.what == words


@pytest.mark.parametrize(
    ("scores", "unit", "expected"),
    [([0.0, 1.0], None, "share"), ([0.25, 1.0], None, ""), ([0.0, 1.0], "", ""), ([0.25, 1.0], "mm", "mm")],
)
def test_a_recipe_without_a_unit_has_shares_where_its_scores_are_0_or_1(
    scores: list[float], unit: str | None, expected: str
) -> None:
    metric = Metric("m", lambda outputs, labels: np.array(scores), unit, higher_is_better=False)
    pairs = RecipeMetric(metric).open(np.zeros(2), [])
    pairs.add({}, {}, np.zeros(2))
    row = pairs.result(None).row
    assert (row["unit"], row["higher_is_better"]) == (expected, False)


def _counts(rng: np.random.Generator, samples: int) -> Array:
    both = rng.integers(0, 20, size=(samples, 3))
    return np.concatenate([both, both + rng.integers(0, 9, both.shape), both + rng.integers(0, 9, both.shape)], axis=1)


ROWS = {
    "rmse": (value_metrics.rmse, lambda rng, n: np.stack([rng.gamma(1, size=n), np.ones(n)], axis=1)),
    "perplexity": (class_metrics.perplexity, lambda rng, n: np.stack([rng.gamma(2, size=n), np.ones(n)], axis=1)),
    "ece": (
        class_metrics.ece,
        lambda rng, n: np.concatenate([rng.normal(0.1, 0.3, size=(n, 3)), np.ones((n, 1))], axis=1),
    ),
    "miou": (class_metrics.miou, _counts),
}


@pytest.mark.parametrize("name", ROWS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_exchanging_the_sides_mirrors_the_interval(name: str, seed: int) -> None:
    value, draw = ROWS[name]
    rng = np.random.default_rng(seed)
    first, second = (partial(lambda rows, weights: value(weights @ rows), draw(rng, 40)) for _ in range(2))
    replicates = [corpus_intervals.replicate(value, 40, 40) for value in (first, second)]
    low, high = paired_gain(*replicates)
    assert paired_gain(*reversed(replicates)) == pytest.approx((-high, -low), rel=1e-6, abs=1e-9)
    assert low < high


@pytest.mark.parametrize(("name", "truth"), [("rmse", 0.0), ("auroc", 0.0)])
def test_the_bootstrap_of_a_corpus_metric_covers_near_95_percent(
    name: str, truth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_intervals, "RESAMPLES", 999)
    rng, hits, draws, samples = np.random.default_rng(5), 0, 200, 80
    for _ in range(draws):
        labels = rng.integers(2, size=samples)
        shared = labels + rng.normal(scale=0.6, size=samples)
        sides = [shared + rng.normal(scale=0.5, size=samples) for _ in range(2)]  # alike in law, so the truth is 0
        if name == "auroc":
            values = [
                partial(ranking_metrics.auroc, np.stack([side, labels], axis=1).astype(np.float64)) for side in sides
            ]
        else:
            errors = [np.stack([(side - labels) ** 2, np.ones(samples)], axis=1) for side in sides]
            values = [partial(lambda rows, weights: value_metrics.rmse(weights @ rows), rows) for rows in errors]

        first, second = (corpus_intervals.replicate(value, samples, samples, resamples=999) for value in values)
        interval = paired_gain(first, second)
        hits += interval[0] <= truth <= interval[1]
    assert 0.91 <= hits / draws <= 0.985


def test_the_bootstrap_is_scipys() -> None:
    skewed = np.random.default_rng(3).lognormal(sigma=1.0, size=60)

    def mean(weights: Array) -> Array:
        return np.asarray(weights @ skewed / weights.sum(axis=1))

    for seed in range(3):  # the draws of one seed are scipy's own
        rng = np.random.default_rng(seed)
        expected = stats.bootstrap((skewed,), np.mean, n_resamples=999, method="BCa", rng=rng).confidence_interval
        replicates = corpus_intervals.replicate(mean, 60, 60, seed=seed, resamples=999)
        assert replicates.interval(0.0) == pytest.approx(tuple(expected))


def test_leaving_groups_out_gives_the_bootstraps_width(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(2, size=1500)
    sides = [labels + rng.normal(size=1500) for _ in range(2)]
    first, second = (partial(ranking_metrics.auroc, np.stack([side, labels], axis=1)) for side in sides)

    intervals = []
    for most in (4096, 1000):
        monkeypatch.setattr(corpus_intervals, "GROUPS", most)
        intervals.append(paired_gain(*(corpus_intervals.replicate(side, 1500, 1500) for side in (first, second))))
    booted, left_out = intervals
    assert left_out[1] - left_out[0] == pytest.approx(booted[1] - booted[0], rel=0.3)


@pytest.mark.parametrize("name", ["f1", "auroc", "ece", "map"])
def test_equal_sides_still_leave_room_for_the_unseen(name: str) -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=60)
    scores = rng.normal(size=(60, 3)) + 2 * np.eye(3)[labels]
    pairs = NamedMetric(kind_of_metric(name), "y").open(labels, [{"y": scores}])
    pairs.add({"y": scores}, {"y": scores}, labels)
    row = pairs.result(0.001).row
    assert row["delta"] == 0
    assert row["ci95"][0] < 0 < row["ci95"][1]
    assert row["samples_needed"] > 60


def test_sums_of_groups_have_the_interval_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels = np.zeros((3000, 1))
    sides = [rng.normal(scale=scale, size=(3000, 1)) for scale in (1.0, 1.02)]
    widths = []
    for groups in (4096, 512):
        monkeypatch.setattr(task_metric, "GROUPS", groups)
        pairs = NamedMetric(kind_of_metric("rmse"), "y").open(labels, [{"y": sides[0]}])
        for start in range(0, 3000, 250):
            rows = slice(start, start + 250)
            pairs.add({"y": sides[0][rows]}, {"y": sides[1][rows]}, labels[rows])
        row = pairs.result(None).row
        assert row["candidate"] == pytest.approx(np.sqrt(np.mean(sides[1] ** 2)))
        widths.append(row["ci95"][1] - row["ci95"][0])
    assert widths[1] == pytest.approx(widths[0], rel=0.15)
