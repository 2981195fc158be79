"""ONNX Runtime's CUDA session with a stand-in for the device: what a bound call holds, which is what is timed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from transload.models.errors import BadRequest
from transload.models.signature import Signature, parse_input
from transload.serving.runtimes.onnxruntime_session import OnnxCudaSession

SIGNATURE = Signature((parse_input("x=float32[batch,2]"),), (parse_input("y=float32[batch,2]"),))


class Inner:
    """An InferenceSession, and its binding, that doubles what is bound."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def io_binding(self) -> Inner:
        return self

    def bind_ortvalue_input(self, name: str, value: Any) -> None:
        self.log.append(f"bind {name}")
        self.value = value

    def bind_output(self, name: str, kind: str, index: int) -> None:
        self.log.append(f"output {name} on {kind}:{index}")

    def run_with_iobinding(self, binding: Inner) -> None:
        self.log.append("run")
        self.answer = 2 * self.value

    def copy_outputs_to_cpu(self) -> list[Any]:
        self.log.append("copy out")
        return [self.answer]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []

    class Value:
        @staticmethod
        def ortvalue_from_numpy(array: Any, kind: str, index: int) -> Any:
            assert array.flags.c_contiguous
            lines.append(f"copy in to {kind}:{index}")
            return array

    monkeypatch.setattr("onnxruntime.OrtValue", Value)
    return lines


def test_a_bound_call_holds_both_copies_and_the_run(log: list[str]) -> None:
    session = OnnxCudaSession(SIGNATURE, Inner(log), "cuda:1", ValueError)
    call = session.bind({"x": np.ones((3, 2), dtype=np.float32)})
    assert log == []  # checked ahead of the call, and nothing more
    for _ in range(2):
        log.clear()
        np.testing.assert_array_equal(call()[0], np.full((3, 2), 2))
        assert log == ["copy in to cuda:1", "bind x", "output y on cuda:1", "run", "copy out"]


def test_feeds_are_checked_ahead_of_the_call(log: list[str]) -> None:
    session = OnnxCudaSession(SIGNATURE, Inner(log), "cuda:0", ValueError)
    with pytest.raises(BadRequest):
        session.bind({"x": np.ones((3, 5), dtype=np.float32)})
