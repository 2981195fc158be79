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


def test_every_row_of_a_table_is_asked_before_one_comes_again() -> None:
    data = Dataset({"ids": np.zeros((20, 5), np.int64)})
    for most in (1, 2, 3, 63, 97, 99):
        ids = with_integers(data, {"ids": IntegerRange(0, most.bit_length(), None, most)}).inputs["ids"].ravel()
        assert ids[:2].tolist() == [most, 0]
        assert sorted(ids[: most + 1]) == list(range(most + 1))
    ids = with_integers(data, {"ids": IntegerRange(7, 7, -100, 99)}).inputs["ids"]
    assert (ids.min(), ids.max(), len(np.unique(ids))) == (-100, 99, 100)


def test_an_end_that_is_known_beside_one_that_is_not_is_kept() -> None:
    data = Dataset({"x": np.zeros((200,), np.int64)})
    wide = with_integers(data, {"x": IntegerRange(7, 40, least=-100)}).inputs["x"]
    assert (wide.min(), wide.max()) == (-100, 2**40 - 1)
