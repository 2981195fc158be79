"""Samples that stand in train and test are counted, unless chance explains them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from transload.models.data_checks import split_overlap
from transload.models.data_checks.data_findings import DataFault
from transload.models.data_checks.sample_checks import DataPlace
from transload.models.data_checks.split_overlap import LEARNT, find_overlap, write_digests
from transload.models.dataset import CALIBRATION, Dataset, shuffled, write_dataset
from transload.models.signature import Array


def overlap(folder: Path, train: Array, test: Array, **more: Array) -> list[str]:
    data = Dataset({"x": train, **{name: array[: len(train)] for name, array in more.items()}})
    write_digests(folder / LEARNT, data)
    write_dataset(folder / CALIBRATION, shuffled(data, 0).rows(0, 256))
    other = Dataset({"x": test, **{name: array[len(train) :] for name, array in more.items()}})
    findings = find_overlap(folder, other, DataPlace("the test split"))
    assert {finding.fault for finding in findings} <= {DataFault.IN_TRAIN_AND_TEST}
    return [finding.text for finding in findings]


def rows(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(count, 6)).astype(np.float32)


@pytest.mark.parametrize("copies", [1, 7, 100])
def test_copies_are_counted_with_their_share(copies: int, tmp_path: Path) -> None:
    test = rows(100, 1)
    train = np.concatenate([rows(400), test[-copies:]])
    (text,) = overlap(tmp_path, train, test)
    first = 100 - copies
    assert text == (
        f"the test split: {copies} of 100 samples stand in the train split, too ({copies:.1f}%), "
        f"first sample {first + 1} (index {first})"
    )


@pytest.mark.parametrize("values", [2, 4])
def test_categories_that_repeat_themselves_are_no_copies(values: int, tmp_path: Path) -> None:
    drawn = np.random.default_rng(3).integers(0, values, (1500, 6))
    assert overlap(tmp_path, drawn[:1000], drawn[1000:]) == []


def test_copies_among_categories_are_found_where_they_repeat_less(tmp_path: Path) -> None:
    drawn = np.random.default_rng(3).integers(0, 4, (1500, 7))
    assert overlap(tmp_path, drawn[:1000], drawn[500:1000]) != []


def test_other_samples_are_no_copies_and_every_input_counts(tmp_path: Path) -> None:
    assert overlap(tmp_path, rows(400), rows(100, 1)) == []
    same = np.repeat(rows(1), 500, axis=0)
    assert overlap(tmp_path, same[:400], same[400:], y=np.arange(500)) == []
    assert overlap(tmp_path, rows(400), rows(400), y=np.arange(800)) == []
    assert overlap(tmp_path, rows(400), rows(400), y=np.arange(800) % 400) != []


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int64, np.float64, bool])
def test_samples_of_every_dtype_and_length_are_compared(dtype: type, tmp_path: Path) -> None:
    numbers = np.random.default_rng(5).normal(size=(300, 13, 3)) * 50
    drawn = numbers > 0 if dtype is bool else numbers.astype(dtype)
    assert overlap(tmp_path, drawn[:200], drawn[200:]) == []
    assert "1 of 100 samples" in overlap(tmp_path, drawn[:200], np.concatenate([drawn[201:], drawn[:1]]))[0]


def test_of_many_samples_a_share_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_overlap, "_MOST_DIGESTS", 500)
    (text,) = overlap(tmp_path, rows(4000), np.concatenate([rows(4000)[:2000], rows(2000, 1)]))
    count = int(text.split(" of ")[0].split()[-1].replace(",", ""))
    assert 1600 < count < 2400
