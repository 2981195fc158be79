"""Two releases by the task's metric: what is worse is never passed, what is equal is not refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transload.models.dataset import Dataset
from transload.models.errors import BadRequest, Exit
from transload.models.signature import Array
from transload.pipeline.drift.metrics.corpus_intervals import replicate
from transload.pipeline.drift.metrics.outcomes import (
    OUTCOMES,
    SOURCE,
    Outcome,
    Outcomes,
    SampleScores,
    read_outcomes,
)
from transload.pipeline.drift.metrics.sample_digests import digest_all, digest_samples, sample_order
from transload.pipeline.result.compare.change_records import Change, FigureChange, FigureKind, RunComparison
from transload.pipeline.result.compare.compare_limits import CompareLimits
from transload.pipeline.result.compare.no_worse import no_worse_rows
from transload.pipeline.result.compare.release_metric import Release
from transload.pipeline.result.compare.run_comparison import compare_runs, decide
from transload.pipeline.result.compare.run_files import read_release
from transload.pipeline.result.schema import MetricRow, SampleSetRow, SourceRow, Verdict
from transload.pipeline.show.compare_text import baseline_lines, render_compare_markdown, terminal_lines

from ...show import samples

COPY = ("onnx", "onnxruntime")
SETTINGS = settings(max_examples=25, deadline=None)


def release(
    scores: Array | Outcome,
    *,
    inputs: Array | None = None,
    labels: Array | None = None,
    kind: tuple[str, str, bool] = ("accuracy", "share", True),
    sha256: str = "a",
    copy: Array | None = None,
) -> Release:
    """A run with one copy in one runtime. `scores` are the source's, and the copy's where `copy` names no others."""
    source = scores if not isinstance(scores, np.ndarray) else SampleScores(scores)
    candidate = source if copy is None else SampleScores(copy)
    count = source.samples
    inputs = np.arange(count * 2.0).reshape(count, 2) if inputs is None else inputs
    labels = np.arange(count) % 3 if labels is None else labels
    digests = digest_samples(Dataset({"x": inputs}, labels))
    order = sample_order(digests)
    held = SampleSetRow(count, digest_all(digests["inputs"], order), digest_all(digests["labels"], order))
    name, unit, higher = kind
    delta = candidate.value - source.value
    metric = MetricRow(name, source.value, candidate.value, delta, (delta - 1e-3, delta + 1e-3), unit, higher)
    artifact = replace(samples.artifact(COPY[0], 1000), sha256=sha256 * 64)
    row = replace(samples.drift(*COPY, 100.0), samples=count, metric=metric)
    run = replace(
        samples.result(),
        artifacts=(artifact,), drift=(row,), latency=(), source=SourceRow(sha256 * 64, held),
    )  # fmt: skip
    return Release(run, Outcomes({SOURCE: source, COPY: candidate}, digests))


def right(rng: np.random.Generator, count: int, share: float) -> Array:
    return (rng.random(count) < share) * 1.0


def compare(before: Release, after: Release, **options: float | bool) -> RunComparison:
    missing = bool(options.pop("allow_missing", False))
    return compare_runs(before, after, CompareLimits(**options), allow_missing=missing)


def metric_rows(comparison: RunComparison) -> dict[str, FigureChange]:
    return {row.artifact: row for row in comparison.figures if row.figure is FigureKind.METRIC}


@SETTINGS
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(300, 3000), after=st.floats(0.1, 0.8))
def test_a_model_that_lost_much_fails_though_each_copy_equals_its_source(seed: int, count: int, after: float) -> None:
    rng = np.random.default_rng(seed)
    comparison = compare(release(right(rng, count, 0.99)), release(right(rng, count, after), sha256="b"))
    assert {name: row.verdict for name, row in metric_rows(comparison).items()} == dict.fromkeys(
        ("source", "onnx"), Change.WORSE
    )
    assert decide(comparison) == (Verdict.FAIL, Exit.FAIL)
    rows = [row for row in no_worse_rows(comparison, samples.result()) if row.rule == "no_worse metric"]
    assert [row.verdict for row in rows] == [Verdict.FAIL, Verdict.FAIL]


@SETTINGS
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.5, 1.0))
def test_equal_models_are_no_worse_paired_or_not(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    scores = right(rng, 4000, share)
    for inputs in (None, rng.normal(size=(4000, 2))):
        after = release(scores, inputs=inputs, sha256="b")
        comparison = compare(release(scores), after, allow_missing=True)
        assert all(row.verdict is not Change.WORSE for row in comparison.figures)
        if inputs is None:
            assert decide(comparison)[0] is Verdict.PASS


@SETTINGS
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_the_samples_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, labels = rng.normal(size=(400, 2)), rng.integers(5, size=400)
    before, scores = release(right(rng, 400, 0.9), inputs=inputs, labels=labels), right(rng, 400, 0.9)
    mixed = rng.permutation(400)
    plain = metric_rows(compare(before, release(scores, inputs=inputs, labels=labels, sha256="b")))["source"]
    other = release(scores[mixed], inputs=inputs[mixed], labels=labels[mixed], sha256="b")
    row = metric_rows(compare(before, other))["source"]
    assert "paired on the same 400 test samples" in row.reason
    assert row.ci95 == pytest.approx(plain.ci95)
    assert not compare(before, other).notes


def test_the_same_model_is_the_same_however_few_the_samples() -> None:
    scores = right(np.random.default_rng(0), 20, 0.9)
    comparison = compare(release(scores), release(scores))
    assert {row.verdict for row in comparison.figures} == {Change.SAME}


def test_too_few_samples_say_how_many_decide() -> None:
    before, after = np.ones(100), np.ones(100)
    after[:1] = 0
    row = metric_rows(compare(release(before), release(after, sha256="b")))["source"]
    assert row.verdict is Change.INCONCLUSIVE
    assert row.limit == 0.01
    assert "limit 1.00 pp, the default for a score" in row.reason
    row = metric_rows(compare(release(before), release(after, sha256="b"), metric_loss=0.02))["source"]
    assert row.samples_needed
    assert f"about {row.samples_needed:,} samples would decide it" in row.reason
    assert "the default" not in row.reason


def error(scores: Array, sha256: str = "b") -> Release:
    return release(scores, kind=("mae", "mm", False), sha256=sha256)


@pytest.mark.parametrize(
    ("factor", "limit", "verdict"),
    [
        (1.1, None, Change.WORSE), (1.015, None, Change.SAME), (0.9, None, Change.BETTER), (1.1, 0.2, Change.SAME),
        (1.1, 0.01, Change.WORSE),
    ],
)  # fmt: skip
def test_an_error_may_grow_by_two_percent(factor: float, limit: float | None, verdict: Change) -> None:
    scores = np.random.default_rng(3).uniform(0.9, 1.1, size=800)
    options = {} if limit is None else {"metric_loss": limit}
    rows = metric_rows(compare(error(scores, "a"), error(scores * factor), **options))
    assert {row.verdict for row in rows.values()} == {verdict}
    assert ("the default for an error: 2%" in rows["source"].reason) is (limit is None)


def test_a_copy_may_be_worse_where_the_source_is_not() -> None:
    rng = np.random.default_rng(1)
    scores = right(rng, 2000, 0.99)
    broken = scores * (rng.random(2000) < 0.8)
    rows = metric_rows(compare(release(scores), release(scores, sha256="b", copy=broken)))
    assert (rows["source"].verdict, rows["onnx"].verdict) == (Change.SAME, Change.WORSE)
    assert rows["source"].reason.startswith("the new source against the old source: accuracy 99")
    assert rows["onnx"].reason.startswith("the new copy against the old copy: accuracy 99")


CASES: dict[str, tuple[dict[str, Any], int, str]] = {
    "fewer samples": (
        {"inputs": slice(0, 300)},
        100,
        "other test data than the baseline's: 400 samples before, 300 now",
    ),
    "other samples": ({"shift": 1.0}, 400, "400 samples before, 400 now, 0 of them in both"),
    "more samples": ({"more": 50}, 0, "400 samples before, 450 now, 400 of them in both"),
    "other labels": ({"labels": 1}, 0, "other labels than the baseline's, of the same 400 test samples"),
}


@pytest.mark.parametrize("case", CASES)
def test_other_test_data_is_said_and_missing_samples_fail(case: str) -> None:
    change, missing, note = CASES[case]
    rng = np.random.default_rng(2)
    inputs, labels, scores = rng.normal(size=(450, 2)), rng.integers(4, size=450), right(rng, 450, 0.95)
    before = release(scores[:400], inputs=inputs[:400], labels=labels[:400])
    last = change.get("inputs", slice(0, 400 + int(change.get("more", 0))))
    new_inputs, new_labels = inputs[last] + change.get("shift", 0.0), labels[last] + change.get("labels", 0)
    after = release(scores[last], inputs=new_inputs, labels=new_labels, sha256="b")
    comparison = compare(before, after)
    assert any(note in line for line in comparison.notes)
    assert "unpaired, as the " in metric_rows(comparison)["source"].reason
    lost = [row for row in comparison.figures if row.figure is FigureKind.PRESENCE]
    if missing:
        (row,) = lost
        assert row.verdict is Change.WORSE
        assert row.reason.startswith(f"{missing} of the baseline's 400 test samples were not asked")
        assert decide(comparison)[0] is Verdict.FAIL
    else:
        assert not lost
    assert not [row for row in compare(before, after, allow_missing=True).figures if row.figure is FigureKind.PRESENCE]


def test_missing_targets_and_runtimes_fail_by_name() -> None:
    scores = np.ones(2000)
    whole = release(scores)
    more = replace(samples.drift("onnx", "openvino", 100.0), samples=2000)
    old = Release(
        replace(
            whole.run, artifacts=(*whole.run.artifacts, samples.artifact("tflite", 10)), drift=(*whole.run.drift, more)
        ),
        whole.outcomes,
    )
    comparison = compare(old, whole)
    lost = [(row.artifact, row.runtime) for row in comparison.figures if row.figure is FigureKind.PRESENCE]
    assert lost == [("tflite", None), ("onnx", "openvino")]
    assert decide(comparison)[1] is Exit.FAIL
    rows = [row for row in no_worse_rows(comparison, whole.run) if row.rule == "no_worse presence"]
    assert [(row.artifact, row.verdict) for row in rows] == [("tflite", Verdict.FAIL), ("onnx", Verdict.FAIL)]
    assert decide(compare(old, whole, allow_missing=True))[1] is Exit.PASS


def test_what_was_is_told_beside_what_is() -> None:
    rng = np.random.default_rng(1)
    scores = right(rng, 4000, 0.99)
    after = scores.copy()
    after[:12] = 0
    comparison = compare(release(scores), release(after, sha256="b"))
    assert decide(comparison)[0] is Verdict.PASS  # 0.3 points are within the limit, and told
    was, now = f"{scores.mean():.2%}".replace("%", " %"), f"{after.mean():.2%}".replace("%", " %")
    for text in ("\n".join(terminal_lines(comparison)), "\n".join(baseline_lines(comparison)),
                 render_compare_markdown(comparison).partition("<details>")[0]):  # fmt: skip
        assert was in text
        assert now in text


def test_a_metric_of_all_samples_is_paired_by_its_resamples() -> None:
    rng = np.random.default_rng(0)
    errors = rng.gamma(2, size=500)

    def rmse(scale: float) -> Outcome:
        squares = (errors * scale) ** 2
        return replicate(lambda weights: np.sqrt(weights @ squares / weights.sum(axis=1)), 500, 500)

    kind = ("rmse", "mm", False)
    before = release(rmse(1.0), kind=kind)
    for scale, verdict in ((1.0001, Change.SAME), (1.05, Change.WORSE), (0.95, Change.BETTER)):
        row = metric_rows(compare(before, release(rmse(scale), kind=kind, sha256="b")))["source"]
        assert "paired" in row.reason
        assert "unpaired" not in row.reason
        assert row.verdict is verdict


def test_runs_from_before_outcomes_are_compared_by_the_shares(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    old = release(right(rng, 500, 0.99))
    row = metric_rows(compare(Release(replace(old.run, source=None)), release(right(rng, 500, 0.5), sha256="b")))[
        "source"
    ]
    assert row.verdict is Change.WORSE
    assert "unpaired, as the baseline is from before runs kept scores by sample" in row.reason


def test_outcomes_are_read_as_they_were_written(tmp_path: Path) -> None:
    squares = np.arange(30.0)
    kept = Outcomes(
        {
            SOURCE: SampleScores(np.array([0.0, 1.0, 1.0])),
            COPY: replicate(lambda weights: weights @ squares, 30, 30),
            ("tflite:int8", "tflite"): SampleScores(np.array([0.25, -1.5])),
        },
        {"inputs": np.array([1, 2**64 - 1], np.uint64)},
    )
    kept.write(tmp_path / OUTCOMES)
    again = read_outcomes(tmp_path)
    assert again.outcomes.keys() == kept.outcomes.keys()
    for pair, outcome in kept.outcomes.items():
        assert again.outcomes[pair].value == outcome.value
        assert again.outcomes[pair].samples == outcome.samples
    assert np.array_equal(again.digests["inputs"], kept.digests["inputs"])
    assert read_outcomes(tmp_path / "none").outcomes == {}


BROKEN: list[dict[str, Array]] = [
    {"onnx|onnxruntime|scores": np.zeros((2, 2))},
    {"onnx|onnxruntime|scores": np.array([np.nan])},
    {"onnx|onnxruntime|scores": np.array([])},
    {"onnx|onnxruntime|scores": np.array(["a"])},
    {"onnx|onnxruntime|value": np.array([1.0])},
    {"onnx|onnxruntime|value": np.array([1.0, 2.0])},
    {"onnx": np.array([1.0])},
]


@pytest.mark.parametrize("arrays", BROKEN)
def test_broken_outcomes_are_one_sentence(arrays: dict[str, Array], tmp_path: Path) -> None:
    np.savez(tmp_path / OUTCOMES, **arrays)  # type: ignore[arg-type]  # numpy's stubs name allow_pickle
    with pytest.raises(BadRequest, match="holds no outcomes"):
        read_outcomes(tmp_path)


def test_a_file_that_is_no_archive_is_one_sentence(tmp_path: Path) -> None:
    from transload.pipeline.result.schema import to_json

    (tmp_path / "run.json").write_bytes(to_json(samples.result()))
    (tmp_path / OUTCOMES).write_text("{}")
    with pytest.raises(BadRequest, match=r"outcomes\.npz is not an \.npz file"):
        read_release(tmp_path)


@SETTINGS
@given(seed=st.integers(0, 2**32 - 1))
def test_labels_count_by_their_values_and_inputs_by_their_bytes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, labels = rng.normal(size=(30, 4)), rng.integers(9, size=30)
    digests = digest_samples(Dataset({"x": inputs}, labels))
    for alike in (labels.astype(np.int32), labels.astype(np.float32)):
        assert np.array_equal(digest_samples(Dataset({"x": inputs}, alike))["labels"], digests["labels"])
    assert not np.array_equal(digest_samples(Dataset({"x": inputs}, labels + 1))["labels"], digests["labels"])
    assert not np.array_equal(digest_samples(Dataset({"y": inputs}, labels))["inputs"], digests["inputs"])
    nudged = inputs.copy()
    nudged[7, 1] = np.nextafter(nudged[7, 1], 9)
    changed = digest_samples(Dataset({"x": nudged}, labels))["inputs"] != digests["inputs"]
    assert np.flatnonzero(changed).tolist() == [7]
