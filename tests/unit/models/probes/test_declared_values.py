"""Rows that go through declared ranges, whatever the samples hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transload.models.dataset import Dataset
from transload.models.probes.declared_values import declared_rows
from transload.models.signature import Array, TensorSpec, parse_input


def rows_of(declaration: str, **arrays: Array) -> Dataset:
    specs: list[TensorSpec] = [parse_input(text) for text in declaration.split("; ")]
    rows = declared_rows(specs, Dataset(arrays))
    assert rows is not None
    return rows


@given(st.integers(-50, 50), st.integers(1, 300), st.integers(1, 7))
def test_every_declared_integer_is_there(low: int, span: int, width: int) -> None:
    held = np.full((3, width), low, np.int64)
    ids = rows_of(f"ids=int64[batch,{width}] in {low}..{low + span}", ids=held).inputs["ids"]
    assert {*ids.ravel()} == {*range(low, low + span + 1)}


def test_of_a_large_range_there_are_the_ends_and_what_lies_between_evenly() -> None:
    ids = rows_of("ids=int32[batch] in 0..1000000", ids=np.zeros(5, np.int32)).inputs["ids"]
    assert (ids.min(), ids.max(), str(ids.dtype)) == (0, 1_000_000, "int32")
    assert np.diff(np.sort(ids)).max() < 5 * 1_000_000 / len(ids)


def test_two_inputs_of_one_range_hold_other_numbers() -> None:
    held = np.zeros(4, np.int64)
    rows = rows_of("user=int64[batch] in 0..99; item=int64[batch] in 0..99", user=held, item=held).inputs
    assert np.mean(rows["user"] == rows["item"]) < 0.05


@given(st.floats(-1e3, 1e3), st.floats(0.1, 1e4))
def test_floats_reach_both_ends_and_rows_lie_low_high_and_between(low: float, span: float) -> None:
    samples = np.random.default_rng(0).normal(low + span / 2, span / 100, (4, 8, 3)).astype(np.float32)
    x = rows_of(f"x=float32[batch,8,3] in {low!r}..{low + span!r}", x=samples).inputs["x"]
    assert x.min() == pytest.approx(low, abs=span * 1e-6 + 1e-4)
    assert x.max() == pytest.approx(low + span, abs=span * 1e-6 + 1e-3)
    means = (x.mean(axis=(1, 2)) - low) / span
    assert means.min() < 0.1
    assert means.max() > 0.9
    assert ((means > 0.2) & (means < 0.4)).any()


def test_what_is_not_declared_keeps_the_samples() -> None:
    x = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    rows = rows_of("ids=int64[batch] in 0..19; x=float32[batch,2]", ids=np.zeros(5, np.int64), x=x).inputs
    assert np.array_equal(rows["x"], x[np.arange(len(rows["x"])) % 5])
    assert declared_rows([parse_input("x=float32[batch,2]")], Dataset({"x": x})) is None


def test_a_range_up_to_an_axis_is_that_of_the_samples_size() -> None:
    frames, lengths = np.zeros((4, 9, 2), np.float32), np.array([1, 2, 3, 4])
    rows = rows_of("x=float32[batch,time,2]; n=int64[batch] in 1..time", x=frames, n=lengths)
    assert {*rows.inputs["n"]} == {*range(1, 10)}


def test_rows_are_no_more_than_their_memory() -> None:
    image = np.zeros((2, 1024, 1024, 3), np.float32)
    assert len(rows_of("x=float32[batch,1024,1024,3] in 0..255", x=image)) == 1
