"""The calls of golden samples: which samples, how many, how large; and the way to disk and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transload.models.dataset import Dataset
from transload.models.job import Job
from transload.models.probes.probe_set import Probe
from transload.models.signature import Bounds, Signature, TensorSpec
from transload.pipeline.drift import golden_samples
from transload.pipeline.drift.golden_samples import GoldenFacts, answer_golden, keep_samples, read_golden

OUT = TensorSpec("a/b", "float32", ("batch", 2))  # no name for a file


class Doubling:
    """A session that doubles its input."""

    device = "cpu"

    def __init__(self, signature: Signature) -> None:
        self.signature = signature

    def run(self, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        return {spec.name: 2 * feeds["x"] for spec in self.signature.outputs}

    def close(self) -> None:
        pass


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[tuple[Any, Any]]]:
    """Inputs and answers of every call, of a model with the input x of this shape, asked these samples."""

    def ask(shape: tuple[int | str, ...], samples: Any, bounds: Bounds | None = None) -> list[tuple[Any, Any]]:
        spec = TensorSpec("x", "float32", shape, ((str(shape[0]), bounds),) if bounds else ())
        signature = Signature((spec,), (TensorSpec("a/b", "float32", shape),))
        monkeypatch.setattr(golden_samples, "open_for", lambda *arguments: Doubling(signature))
        monkeypatch.setattr(golden_samples, "read_test_set", lambda *arguments: Dataset({"x": samples}))
        facts = answer_golden(Job({"artifact": tmp_path}, tmp_path, {"runtime": "onnxruntime"}))
        calls = read_golden(tmp_path, signature, GoldenFacts.from_json(facts).calls)
        return [(call.inputs["x"], call.outputs["a/b"]) for call in calls]

    return ask


def samples(count: int, *sizes: int) -> Any:
    values = np.arange(count * int(np.prod(sizes)), dtype=np.float32)
    return values.reshape(count, *sizes)


def test_the_calls_see_other_samples_each(ask: Callable[..., Any]) -> None:
    data = samples(9, 2)
    calls = ask(("batch", 2), data)
    assert [x.tolist() for x, _ in calls] == [data[:1].tolist(), data[1:2].tolist(), data[2:5].tolist()]
    assert all((y == 2 * x).all() for x, y in calls)


def test_samples_begin_again_where_there_are_too_few(ask: Callable[..., Any]) -> None:
    data = samples(2, 2)
    assert [x[:, 0].tolist() for x, _ in ask(("batch", 2), data)] == [[0], [2], [0, 2, 0]]


@pytest.mark.parametrize(
    ("bounds", "sizes"), [(Bounds(4, 12, 4), [4, 4, 12]), (Bounds(2, 8), [2, 2, 3]), (Bounds(1, 2), [1, 1, 2])]
)
def test_batches_are_those_that_the_model_takes(ask: Callable[..., Any], bounds: Bounds, sizes: list[int]) -> None:
    calls = ask(("batch", 2), samples(30, 2), bounds)
    assert [len(x) for x, _ in calls] == sizes


def test_a_model_of_one_batch_gets_whole_calls(ask: Callable[..., Any]) -> None:
    calls = ask((4, 2), samples(12, 2))
    assert [x.shape for x, _ in calls] == [(4, 2)] * 3
    assert calls[2][0][0, 0] == 16


def test_large_calls_are_left_out_but_for_the_first(ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden_samples, "_MOST_BYTES", 40)  # a sample with its answer takes 16
    assert len(ask(("batch", 2), samples(9, 2))) == 2
    monkeypatch.setattr(golden_samples, "_MOST_BYTES", 1)
    assert len(ask(("batch", 2), samples(9, 2))) == 1


@pytest.mark.parametrize(("factor", "is_kept"), [(1.0, True), (1.5, False)])
def test_checked_calls_are_kept_where_the_copy_answers_them(factor: float, *, is_kept: bool, tmp_path: Path) -> None:
    signature = Signature((TensorSpec("x", "float32", ("batch", 2)),), (TensorSpec("y", "float32", ("batch", 2)),))
    inputs = np.arange(1, 13, dtype=np.float32).reshape(6, 2)
    session: Any = SimpleNamespace(signature=signature, run=lambda feeds: {"y": feeds["x"] * np.float32(factor)})
    check: Any = SimpleNamespace(record=SimpleNamespace(signature=signature), precision="fp32")
    probes: list[Any] = [
        SimpleNamespace(
            probe=Probe(batch), data=Dataset({"x": inputs}), rows=[np.arange(batch)], answers=[{"y": inputs[:batch]}]
        )
        for batch in (1, 2, 5)
    ]
    row = {"tolerance": {"sqnr_db": 60.0}, "sqnr_db": 130.0}
    results: list[Any] = [SimpleNamespace(probe=probe.probe, row=row) for probe in probes]
    keep_samples(tmp_path, session, check, probes, results)
    assert (tmp_path / "golden.json").exists() == is_kept
    if is_kept:
        document = json.loads((tmp_path / "golden.json").read_text())
        assert document["tolerance"] == {"least_db": 60.0, "most_unequal": 0.0}
        assert [call["inputs"][0]["shape"] for call in document["calls"]] == [[1, 2], [2, 2]]
