"""Values may be declared up to the size of an axis."""

from __future__ import annotations

import numpy as np
import pytest

from transload.models.dataset import Dataset
from transload.models.errors import BadRequest
from transload.models.probes.feeds import check_samples, make_feeds
from transload.models.probes.random_inputs import sample_tensors
from transload.models.probes.value_range import AxisRange
from transload.models.signature import Signature, TensorSpec, check_inputs, parse_input

X, Z = "x=float32[batch,time,2]", "z=float32[batch,k]"
RIGHT = ["n=int64[batch] in 1..time", "n=int32[batch,k] in 0..time-1", "n=int64[batch] in -1..time+2"]


@pytest.mark.parametrize("text", RIGHT)
def test_a_relation_is_kept_drawn_and_moved(text: str) -> None:
    specs = tuple(map(parse_input, (X, text, Z)))
    check_inputs(specs)
    own = specs[1]
    assert isinstance(own.values, AxisRange)
    assert str(own) == text
    assert TensorSpec.from_json(own.to_json()) == own
    for time in (1, 2, 9):
        sizes = {"batch": 16, "time": time, "k": 4}
        drawn = sample_tensors(specs, sizes)["n"]
        assert (drawn.min() >= own.values.at(sizes).low, drawn.max()) == (True, own.values.at(sizes).high)
    data = Dataset(sample_tensors(specs, sizes))
    for time in (1, 2, 5, 40):
        feeds = make_feeds(data, np.arange(16), Signature(specs, (parse_input("y=float32[batch]"),)), {"time": time})
        limits = own.values.at({"time": time})
        assert (feeds["n"].min(), feeds["n"].max()) == limits
        assert len(np.unique(feeds["n"])) > 2 or time < 3


@pytest.mark.parametrize(
    ("inputs", "what"),
    [
        ([X, "n=int64[batch] in 1..tim"], "n is declared in 1..tim, and no input has a dynamic axis tim"),
        (
            [X, "n=int64[batch] in 5..time"],
            "n is declared in 5..time, and at time=1 no number is left, as it ends at 1",
        ),
        ([X, "n=int64[batch] in time..9"], "n is declared in time..9, and time may be of any size"),
        ([X, "n=int64[batch] in time..time-1"], "n in time..time-1 holds no number"),
        (
            [X, "n=float32[batch] in 1..time"],
            "--input 'n=float32[batch] in 1..time': the size of an axis is a whole number, and float32 holds others",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(inputs: list[str], what: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_inputs(tuple(map(parse_input, inputs)))
    assert refused.value.what == what


def test_bounds_make_room() -> None:
    check_inputs(tuple(map(parse_input, ("x=float32[batch,time=5..]", "n=int64[batch] in 5..time"))))
    check_inputs(tuple(map(parse_input, ("x=float32[batch,time=1..9]", "n=int64[batch] in time..9"))))


def test_samples_beyond_it_are_refused() -> None:
    specs = tuple(map(parse_input, (X, RIGHT[0])))
    data = Dataset({"x": np.zeros((3, 4, 2), np.float32), "n": np.array([1, 5, 2])})
    with pytest.raises(BadRequest, match=r"n holds 1 to 5, and 1..time is 1..4 in these samples"):
        check_samples(specs, data)
