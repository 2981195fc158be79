"""Declared values that no sample holds, alone and with other sizes: a copy is asked them, whatever data there is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from transload.models.dataset import Dataset, write_dataset
from transload.models.errors import SessionLost
from transload.models.signature import Array
from transload.pipeline.drift.recorded_answers import read_record

from .test_check_sizes import Feeds, Held, held

__all__ = ["held"]

TABLE = np.random.default_rng(3).normal(size=(100, 4)).astype(np.float32)


def looked_up(feeds: Feeds) -> Array:
    if feeds["ids"].max() > 99:
        raise SessionLost("torch gave no answer: index out of range", fix="")
    return TABLE[feeds["ids"]].mean(1) + feeds["x"]


def pair_with_data(held: Callable[..., Held], declared: str = "0..99") -> Held:
    """A model whose samples hold ids below 30, and x below 1 of what is declared up to 50."""
    pair = held(f"ids=int64[batch,time=1..40] in {declared}", "x=float32[batch,4] in 0..50")
    rng = np.random.default_rng(5)
    samples: dict[str, Array] = {"ids": rng.integers(0, 30, (12, 6)), "x": rng.random((12, 4), np.float32)}
    write_dataset(pair.folder / "test.npz", Dataset(samples))
    pair.recorded(looked_up)
    return pair


@pytest.mark.parametrize(
    "change",
    [
        lambda feeds: {**feeds, "ids": np.minimum(feeds["ids"], 63)},
        lambda feeds: {**feeds, "ids": np.where(feeds["ids"] == 77, 78, feeds["ids"])},
        lambda feeds: {**feeds, "x": np.minimum(feeds["x"], 30)},
        lambda feeds: {**feeds, "x": np.where(feeds["x"] > 49.5, 0, feeds["x"])},
        lambda feeds: {**feeds, "x": feeds["x"] * (1 + (feeds["x"].mean(-1, keepdims=True) > 44))},
    ],
    ids=["clamped", "one row", "clamped float", "upper end", "all of a sample large"],
)
def test_a_copy_that_is_wrong_beyond_the_data_is_wrong(
    held: Callable[..., Held], change: Callable[[Feeds], Feeds]
) -> None:
    found = pair_with_data(held).copied(lambda feeds: looked_up(change(feeds)))
    assert (found["status"], found["reason"].partition(":")[0]) == ("wrong", "with declared values")


def test_a_right_copy_passes_and_says_that_it_was_asked(held: Callable[..., Held]) -> None:
    found = pair_with_data(held).copied(looked_up)
    assert found["status"] == "verified"
    (asked,) = found["evidence"]["exercised"]
    assert "declared values" in asked["stress"]
    assert [row["not_asked"] for row in asked["inputs"]] == [[], []]


def test_declared_values_meet_other_sizes(held: Callable[..., Held]) -> None:
    def wrong(feeds: Feeds) -> Array:
        is_long = feeds["ids"].shape[1] > 30
        return looked_up({**feeds, "x": np.minimum(feeds["x"], 30) if is_long else feeds["x"]})

    found = pair_with_data(held).copied(wrong)
    assert found["status"] == "wrong"
    assert "time=40, with declared values" in found["reason"]


def test_a_copy_in_bytes_owes_the_range_of_its_calibration_alone(held: Callable[..., Held]) -> None:
    pair = pair_with_data(held)

    def saturates(feeds: Feeds) -> Array:
        return looked_up({**feeds, "x": np.minimum(feeds["x"], 1)})

    assert pair.copied(saturates, precision="int8")["status"] == "verified"
    assert pair.copied(saturates, precision="fp16")["status"] == "wrong"


def test_what_is_declared_and_the_model_refuses_is_told_as_not_asked(held: Callable[..., Held]) -> None:
    pair = pair_with_data(held, "0..500")
    assert not any(probe.source for probe in read_record(pair.folder).probes)
    found = pair.copied(looked_up)
    assert found["status"] == "verified"
    ids = found["evidence"]["exercised"][0]["inputs"][0]
    assert ids["not_asked"] == [[29, 500]]
