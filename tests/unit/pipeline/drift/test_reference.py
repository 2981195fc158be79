"""How much the reference is asked: less of a model whose answers hold many numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from transload.models.dataset import Dataset, write_dataset
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.probes.feeds import sample_specs
from transload.models.probes.masks import Fill
from transload.models.probes.random_inputs import sample_tensors
from transload.models.signature import Array, Signature, parse_input
from transload.pipeline.drift import reference
from transload.pipeline.drift.recorded_answers import PROBES, read_calls, read_record


class Repeating:
    """A model that answers its input `times` over."""

    device = "cpu"

    def __init__(self, times: int) -> None:
        self.signature = Signature((parse_input("x=float32[batch,8]"),), (parse_input("y=float32[any]"),))
        self.times = times

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"y": np.tile(feeds["x"], (1, self.times))}

    def close(self) -> None:
        pass


Asked = tuple[dict[int, int], dict[Fill, tuple[int, int]]]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Asked]:
    """Return calls by batch of the samples; batch and calls by kind of stress."""

    def ask(times: int) -> Asked:
        model = Repeating(times)
        samples = sample_tensors(sample_specs(model.signature.inputs), {"batch": 20, "*samples": 20}, seed=4)
        write_dataset(tmp_path / "test.npz", Dataset(samples))
        monkeypatch.setattr(reference, "open_for", lambda *_: model)
        inputs = dict.fromkeys(("model", "data"), tmp_path)
        reference.answer(Job(inputs, tmp_path, {"runtime": "torch", "stress": True, "random": True}))
        calls = list(zip(read_record(tmp_path).probes, read_calls(tmp_path / PROBES), strict=True))
        usual = {probe.batch: len(answers) for probe, answers in calls if probe.as_sampled and probe.batch <= 5}
        fills = {probe.fills["x"]: (probe.batch, len(answers)) for probe, answers in calls if probe.fills}
        return usual, fills

    return ask


def test_answers_of_few_numbers_are_asked_of_many_samples(asked: Callable[[int], Asked]) -> None:
    usual, fills = asked(1)
    assert usual == {1: 4, 2: 2, 5: 4}
    assert fills[Fill.BLANK] == (2, 2)
    assert {fills[fill] for fill in fills if fill.is_stress} == {(2, 1)}


def test_answers_of_many_numbers_are_asked_of_few_samples(asked: Callable[[int], Asked]) -> None:
    usual, fills = asked(125)
    assert usual == {1: 2, 2: 2, 5: 2}
    assert fills[Fill.BLANK] == (1, 2)
    assert {fills[fill] for fill in (Fill.LARGE, Fill.TINY, Fill.TAILS, Fill.ONES)} == {(1, 1)}
    # Every second sample of these is another: one alone shows half of it.
    assert {fills[fill] for fill in (Fill.TIES, Fill.NAN, Fill.INFINITE)} == {(2, 1)}


class Table:
    """A model that looks up rows of a table, or computes with its integers; float64 is its own arithmetic."""

    device, table_rows = "cpu", (100,)

    def __init__(self, *, is_index: bool) -> None:
        self.signature = Signature((parse_input("i=int64[batch,8]"),), (parse_input("y=float32[any]"),))
        self.is_index, self.wide = is_index, False

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        integers = feeds["i"]
        if self.is_index and not ((integers >= 0) & (integers < 100)).all():
            raise BadRequest("index out of range", fix="")
        y = np.sin(integers.astype(np.float64 if self.wide else np.float32))
        return {"y": y.astype(np.float64 if self.wide else np.float32)}

    def widen(self, noise: float = 0.0, seed: int = 0) -> None:
        self.wide = True

    def close(self) -> None:
        pass


@pytest.mark.parametrize("is_index", [True, False])
def test_integers_that_choose_rows_have_the_noise_of_the_samples(
    is_index: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Table(is_index=is_index)
    samples = sample_tensors(sample_specs(model.signature.inputs), {"batch": 20, "*samples": 20}, seed=4)
    write_dataset(tmp_path / "test.npz", Dataset(samples))
    monkeypatch.setattr(reference, "open_for", lambda *_: model)
    reference.answer(Job(dict.fromkeys(("model", "data"), tmp_path), tmp_path, {"runtime": "torch", "tries": 60}))
    record = read_record(tmp_path)
    of_integers = [probe for probe in record.probes if probe.reach]
    assert len(of_integers) > 2
    assert any(record.has_truth(probe) for probe in of_integers) is not is_index
