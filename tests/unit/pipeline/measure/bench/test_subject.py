"""The measured side: what is timed, and what is not."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from transload.models.dataset import Dataset
from transload.models.errors import BadRequest, SessionLost
from transload.models.signature import Array, Signature, TensorSpec
from transload.pipeline.measure.bench.subject import MeasuredSession

SIGNATURE = Signature((TensorSpec("x", "float32", ("batch", 2)),), (TensorSpec("y", "float32", ("batch", 2)),))
DATA = Dataset({"x": np.arange(20, dtype=np.float32).reshape(10, 2), "unused": np.zeros(10)}, np.zeros(10))


class Clock:
    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        self.ns += 10  # reading it takes 10 ns
        return self.ns


class Session:
    """Takes 1 ms a call, 100 ms the first one."""

    signature = SIGNATURE
    device = "cpu"

    def __init__(self, clock: Clock) -> None:
        self.clock, self.closed, self.wrong = clock, False, 0.0
        self.fed: list[Any] = []
        self.collected: list[bool] = []

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        self.clock.ns += 1_000_000 if self.fed else 100_000_000
        self.fed.append(feeds["x"])
        self.collected.append(gc.isenabled())
        assert list(feeds) == ["x"]
        return {"y": feeds["x"] + np.float32(self.wrong)}

    def close(self) -> None:
        self.closed = True


def made() -> tuple[MeasuredSession, Session]:
    clock = Clock()
    session = Session(clock)
    return MeasuredSession(session, DATA, clock), session


def test_prepare_tells_the_first_call_from_the_others() -> None:
    subject, _ = made()
    facts = subject.prepare(2)
    assert facts["first_call_s"] == pytest.approx(0.1, rel=1e-6)
    assert facts["call_s"] == pytest.approx(0.001, rel=1e-4)
    assert facts["timer_s"] == pytest.approx(1e-8)
    assert facts["warm_up_s"] == pytest.approx(0.1 + 4 * 0.03, rel=1e-4)
    ends, calls = zip(*facts["windows"], strict=True)
    assert ends == pytest.approx([0.1, 0.13, 0.16, 0.19, 0.22], rel=1e-4)
    assert calls == pytest.approx([0.1, 0.001, 0.001, 0.001, 0.001], rel=1e-4)


def test_a_chunk_times_each_call_and_nothing_else_with_the_collector_off() -> None:
    subject, session = made()
    subject.prepare(2)
    del session.collected[:]
    assert gc.isenabled()
    samples = subject.chunk(2, 7)["samples_s"]
    assert samples == pytest.approx([0.00100001] * 7)
    assert session.collected == [False] * 7
    assert gc.isenabled()


def test_feeds_are_real_samples_in_turn_each_of_the_batch() -> None:
    subject, session = made()
    subject.prepare(4)
    assert {feed.shape for feed in session.fed} == {(4, 2)}
    assert len({feed.tobytes() for feed in session.fed}) == 2  # ten samples hold two batches of four
    assert session.fed[0].tolist() == DATA.inputs["x"][:4].tolist()


def test_a_batch_beyond_the_test_set_begins_again() -> None:
    subject, session = made()
    subject.prepare(25)
    assert session.fed[0].shape == (25, 2)
    assert session.fed[0][10].tolist() == session.fed[0][0].tolist()


def test_what_cannot_be_fed_is_refused_in_a_sentence() -> None:
    subject, _ = made()
    with pytest.raises(BadRequest, match="a batch holds 1 sample or more, got 0"):
        subject.prepare(0)
    with pytest.raises(BadRequest, match="no samples to measure with"):
        MeasuredSession(Session(Clock()), Dataset({"x": np.zeros((0, 2), np.float32)}))
    other = MeasuredSession(Session(Clock()), Dataset({"z": np.zeros((3, 2), np.float32)}))
    with pytest.raises(BadRequest, match="the model takes the inputs x, and the data has z"):
        other.prepare(1)


def test_the_warm_up_goes_on_while_calls_get_faster() -> None:
    clock = Clock()

    class Warming(Session):
        def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
            self.clock.ns += max(1_000_000, 10_000_000 - 100_000 * len(self.fed))
            self.fed.append(feeds["x"])
            return {"y": feeds["x"]}

    facts = MeasuredSession(Warming(clock), DATA, clock).prepare(2)
    assert facts["call_s"] == pytest.approx(0.001, rel=0.05)

    class Never(Warming):
        def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
            self.clock.ns += round(1e9 * 0.9 ** len(self.fed)) + 1_000_000
            self.fed.append(feeds["x"])
            return {"y": feeds["x"]}

    assert MeasuredSession(Never(clock), DATA, clock).prepare(2)["warm_up_s"] < 10


def test_a_model_whose_answers_change_is_no_answer() -> None:
    subject, session = made()
    subject.prepare(2)
    subject.chunk(2, 3)
    session.wrong = 1e-6
    subject.chunk(2, 3)
    session.wrong = 0.5
    with pytest.raises(SessionLost, match="its answers change: y of one feed differs from call to call"):
        subject.chunk(2, 3)


def test_the_first_answer_is_told() -> None:
    subject, _ = made()
    assert subject.prepare(2)["answers"] == {"outputs": [[0.0, 1.0, 2.0, 3.0]], "shapes": [[2, 2]]}


def test_device_and_close_are_the_sessions() -> None:
    subject, session = made()
    assert subject.device() == "cpu"
    subject.close()
    assert session.closed


def test_a_model_without_a_batch_is_fed_whole_calls_by_the_signature_of_whose_data_it_is() -> None:
    nodes = TensorSpec("x", "float32", ("nodes", 2))
    signature = Signature((nodes, TensorSpec("edges", "int64", (2, "edges"))), (nodes,))

    class WholeCalls(Session):
        def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
            self.clock.ns += 1_000_000
            self.fed.append(feeds)
            return {"y": feeds["x"]}

    clock = Clock()
    session = WholeCalls(clock)
    data = Dataset({"x": np.zeros((3, 5, 2), np.float32), "edges": np.zeros((3, 2, 4), np.int64)})
    MeasuredSession(session, data, clock, signature=signature).prepare(1)
    assert {tuple(value.shape for value in feeds.values()) for feeds in session.fed} == {((5, 2), (2, 4))}
