"""From samples to calls: what a data file holds for an input with a batch, and for one without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transload.models.data_sources.take_samples import take_samples
from transload.models.dataset import Dataset, read_dataset
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.probes.feeds import (
    CallRows,
    check_samples,
    group_into_calls,
    make_feeds,
    most_per_call,
    samples_per_call,
    sizes_in,
)
from transload.models.probes.samples import make_samples
from transload.models.signature import Bounds, Signature, check_feeds, parse_input
from transload.models.store import digest_of


def signature(*inputs: str) -> Signature:
    specs = tuple(map(parse_input, inputs))
    return Signature(specs, specs)


GRAPH = signature("nodes=float32[nodes,4]", "edges=int64[2,edges]", "scale=float32[]")
MIXED = signature("x=float32[batch,t]", "table=float32[t,2]", "late=float32[t,batch]")


def counted(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)


def test_a_model_without_a_batch_gets_one_sample_a_call_and_scalars_stay_scalars() -> None:
    data = Dataset(
        {"nodes": counted(3, 5, 4), "edges": counted(3, 2, 7, dtype="int64"), "scale": counted(3)}, np.arange(3)
    )
    check_samples(GRAPH.inputs, data)
    feeds = make_feeds(data, np.array([2]), GRAPH)
    assert {name: value.shape for name, value in feeds.items()} == {"nodes": (5, 4), "edges": (2, 7), "scale": ()}
    assert check_feeds(GRAPH.inputs, feeds) == {"nodes": 5, "edges": 7}
    np.testing.assert_array_equal(feeds["nodes"], data.inputs["nodes"][2])
    scale: Any = feeds["scale"]
    assert (scale, scale.dtype) == (2.0, np.float32)
    assert sizes_in(data, GRAPH) == {"nodes": 5, "edges": 7}


def test_a_call_of_several_samples_takes_what_has_no_batch_from_the_first_of_them() -> None:
    data = Dataset({"x": counted(4, 3), "table": counted(4, 3, 2), "late": counted(4, 3)})
    check_samples(MIXED.inputs, data)
    feeds = make_feeds(data, np.array([3, 1]), MIXED)
    np.testing.assert_array_equal(feeds["x"], data.inputs["x"][[3, 1]])
    np.testing.assert_array_equal(feeds["table"], data.inputs["table"][3])
    np.testing.assert_array_equal(feeds["late"], data.inputs["late"][[3, 1]].T)
    assert sizes_in(data, MIXED) == {"t": 3}
    for name, value in feeds.items():
        value[...] = -1
        assert data.inputs[name].min() == 0, "a call may do with its feeds what it likes"


@pytest.mark.parametrize(("size", "rows"), [(2, [0, 1]), (3, [0, 1, 2]), (5, [0, 1, 2, 0, 1])])
def test_another_size_is_made_of_the_samples_own_values_alike_in_every_input(size: int, rows: list[int]) -> None:
    data = Dataset({"x": counted(4, 3), "table": counted(4, 3, 2), "late": counted(4, 3)})
    feeds = make_feeds(data, np.array([0, 1]), MIXED, {"t": size})
    plain = make_feeds(data, np.array([0, 1]), MIXED)
    np.testing.assert_array_equal(feeds["x"], plain["x"][:, rows])
    np.testing.assert_array_equal(feeds["table"], plain["table"][rows])
    np.testing.assert_array_equal(feeds["late"], plain["late"][rows])


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 4), st.integers(1, 5))
def test_every_sample_is_seen_in_calls_that_the_model_takes(samples: int, least: int, more: int, step: int) -> None:
    batches = Bounds(least, None, step)
    batch = least + more * step
    calls = list(CallRows(samples, batch, batches))
    assert set(np.concatenate(calls)) == set(range(samples))
    assert all(len(rows) in batches and len(rows) <= batch for rows in calls)
    assert sum(map(len, calls)) < samples + max(least, step)


def test_large_samples_come_in_smaller_calls() -> None:
    photographs = Dataset({"image": np.broadcast_to(np.float32(0), (400, 3, 224, 224))})
    assert samples_per_call(photographs, 256) == 13
    assert samples_per_call(Dataset({"x": counted(300, 4)}), 256) == 256
    assert samples_per_call(Dataset({"x": counted(30, 4)}), 256) == 30
    assert samples_per_call(Dataset({"x": np.broadcast_to(np.float32(0), (4, 3000, 1000))}), 256) == 1


@pytest.mark.parametrize(
    ("x", "y", "most"),
    [
        ("x=float32[batch,20]", "y=float32[batch,10]", 2184),
        ("x=float32[batch]", "y=float32[batch]", 4096),
        ("x=float32[batch,3,224,224]", "y=float32[batch,10]", 256),
        ("x=float32[batch,4]", "y=float32[batch,2000]", 256),
        ("x=int64[batch,tokens]", "y=float32[batch,2]", 256),
        ("x=float32[batch,4]", "y=float32[batch,unknown]", 256),
        ("x=float32[8,4]", "y=float32[8,1]", 256),
    ],
)
def test_a_call_has_more_samples_where_they_and_their_answers_are_tiny(x: str, y: str, most: int) -> None:
    assert most_per_call(Signature(signature(x).inputs, signature(y).inputs)) == most


def test_the_rows_of_any_call_are_made_without_those_before_it() -> None:
    calls = CallRows(10**12 + 1, 256, Bounds(2))
    assert len(calls) == 10**12 // 256 + 1
    assert calls[3][[0, -1]].tolist() == [768, 1023]
    assert calls[-1].tolist() == [10**12, 0]
    assert [rows[0] for rows in calls[:2]] == [0, 256]
    with pytest.raises(IndexError):
        calls[len(calls)]


def test_samples_one_by_one_are_put_together_for_a_batch_that_is_fixed() -> None:
    fixed = signature("x=float32[4,3]", "scale=float32[]")
    data = group_into_calls(fixed.inputs, Dataset({"x": counted(10, 3), "scale": counted(10)}, np.arange(10)))
    check_samples(fixed.inputs, data)
    np.testing.assert_array_equal(data.inputs["x"], counted(2, 4, 3))
    assert data.inputs["scale"].tolist() == [0, 4], "of the first sample of each call"
    assert data.labels is not None
    assert data.labels.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(BadRequest, match="the model takes 4 samples in a call, and the file holds 3"):
        group_into_calls(fixed.inputs, Dataset({"x": counted(3, 3)}))


@pytest.mark.parametrize("shape", [(5, 4, 3), (4, 4, 3)])
def test_whole_calls_stay_as_they_are_whatever_their_sizes(shape: tuple[int, ...]) -> None:
    data = Dataset({"x": counted(*shape)})
    assert group_into_calls(signature("x=float32[4,3]").inputs, data) is data


MESSAGES = [
    (
        GRAPH,
        {"nodes": counted(5, 4), "edges": counted(5, 2, 7, dtype="int64"), "scale": counted(5)},
        "the array nodes has the shape [5,4], and holds no samples of the input nodes=float32[nodes,4]\n"
        "  fix: give it the shape [samples,nodes,4]: samples lie along the first axis of every array, also of an input "
        "that has no batch axis (docs/convert.md)",
    ),
    (
        signature("x=float32[n,4]"),
        {"x": counted(5, 3)},
        "input x=float32[n,4] got the shape [5,3]\n  fix: send x in the shape [n,4]",
    ),
    (
        signature("x=float32[batch=1..2,t=4..8]"),
        {"x": counted(9, 3)},
        "the axis t has the size 3, and the model takes 4..8\n  fix: send a size within 4..8",
    ),
]


@pytest.mark.parametrize(("model", "arrays", "text"), MESSAGES)
def test_what_a_person_reads_of_samples_that_do_not_fit(
    model: Signature, arrays: dict[str, np.ndarray], text: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        check_samples(model.inputs, Dataset(arrays))
    assert str(caught.value) == text


def test_a_file_holds_more_samples_than_the_model_takes_in_a_call() -> None:
    check_samples(signature("x=float32[batch=1..2,t=1..8]").inputs, Dataset({"x": counted(9, 3)}))


def test_a_number_in_a_file_holds_no_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.ones(3), scale=np.float32(2))
    with pytest.raises(BadRequest, match="scale is a single number: samples lie along the first axis of every array"):
        read_dataset(tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (GRAPH, {"nodes": (64, 5, 4), "edges": (64, 2, 7), "scale": (64,)}),
        (MIXED, {"x": (64, 5), "table": (64, 5, 2), "late": (64, 5)}),
        (signature("x=float32[batch=1..4,t=20..,3]"), {"x": (64, 40, 3)}),
        (signature("x=float32[4,3]"), {"x": (64, 4, 3)}),
    ],
)
def test_random_samples_fit_every_kind_of_model(
    model: Signature, shapes: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    facts = make_samples(Job({}, tmp_path, {"signature": model.to_json()}))
    data = read_dataset(tmp_path / "test.npz")
    assert facts["test"] == len(data) == 64
    assert {name: array.shape for name, array in data.inputs.items()} == shapes
    check_samples(model.inputs, data)


def test_a_users_samples_are_kept_as_calls(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=counted(10, 3), labels=np.arange(10))
    path = tmp_path / "d.npz"
    options = {
        "kind": "arrays",
        "place": str(path),
        "sha256": digest_of(path),
        "inputs": [spec.to_json() for spec in signature("x=float32[4,3]").inputs],
    }
    assert take_samples(Job({}, tmp_path, options)) == {"test": 2, "calibration": 2, "labels": True}
    assert read_dataset(tmp_path / "test.npz").inputs["x"].shape == (2, 4, 3)
