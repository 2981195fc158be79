"""A reference is held against one answer to everything, by every metric that has a value for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.array_file import write_arrays
from transload.models.data_checks.class_labels import LabelRange
from transload.models.dataset import Dataset, write_dataset
from transload.models.job import Job
from transload.models.signature import Array, Signature, TensorSpec
from transload.pipeline.drift.answer_shards import write_series
from transload.pipeline.drift.metrics.chance import compare_with_chance
from transload.pipeline.drift.metrics.metric_kinds import MetricChoice, kind_of_metric
from transload.pipeline.drift.recorded_answers import ANSWERS, DRAWN, ReferenceRecord, write_record

COUNT = 600


def doubt(folder: Path, metric: str, output: Array, labels: Array, drawn: Array | None = None) -> str | None:
    signature = Signature(
        (TensorSpec("x", "float32", ("batch",)),), (TensorSpec("y", output.dtype.name, ("batch", *output.shape[1:])),)
    )
    write_dataset(folder / "test.npz", Dataset({"x": np.zeros(len(labels), np.float32)}, labels))
    rows = np.arange(len(labels)) if drawn is None else drawn
    write_series(folder / ANSWERS, ({"y": output[rows[start : start + 64]]} for start in range(0, len(rows), 64)))
    if drawn is not None:
        write_arrays(folder / DRAWN, {"rows": drawn})
    write_record(folder, ReferenceRecord(signature, (), 64))
    kind = kind_of_metric(metric)
    choice = MetricChoice(name=metric, output="y", unit=kind.unit, higher_is_better=kind.higher_is_better)
    facts = compare_with_chance(Job(dict.fromkeys(("data", "reference"), folder), folder, {"metric": choice.to_json()}))
    text: str | None = facts.get("doubt")
    return text


def classes(skill: float, count: int = COUNT, number: int = 10, seed: int = 0) -> tuple[Array, Array]:
    """Labels, and logits that know so large a share of them and guess the others."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(number, count, p=np.arange(1, number + 1) / sum(range(1, number + 1)))
    told = np.where(rng.random(count) < skill, labels, rng.integers(0, number, count))
    return (np.eye(number)[told] * 4 + rng.normal(size=(count, number))).astype(np.float32), labels


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def values(skill: float, count: int = COUNT) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    labels = 50 + 9 * rng.normal(size=(count, 2))
    return (skill * labels + (1 - skill) * (50 + 9 * rng.normal(size=(count, 2)))).astype(np.float32), labels


def bits(skill: float) -> tuple[Array, Array]:
    rng = np.random.default_rng(4)
    labels = (rng.random((COUNT, 5)) < 0.3).astype(np.int64)
    return ((labels * skill * 4 - 1) + rng.normal(size=(COUNT, 5))).astype(np.float32), labels


def binary(skill: float) -> tuple[Array, Array]:
    logits, labels = classes(skill, number=2)
    return (logits[:, 1:] - logits[:, :1]), labels


CASES: dict[str, tuple[str, Any]] = {
    **{name: (name, classes) for name in ("accuracy", "f1", "auroc", "map", "perplexity", "top5", "recall@3")},
    "probabilities": ("perplexity", lambda skill: (softmax(classes(skill)[0]), classes(skill)[1])),
    "classes themselves": ("accuracy", lambda skill: (classes(skill)[0].argmax(axis=1), classes(skill)[1])),
    "one score": ("auroc", binary),
    "f1 of two": ("f1", binary),
    "bits": ("map", bits),
    "f1 of bits": ("f1", bits),
    **{name: (name, values) for name in ("mae", "rmse", "r2", "cosine")},
}


@pytest.mark.parametrize("case", CASES)
def test_a_reference_that_guesses_is_doubted_and_one_that_knows_is_not(case: str, tmp_path: Path) -> None:
    metric, make = CASES[case]
    if metric != "cosine":  # of a mean far from 0 it is nearly 1, as that of any answer
        text = doubt(tmp_path, metric, *make(0.0))
        assert text is not None
        assert " than chance: " in text
        assert f"chance: {metric} " in text
        assert (", always answering the " in text) != (", its answers to other samples give " in text)
    assert doubt(tmp_path, metric, *make(0.9)) is None


def test_the_sentence_has_both_figures(tmp_path: Path) -> None:
    logits, labels = classes(0.0)
    hits, commonest = (logits.argmax(axis=1) == labels).mean(), np.bincount(labels).max() / COUNT
    assert doubt(tmp_path, "accuracy", logits, labels) == (
        f"the reference is no better than chance: accuracy {hits:.2%} of 10 classes, always answering the commonest "
        f"class gives {commonest:.2%}".replace("%", " %")
    )
    wrong, truth = values(0.0)
    text = doubt(tmp_path, "mae", wrong, truth) or ""
    assert text.startswith(f"the reference is no better than chance: mae {np.abs(wrong - truth).mean():.4g}, always")


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("count", "skill"), [(8, 0.9), (12, 0.8), (40, 0.6), (300, 0.3)])
def test_a_good_model_is_not_doubted_on_few_samples(seed: int, count: int, skill: float, tmp_path: Path) -> None:
    assert doubt(tmp_path, "accuracy", *classes(skill, count, seed=seed)) is None


@pytest.mark.parametrize("seed", range(10))
def test_a_guess_is_doubted_however_it_falls(seed: int, tmp_path: Path) -> None:
    assert doubt(tmp_path, "accuracy", *classes(0.0, 200, number=3, seed=seed)) is not None


def test_nothing_is_said_where_there_is_nothing_to_compare(tmp_path: Path) -> None:
    logits, labels = classes(0.0)
    assert doubt(tmp_path, "ece", logits, labels) is None
    assert doubt(tmp_path, "accuracy", logits[:5], labels[:5]) is None
    assert doubt(tmp_path, "accuracy", logits, np.full(COUNT, 3)) is None  # nothing is better than chance there
    assert LabelRange.of(labels) is not None


def test_samples_that_were_drawn_are_scored_by_their_own_labels(tmp_path: Path) -> None:
    logits, labels = classes(0.9)
    drawn = np.random.default_rng(0).permutation(COUNT)[:100]
    assert doubt(tmp_path, "accuracy", logits, labels, drawn) is None
    assert doubt(tmp_path, "accuracy", logits[::-1], labels, drawn) is not None
