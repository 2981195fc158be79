"""Answers come back from shards as they were written, and neither side holds more than one of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from transload.models.array_file import write_arrays
from transload.models.errors import BadRequest
from transload.models.probes.evidence import Answers
from transload.pipeline.drift.answer_shards import RecordedSeries, write_series

MEGABYTE = 1 << 20


def test_answers_come_back_whatever_the_outputs_are_called(tmp_path: Path) -> None:
    calls = [{"file": np.arange(3), "a/b": np.array(2.5), "allow_pickle": np.zeros((0, 2))} for _ in range(11)]
    write_series(tmp_path / "x", calls)
    back = RecordedSeries(tmp_path / "x")
    assert len(back) == 11
    assert list(back[10]) == ["file", "a/b", "allow_pickle"]
    assert isinstance(back[10]["a/b"], np.ndarray)
    np.testing.assert_array_equal(back[10]["a/b"], 2.5)


def test_calls_of_unlike_shapes_and_dtypes_keep_their_order(tmp_path: Path) -> None:
    shapes = [(4, 2), (4, 2), (4, 3), (4, 2), (1, 2)]
    calls = [{"y": np.full(shape, at, np.int32 if at == 3 else np.float32)} for at, shape in enumerate(shapes)]
    write_series(tmp_path / "x", calls)
    back = RecordedSeries(tmp_path / "x")
    assert [(call["y"].shape, str(call["y"].dtype), call["y"].flat[0]) for call in back] == [
        (call["y"].shape, str(call["y"].dtype), at) for at, call in enumerate(calls)
    ]


def large_calls(count: int) -> Iterator[Answers]:
    return ({"y": np.full((256, 1024), at, np.float32)} for at in range(count))  # a megabyte each


def test_a_call_is_found_in_its_shard(tmp_path: Path) -> None:
    write_series(tmp_path / "x", large_calls(10))
    assert len(list((tmp_path / "x").iterdir())) == 3
    back = RecordedSeries(tmp_path / "x")
    assert [int(back[at]["y"][0, 0]) for at in (9, 0, 5, -1)] == [9, 0, 5, 9]
    assert [int(call["y"][0, 0]) for call in back[3:9:2]] == [3, 5, 7]
    with pytest.raises(IndexError):
        back[10]


def test_no_side_holds_more_than_a_shard(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        write_series(tmp_path / "x", large_calls(40))
        assert sum(len(call["y"]) for call in RecordedSeries(tmp_path / "x")) == 40 * 256
        assert tracemalloc.get_traced_memory()[1] < 16 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_calls_of_few_bytes_fill_a_shard_by_their_number(tmp_path: Path) -> None:
    write_series(tmp_path / "x", ({"y": np.array(at)} for at in range(5000)))
    assert len(list((tmp_path / "x").iterdir())) == 2
    assert [int(call["y"]) for call in RecordedSeries(tmp_path / "x")] == list(range(5000))


def test_answers_replace_those_before_them(tmp_path: Path) -> None:
    write_series(tmp_path / "x", large_calls(5))
    write_series(tmp_path / "x", large_calls(1))
    assert len(RecordedSeries(tmp_path / "x")) == 1


@pytest.mark.parametrize("name", ["0", "first", "7"])
def test_a_folder_of_other_files_is_refused(tmp_path: Path, name: str) -> None:
    write_arrays(tmp_path / f"{name}.npz", {"y": np.zeros(3)})
    with pytest.raises(BadRequest) as caught:
        RecordedSeries(tmp_path)
    assert caught.value.what == f"{tmp_path} holds no recorded answers"
