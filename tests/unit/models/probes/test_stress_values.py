"""Integers that random samples do not hold: worked out alike everywhere, within their range."""

from __future__ import annotations

import numpy as np

from transload.models.dataset import Dataset
from transload.models.probes.stress_values import IntegerRange, free_integers, with_integers
from transload.models.signature import parse_input


def test_the_integers_are_the_same_in_every_interpreter() -> None:
    data = Dataset({"x": np.zeros((12,), np.int32), "y": np.ones((12, 2), np.float32)})
    wide = with_integers(data, {"x": IntegerRange(3, 10)})
    assert wide.inputs["x"].tolist() == [1023, -7, -7, -6, -4, 687, -1, -5, -5, 849, 634, -5]
    assert wide.inputs["y"] is data.inputs["y"]


def test_large_integers_of_inputs_alike_differ_by_one_within_their_range() -> None:
    data = Dataset({name: np.zeros((5, 3), np.int64) for name in "abc"} | {"d": np.zeros((5, 2), np.int64)})
    ranges = {
        "a": IntegerRange(0, 26),
        "b": IntegerRange(62, 62),
        "c": IntegerRange(62, 62),
        "d": IntegerRange(62, 62),
    }
    wide = with_integers(data, ranges).inputs
    alone = {name: with_integers(data, {name: integer_range}).inputs[name] for name, integer_range in ranges.items()}
    assert [name for name in "abcd" if np.array_equal(wide[name], alone[name])] == ["a", "d"]
    for name in "bc":
        assert {-1, 1} <= set((wide[name] - wide["a"])[wide["a"] > 2**24].tolist())
        assert wide[name].ravel()[:2].tolist() == [2**62 - 1, 1 - 2**62]
    within = with_integers(data, {"b": IntegerRange(62, 62), "a": IntegerRange(0, 26)}).inputs["a"]
    assert (within.min(), within.max()) == (0, 2**26 - 1)


def test_masks_and_bytes_hold_what_they_can_already() -> None:
    words = (
        "ids=int64[batch]",
        "attention_mask=int64[batch]",
        "picture=uint8[batch]",
        "keep=bool[batch]",
        "x=float32[batch]",
    )
    assert [spec.name for spec in free_integers(tuple(map(parse_input, words)))] == ["ids"]
