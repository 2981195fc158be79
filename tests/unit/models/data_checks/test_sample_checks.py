"""Faults of samples and labels: each is found with its column and first row, and right data has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transload.models.data_checks import sample_checks
from transload.models.data_checks.data_findings import DataFault
from transload.models.data_checks.sample_checks import DataPlace, check_dataset
from transload.models.dataset import Dataset
from transload.models.signature import Array, TensorSpec

TABLE = DataPlace("t.csv", "row", {"x": ("a", "b", "c", "d", "e")}, "kind")
SPLIT = DataPlace("the train split", is_learnt_from=True)
LOGITS = (TensorSpec("logits", "float32", ("batch", 10)),)
COUNT = 400


def good(seed: int = 0, count: int = COUNT) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % 10)
    return rng.normal(size=(count, 5)).astype(np.float32), labels


def faults(x: Array, labels: Array | None, outputs: Any = LOGITS, place: DataPlace = TABLE) -> list[tuple[str, str]]:
    return [(fault.fault, fault.text) for fault in check_dataset(Dataset({"x": x}, labels), place, outputs)]


def changed(array: Array, index: Any, value: Any) -> Array:
    copy = array.copy()
    copy[index] = value
    return copy


X, Y = good()
CASES: dict[str, tuple[Array, Array, DataPlace, str, str]] = {
    "NaN": (changed(X, (16, 2), np.nan), Y, TABLE, "sample-not-finite",
            "t.csv: the column c holds NaN in 1 of 400 rows, first in row 17"),
    "infinities in two columns": (changed(changed(X, (30, 1), np.inf), (16, 2), -np.inf), Y, SPLIT, "sample-not-finite",
            "the train split: x[:, 1] and 1 more columns hold an infinity in 2 of 400 samples, "
            "first in sample 17 (index 16)"),
    "NaN label": (X, changed(Y.astype(float), 41, np.nan), TABLE, "label-not-finite",
                  "t.csv: the column kind holds NaN or an infinity in 1 of 400 rows, first in row 42"),
    "infinite label": (X, changed(Y.astype(float), 41, np.inf), SPLIT, "label-not-finite",
                       "the train split: the labels hold NaN or an infinity in 1 of 400 samples, "
                       "first in sample 42 (index 41)"),
    "label 10 of 10": (X, changed(Y, [5, 8], 10), TABLE, "label-outside",
                       "t.csv: the column kind holds 10, which is none of 10 classes that count from 0, in 2 of 400 "
                       "rows, first in row 6"),
    "labels from 1": (X, Y.astype(float) + 1, SPLIT, "label-outside", "in 40 of 400 samples"),
    "no class 4": (X, np.where(Y == 4, 3, Y), TABLE, "class-missing",
                   "t.csv: no row has the label 4, of 10 classes in 400 rows"),
    "a constant": (changed(X, (slice(None), 3), 5), Y, TABLE, "constant-column",
                   "t.csv: the column d holds one value in all 400 rows, 5"),
    "the label": (changed(X, (slice(None), 1), Y), Y, TABLE, "label-as-feature",
                  "t.csv: the label of every row can be read off the column b: is that the label itself?"),
    "the label, numbered otherwise": (changed(X, (slice(None), 4), (Y * 7 + 3) % 11), Y, SPLIT, "label-as-feature",
                                      "can be read off x[:, 4]:"),
    "a measured label, rescaled": (changed(X, (slice(None), 0), X[:, 0] * 3 - 7), X[:, 0].astype(np.float64), TABLE,
                                   "label-as-feature", "can be read off the column a:"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_fault_is_told_with_its_column_and_its_first_row(case: str) -> None:
    x, labels, place, fault, text = CASES[case]
    outputs = LOGITS if labels.dtype.kind == "i" or fault == "label-outside" else ()
    ((kind, told),) = faults(x, labels, outputs, place)
    assert kind == fault
    assert text in told


IMAGES = np.random.default_rng(1).integers(0, 9, (COUNT, 1, 8, 8)).astype(np.float32)
IMAGES[:, :, 0] = 0  # a rim that is black in all of them
RIGHT: dict[str, Callable[[], tuple[Array, Array | None, Any]]] = {
    "classes": lambda: (X, Y, LOGITS),
    "a negative label does not count": lambda: (X, changed(Y, 3, -100), LOGITS),
    "255 in an image does not count": lambda: (
        IMAGES, changed(np.tile(np.arange(8), (COUNT, 8, 1)), (0, 0, 0), 255),
        (TensorSpec("mask", "float32", ("batch", 8, 8, 8)),)),
    "pixels": lambda: (IMAGES, Y, LOGITS),
    "pixels in a row": lambda: (IMAGES.reshape(COUNT, 64), Y, LOGITS),
    "a column that is constant but for one row": lambda: (changed(X, (slice(1, None), 3), 5), Y, LOGITS),
    "measured labels": lambda: (X, X[:, 0].astype(np.float64) + X[:, 1], (TensorSpec("y", "float32", ("batch", 1)),)),
    "ages for a mean and a spread": lambda: (X, np.random.default_rng(2).integers(18, 90, COUNT),
                                             (TensorSpec("y", "float32", ("batch", 2)),)),
    "a column that tells the label but for one row": lambda: (changed(changed(X, (slice(None), 1), Y), (7, 1), 0.5), Y,
                                                              LOGITS),
    "two values for one class": lambda: (changed(X, (slice(None), 1), Y // 2), Y, LOGITS),
    "few rows say little": lambda: (np.ones((8, 5), np.float32), np.arange(8) % 2, LOGITS),
    "a rare class by chance": lambda: (X[:30], Y[:30] % 9, LOGITS),
    "a number for each sample": lambda: (X[:15], np.arange(15), LOGITS),
    "no labels": lambda: (X, None, LOGITS),
    "token ids": lambda: (np.zeros((COUNT, 6), np.int64), Y, LOGITS),
    "names as labels": lambda: (X, np.array(["a", "b"] * (COUNT // 2)), LOGITS),
}  # fmt: skip


@pytest.mark.parametrize("case", RIGHT)
def test_right_data_has_no_fault(case: str) -> None:
    x, labels, outputs = RIGHT[case]()
    assert faults(x, labels, outputs, DataPlace("d.npz")) == []


def test_a_class_that_is_not_learnt_is_a_fault_however_few_samples_there_are() -> None:
    assert [kind for kind, _ in faults(X[:30], Y[:30] % 9, LOGITS, SPLIT)] == [DataFault.CLASS_MISSING]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), row=st.integers(0, COUNT - 1), column=st.integers(0, 4),
       kind=st.sampled_from(["nan", "label", "feature", "constant", "good"]),
       piece=st.integers(20, 20_000))  # fmt: skip
def test_pieces_of_any_size_give_one_answer(seed: int, row: int, column: int, kind: str, piece: int) -> None:
    x, labels = good(seed)
    if kind == "nan":
        x[row, column] = np.nan
    elif kind == "label":
        labels[row] = 10
    elif kind == "feature":
        x[:, column] = np.random.default_rng(seed).permutation(40)[labels]
    elif kind == "constant":
        x[:, column] = row
    by_default = faults(x, labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_checks, "_PIECE_BYTES", piece)
        assert faults(x, labels) == by_default
    assert len(by_default) == (kind != "good")
    text = by_default[0][1] if by_default else ""
    places = {"nan": f"row {row + 1}", "label": f"row {row + 1}", "good": ""}
    assert places.get(kind, f"column {'abcde'[column]}") in text
