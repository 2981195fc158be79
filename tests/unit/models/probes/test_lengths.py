"""Samples of inputs that say how long other inputs are: from 1 to what they measure, at every size of it."""

from __future__ import annotations

import numpy as np
import pytest

from transload.models.dataset import Dataset
from transload.models.probes.feeds import make_feeds
from transload.models.probes.random_inputs import is_length, sample_tensors
from transload.models.probes.stress_values import IntegerRange, with_integers
from transload.models.signature import Signature, parse_input

SPECS = tuple(map(parse_input, ("x=float32[batch,9,time]", "lengths=int64[batch]")))


@pytest.mark.parametrize(
    ("word", "told"),
    [("lengths=int64[batch]", True), ("src_len=int32[batch]", True), ("seqlens=int64[b]", True),
     ("seq_length=int64[]", True), ("lengths=float32[batch]", False), ("silent=int64[b]", False),
     ("length_ids=int64[b]", False)],
)  # fmt: skip
def test_lengths_are_told_by_name_and_kind(word: str, told: bool) -> None:
    assert is_length(parse_input(word)) == told


def test_they_are_drawn_from_1_to_what_they_measure() -> None:
    drawn = sample_tensors(SPECS, {"batch": 200, "time": 5})["lengths"]
    assert set(drawn.tolist()) == {1, 2, 3, 4, 5}
    fixed = tuple(map(parse_input, ("x=float32[batch,4,7]", "lengths=int64[batch]")))
    assert set(sample_tensors(fixed, {"batch": 200})["lengths"].tolist()) == {1, 2, 3, 4}
    alone = (parse_input("lengths=int64[batch]"),)
    assert set(sample_tensors(alone, {"batch": 200})["lengths"].tolist()) == {1, 2, 3}


def test_where_what_they_measure_is_cropped_they_are_shorter() -> None:
    data = Dataset({"x": np.zeros((3, 9, 5), np.float32), "lengths": np.array([5, 2, 4])})
    signature = Signature(SPECS, (parse_input("y=float32[batch]"),))
    assert make_feeds(data, np.arange(3), signature)["lengths"].tolist() == [5, 2, 4]
    assert make_feeds(data, np.arange(3), signature, {"time": 3})["lengths"].tolist() == [3, 2, 3]
    assert make_feeds(data, np.arange(3), signature, {"time": 8})["lengths"].tolist() == [5, 2, 4]


def test_of_what_is_empty_they_are_0() -> None:
    assert sample_tensors(SPECS, {"batch": 3, "time": 0})["lengths"].tolist() == [0, 0, 0]
    data = Dataset({"x": np.zeros((3, 9, 5), np.float32), "lengths": np.array([5, 2, 4])})
    signature = Signature(SPECS, (parse_input("y=float32[batch]"),))
    assert make_feeds(data, np.arange(3), signature, {"time": 0})["lengths"].tolist() == [0, 0, 0]


def test_a_length_that_is_a_single_number_stays_an_array_where_it_is_shorter() -> None:
    specs = tuple(map(parse_input, ("x=float32[batch,time]", "length=int64[]")))
    data = Dataset({"x": np.zeros((3, 5), np.float32), "length": np.array([5, 2, 4])})
    fed = make_feeds(data, np.arange(2), Signature(specs, (parse_input("y=float32[batch]"),)), {"time": 3})
    assert isinstance(fed["length"], np.ndarray)
    assert fed["length"].tolist() == 3


def test_they_stay_where_other_integers_are_widened() -> None:
    data = Dataset({"tokens": np.zeros(4, np.int64), "lengths": np.array([5, 2, 4, 1])})
    wide = with_integers(data, {"tokens": IntegerRange(0, 6), "lengths": IntegerRange(0, 2)})
    assert wide.inputs["lengths"].tolist() == [5, 2, 4, 1]
    assert wide.inputs["tokens"].max() == 63
