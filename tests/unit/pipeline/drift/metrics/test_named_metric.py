"""Each named metric gives scikit-learn's value of the same answers, whatever the calls they came in."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.preprocessing import label_binarize

from transload.models import array_file
from transload.models.data_checks.class_labels import LabelRange
from transload.models.errors import BadRequest
from transload.models.signature import Array
from transload.pipeline.drift.metrics.metric_kinds import kind_of_metric
from transload.pipeline.drift.metrics.named_metric import NamedMetric

CLASSES = 4
SEEDS = st.integers(0, 2**32 - 1)
Case = tuple[Array, Array, Array]  # labels, reference, candidate


def row_of(name: str, labels: Array, reference: Array, candidate: Array, *, cuts: int = 3, **allowed: Any) -> Any:
    """The metric's row of answers that come in calls of unlike sizes."""
    pairs = NamedMetric(kind_of_metric(name), "y").open(labels, [{"y": part} for part in np.array_split(reference, 2)])
    edges = [0, *sorted({max(1, len(labels) * at // cuts) for at in range(1, cuts)}), len(labels)]
    for start, stop in pairwise(edges):
        pairs.add({"y": reference[start:stop]}, {"y": candidate[start:stop]}, labels[start:stop])
    return pairs.result(allowed.get("allowed_loss")).row


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def classes_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.concatenate([np.arange(CLASSES), rng.integers(CLASSES, size=40)]))
    reference = rng.normal(size=(44, CLASSES)) + 2 * np.eye(CLASSES)[labels]
    return labels, reference, reference + rng.normal(scale=0.8, size=reference.shape)


def binary_case(seed: int) -> Case:
    labels, reference, candidate = classes_case(seed)
    return labels % 2, reference[:, 0] + labels % 2, candidate[:, 0] + labels % 2


def bits_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=(40, CLASSES))
    labels[0], labels[1] = 0, 1
    reference = rng.normal(size=labels.shape) + 2 * labels - 1
    return labels, reference, reference + rng.normal(size=labels.shape)


def values_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    labels = rng.normal(loc=50, scale=[1, 5, 20], size=(30, 3))
    return labels, labels + rng.normal(size=labels.shape), labels + rng.normal(scale=2, size=labels.shape)


def pixels_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=(6, 5, 7))
    reference = rng.normal(size=(6, CLASSES, 5, 7)) + np.moveaxis(np.eye(CLASSES)[labels], -1, 1)
    return labels, reference, reference + rng.normal(size=reference.shape)


def macro_auc(labels: Array, scores: Array) -> float:
    return float(sk.roc_auc_score(labels, softmax(scores), multi_class="ovr"))


def raw_macro_auc(labels: Array, scores: Array) -> float:
    return float(np.mean([sk.roc_auc_score(labels == each, scores[:, each]) for each in range(CLASSES)]))


def average_precision(labels: Array, scores: Array) -> float:
    return float(sk.average_precision_score(label_binarize(labels, classes=range(CLASSES)), scores))


def flat(labels: Array, scores: Array) -> tuple[Array, Array]:
    return labels.ravel(), scores.argmax(axis=1).ravel()


TRUTHS: list[tuple[str, Callable[[int], Case], Callable[[Array, Array], float]]] = [
    ("accuracy", classes_case, lambda y, s: sk.accuracy_score(y, s.argmax(axis=1))),
    ("accuracy", binary_case, lambda y, s: sk.accuracy_score(y, s > 0)),
    ("accuracy", pixels_case, lambda y, s: sk.accuracy_score(*flat(y, s))),
    ("recall@2", classes_case, lambda y, s: sk.top_k_accuracy_score(y, s, k=2)),
    ("f1", classes_case, lambda y, s: sk.f1_score(y, s.argmax(axis=1), average="macro")),
    ("f1", binary_case, lambda y, s: sk.f1_score(y, s > 0)),
    ("f1", bits_case, lambda y, s: sk.f1_score(y, s > 0, average="macro")),
    ("f1", pixels_case, lambda y, s: sk.f1_score(*flat(y, s), average="macro")),
    ("miou", pixels_case, lambda y, s: sk.jaccard_score(*flat(y, s), average="macro")),
    ("auroc", classes_case, raw_macro_auc),
    ("auroc", binary_case, sk.roc_auc_score),
    ("auroc", bits_case, sk.roc_auc_score),
    ("map", classes_case, average_precision),
    ("map", bits_case, sk.average_precision_score),
    ("mae", values_case, sk.mean_absolute_error),
    ("rmse", values_case, lambda y, s: sk.root_mean_squared_error(y.ravel(), s.ravel())),
    ("r2", values_case, sk.r2_score),
    ("perplexity", classes_case, lambda y, s: np.exp(sk.log_loss(y, softmax(s), labels=range(CLASSES)))),
]


@pytest.mark.parametrize(("name", "case", "truth"), TRUTHS, ids=lambda part: getattr(part, "__name__", str(part)))
@settings(max_examples=8, deadline=None)
@given(seed=SEEDS)
def test_a_metric_is_scikit_learns(
    name: str, case: Callable[[int], Case], truth: Callable[[Array, Array], float], seed: int
) -> None:
    labels, reference, candidate = case(seed)
    row = row_of(name, labels, reference, candidate)
    expected = [float(truth(labels, side)) for side in (reference, candidate)]
    assert [row["reference"], row["candidate"]] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert row["delta"] == pytest.approx(expected[1] - expected[0], rel=1e-6, abs=1e-12)
    assert row["ci95"][0] <= row["ci95"][1]


@settings(max_examples=8, deadline=None)
@given(seed=SEEDS)
def test_probabilities_and_logits_give_one_auroc_of_two_classes(seed: int) -> None:
    labels, reference, candidate = binary_case(seed)
    two = [np.stack([-side / 2, side / 2], axis=1) for side in (reference, candidate)]
    rows = [row_of("auroc", labels, *two), row_of("auroc", labels, *map(softmax, two))]
    assert rows[0]["candidate"] == pytest.approx(sk.roc_auc_score(labels, candidate))
    assert rows[1]["candidate"] == pytest.approx(rows[0]["candidate"])


@pytest.mark.parametrize("name", ["auroc", "map"])
def test_ties_are_one_threshold(name: str) -> None:
    labels, *sides = bits_case(7)
    coarse = [np.round(side) for side in sides]  # as int8 scores are
    truth = {"auroc": sk.roc_auc_score, "map": sk.average_precision_score}[name]
    row = row_of(name, labels, coarse[0], coarse[1])
    assert [row["reference"], row["candidate"]] == pytest.approx([truth(labels, side) for side in coarse])


@pytest.mark.parametrize(("name", "truth"), [("f1", sk.f1_score), ("miou", sk.jaccard_score)])
def test_a_class_that_does_not_occur_does_not_count(name: str, truth: Callable[..., float]) -> None:
    labels, *sides = classes_case(3)
    present = labels < CLASSES - 1
    for side in sides:
        side[:, CLASSES - 1] = -100.0  # nobody says the last class, and nobody has it
    labels, sides = labels[present], [side[present] for side in sides]
    expected = [truth(labels, side.argmax(axis=1), average="macro") for side in sides]
    row = row_of(name, labels, *sides)
    assert [row["reference"], row["candidate"]] == pytest.approx(expected)


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_ece_by_hand(scale: float) -> None:
    labels, reference, candidate = classes_case(4)
    probabilities = softmax(reference * scale)
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    expected = 0.0
    for number in range(15):
        inside = (confidence > number / 15) & (confidence <= (number + 1) / 15)
        if inside.any():
            expected += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    for form in (np.asarray, softmax):
        row = row_of("ece", labels, form(reference * scale), form(candidate * scale))
        assert row["reference"] == pytest.approx(expected)


def test_recall_of_labels_that_are_bits_by_hand() -> None:
    labels = np.array([[1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
    scores = np.array([[0.9, 0.1, 0.5, 0.0], [0.4, 0.3, 0.2, 0.9], [1.0, 0.0, 0.0, 0.0]])
    row = row_of("recall@2", labels, scores, scores)
    assert row["reference"] == pytest.approx((0.5 + 1.0) / 2)  # the third sample has nothing to recall


def test_cosine_by_hand() -> None:
    labels = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]])
    answers = np.array([[4.0, 3.0], [0.0, 1.0], [1.0, 1.0]])
    assert row_of("cosine", labels, answers, answers)["reference"] == pytest.approx((24 / 25 + 0 + 0) / 3)


@pytest.mark.parametrize("name", ["miou", "accuracy", "perplexity"])
def test_elements_without_a_label_do_not_count(name: str) -> None:
    labels, reference, candidate = pixels_case(2)
    hidden = labels.copy()
    hidden[:, 0] = 255
    hidden[:, 1] = -100
    row = row_of(name, hidden, reference, candidate)
    expected = row_of(name, labels[:, 2:], reference[:, :, 2:], candidate[:, :, 2:])
    assert [row["candidate"], *row["ci95"]] == pytest.approx([expected["candidate"], *expected["ci95"]])


def test_the_classes_may_lie_along_the_last_axis() -> None:
    labels, *sides = pixels_case(3)
    assert row_of("miou", labels, *(np.moveaxis(side, 1, -1) for side in sides)) == row_of("miou", labels, *sides)
    assert sides[0].shape == (6, CLASSES, 5, 7)


def test_an_output_may_hold_the_classes_themselves() -> None:
    labels, *sides = pixels_case(3)
    ids = [side.argmax(axis=1) for side in sides]
    assert row_of("miou", labels, *ids)["candidate"] == row_of("miou", labels, *sides)["candidate"]


def test_a_row_with_a_nan_is_wrong_and_not_a_class() -> None:
    labels, reference, candidate = classes_case(1)
    broken = candidate.copy()
    broken[:10] = np.nan
    right = (candidate.argmax(axis=1) == labels)[10:].sum() / len(labels)
    assert row_of("accuracy", labels, reference, broken)["candidate"] == pytest.approx(right)


def test_more_samples_than_groups_give_the_same_value() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(CLASSES, size=10_000)
    reference = rng.normal(size=(10_000, CLASSES)) + np.eye(CLASSES)[labels]
    candidate = reference + rng.normal(scale=0.2, size=reference.shape)
    row = row_of("f1", labels, reference, candidate, cuts=17)
    truth = [sk.f1_score(labels, side.argmax(axis=1), average="macro") for side in (reference, candidate)]
    assert [row["reference"], row["candidate"]] == pytest.approx(truth, rel=1e-12)
    low, high = row["ci95"]
    draws = []
    for _ in range(150):
        rows = rng.integers(10_000, size=10_000)
        answers = (side[rows].argmax(axis=1) for side in (reference, candidate))
        sides = [sk.f1_score(labels[rows], answer, average="macro") for answer in answers]
        draws.append(sides[1] - sides[0])
    assert (high - low) == pytest.approx(2 * 1.96 * np.std(draws), rel=0.15)


REFUSALS: list[tuple[str, Array, Array, str]] = [
    ("accuracy", np.array([0, 5]), np.zeros((2, 4)), "the label 5 is none of 4 classes, which count from 0"),
    ("accuracy", np.array([0.5, 1]), np.zeros((2, 4)), "accuracy needs labels that are whole numbers"),
    ("top5", np.array([0, 1]), np.zeros((2, 5)), "the 5 largest of 5 classes always hold the label"),
    (
        "mae", np.zeros((2, 3)), np.zeros((2, 4)),
        "labels of the shape [samples, 3] do not go with an output of the shape [samples, 4]",
    ),
    (
        "miou", np.zeros((2, 3, 3), int), np.zeros((2, 4, 5, 5)),
        "labels of the shape [samples, 3, 3] do not go with an output of the shape [samples, 4, 5, 5]",
    ),
    (
        "accuracy", np.eye(4, dtype=int), np.zeros((4, 4)),
        "accuracy is for one class a sample, and these labels are a 0 or 1 for each class",
    ),
    ("auroc", np.array([1, 1]), np.zeros(2), "the metric auroc has no finite value for the reference"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "labels", "output", "words"), REFUSALS, ids=lambda part: str(part)[:24])
def test_what_does_not_go_together_is_refused(name: str, labels: Array, output: Array, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        row_of(name, labels, output, output)
    assert caught.value.what == words


def test_labels_are_read_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_file, "_PIECE_BYTES", 16)
    pixels = np.zeros((9, 2, 2), np.uint8)
    pixels[7, 1], pixels[3, 0] = 5, 255
    assert LabelRange.of(pixels) == LabelRange((2, 2), -1, 5)
    assert LabelRange.of(np.array([[0.0], [3.0], [1.0]])) == LabelRange((), 0, 3)
    assert LabelRange.of(np.array([0.0] * 9 + [0.5])) is None


def test_r2_has_the_mean_of_all_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_file, "_PIECE_BYTES", 64)
    rng = np.random.default_rng(0)
    labels = np.arange(50.0)[:, np.newaxis] + rng.normal(size=(50, 2))
    outputs = labels + rng.normal(size=(50, 2))
    pairs = NamedMetric(kind_of_metric("r2"), "y").open(labels, [])
    pairs.add({"y": outputs}, {"y": outputs}, labels)
    assert pairs.result(None).row["reference"] == pytest.approx(sk.r2_score(labels, outputs))
