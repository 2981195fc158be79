"""The worker's side of load: connections, orders, and a model that computes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.array_file import read_arrays
from transload.models.dataset import Dataset
from transload.models.errors import SessionLost
from transload.models.signature import Array, Signature, TensorSpec
from transload.pipeline.measure.bench.subject import SubjectOptions
from transload.pipeline.measure.load.load_records import LoadRecords
from transload.pipeline.measure.load.load_subject import LoadOrder, LoadSubject, connections_of
from transload.pipeline.result.load_cases import parse_load
from transload.serving.noop_session import NoopSession

SIGNATURE = Signature(
    (TensorSpec("x", "float32", ("batch", 2)),),
    (TensorSpec("y", "int64", ("batch", 3)), TensorSpec("z", "float32", ("other",))),
)
DATA = Dataset({"x": np.arange(20, dtype=np.float32).reshape(10, 2)}, np.zeros(10))


class Session:
    signature = Signature(SIGNATURE.inputs, (TensorSpec("y", "float32", ("batch", 2)),))
    device = "cpu"

    def __init__(self) -> None:
        self.calls, self.retries, self.closed = 0, 0, False
        self.wrong_from = 1 << 60

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        self.calls += 1
        self.retries += self.calls % 100 == 0
        return {"y": feeds["x"] + np.float32(self.calls >= self.wrong_from)}

    def close(self) -> None:
        self.closed = True


def subject(session: Session) -> LoadSubject:
    options = SubjectOptions(runtime="onnxruntime", folder="", feeds="")
    return LoadSubject(options, session, DATA, session.signature)


def order(scenario: str, **fields: Any) -> dict[str, Any]:
    values: dict[str, Any] = {"batch": 1, "seconds": 0.05, "seed": 0, "file": "r.npz", **fields}
    return LoadOrder(scenario=scenario, **values).to_json()


@pytest.mark.parametrize("scenario", ["single-stream", "offline"])
def test_the_requests_of_an_order_lie_in_its_file(
    scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session()
    facts = subject(session).measure(**order(scenario))
    requests = LoadRecords.from_arrays(read_arrays(tmp_path / "r.npz"))
    assert 10 < len(requests) < session.calls
    assert (facts["device"], facts["connections"], facts["samples"]) == ("cpu", 1, 1)
    assert facts["retries"] >= 1  # a request that was sent twice is not hidden


def test_a_model_whose_answers_change_under_load_gives_no_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session()
    session.wrong_from = 12  # behind the answers to eight feeds and a first call
    with pytest.raises(SessionLost, match="its answers change: y of one feed differs"):
        subject(session).measure(**order("single-stream"))


def test_the_harness_is_measured_without_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session()
    subject(session).measure(**order("single-stream", noop=True))
    assert (session.calls, session.closed) == (0, False)


def test_a_model_that_computes_nothing_answers_in_the_shapes_of_the_signature() -> None:
    session = NoopSession(SIGNATURE)
    for batch in (1, 4):
        answer = session.run({"x": np.ones((batch, 2), dtype=np.float32)})
        assert {name: (value.dtype.name, value.shape) for name, value in answer.items()} == {
            "y": ("int64", (batch, 3)),
            "z": ("float32", (1,)),
        }
        assert not any(np.any(value) for value in answer.values())
    answer["y"][:] = 7  # the caller's own
    assert not np.any(session.run({"x": np.ones((4, 2), dtype=np.float32)})["y"])


def test_each_scenario_has_its_connections() -> None:
    texts = ["closed:3", "single-stream", "multi-stream:8", "poisson:5", "server:5@1ms", "offline"]
    assert [connections_of(case) for case in parse_load(texts)] == [3, 1, 1, 32, 32, 8]
