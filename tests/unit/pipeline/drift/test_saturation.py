"""The reason why 8-bit weights disagree on a processor without VNNI, over a runtime that adds bytes as ONNX Runtime
does there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from transload.models.artifact import write_artifact
from transload.models.dataset import Dataset, write_dataset
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Array, Signature, TensorSpec, check_feeds
from transload.pipeline.drift import jobs, sessions
from transload.pipeline.drift.reference import answer
from transload.serving.runtimes.runtime_table import RUNTIMES, Runtime

SIGNATURE = Signature((TensorSpec("x", "float32", ("batch", 8)),), (TensorSpec("y", "float32", ("batch", 3)),))
BYTES = np.random.default_rng(0).integers(-127, 128, (8, 3)).astype(np.int8)
WORDS = (
    "this processor has no VNNI, so ONNX Runtime adds products of 8-bit weights in 16 bits, where they saturate: with "
    "exact sums the copy agrees in full; quantise it with 7-bit weights (reduce_range=True)"
)


class PairSums:
    """x @ BYTES, where two products at a time are added in 16 bits unless `exact`; plus an error of its own."""

    signature, device = SIGNATURE, "cpu"

    def __init__(self, *, exact: bool, error: float) -> None:
        self.exact, self.error = exact, error

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        check_feeds(SIGNATURE.inputs, feeds)
        products = np.round(feeds["x"]).astype(np.int64)[:, :, None] * BYTES
        pairs = products[:, 0::2] + products[:, 1::2]
        sums = (pairs if self.exact else pairs.clip(-(2**15), 2**15 - 1)).sum(1)
        return {"y": (sums * (1 + self.error)).astype(np.float32)}

    def close(self) -> None:
        pass


@pytest.fixture
def validated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Mapping[str, Any]]:
    module = ModuleType("made_up_runtime")
    monkeypatch.setitem(sys.modules, "made_up_runtime", module)
    fake = Runtime("onnxruntime", (Format.ONNX,), "made_up_runtime:open_session", ())
    monkeypatch.setattr(sessions, "RUNTIMES", {**RUNTIMES, "onnxruntime": fake})

    def validate(
        weights: Array = BYTES, *, saturates: bool = True, is_exact: bool = False, error: float = 0.0
    ) -> Mapping[str, Any]:
        def open_session(folder: Path, device: str, threads: int, *, exact_bytes: bool = False) -> PairSums:
            return PairSums(exact=exact_bytes or is_exact, error=error)

        monkeypatch.setattr(jobs, "saturates_bytes", lambda: saturates)
        module.open_session = lambda *_, **__: PairSums(exact=True, error=0.0)  # type: ignore[attr-defined]
        data, artifact, reference = (tmp_path / name for name in ("data", "artifact", "reference"))
        for folder in (data, artifact, reference):
            folder.mkdir()
        x = np.random.default_rng(1).integers(0, 256, (40, 8)).astype(np.float32)
        write_dataset(data / "test.npz", Dataset({"x": x}))
        initializer = numpy_helper.from_array(weights, "w")
        node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
        y = helper.make_tensor_value_info("y", TensorProto.INT32, ["batch", 3])
        onnx.save(
            helper.make_model(helper.make_graph([node], "g", [], [y], [initializer])),
            artifact / Format.ONNX.spec.payload,
        )
        write_artifact(artifact, Target(Format.ONNX), SIGNATURE)
        answer(Job({"model": artifact, "data": data}, reference, {"runtime": "onnxruntime"}))
        module.open_session = open_session  # type: ignore[attr-defined]
        inputs = {"artifact": artifact, "data": data, "reference": reference}
        return jobs.validate(Job(inputs, tmp_path, {"runtime": "onnxruntime"}))

    return validate


def test_a_row_that_saturates_says_why_and_what_mends_it(validated: Callable[..., Any]) -> None:
    facts = validated()
    assert facts["rows"][0]["verdict"] == "fail"
    assert facts["reason"].endswith(f" dB; {WORDS}")
    reasons = [row["reason"] for row in facts["evidence"]["probes"] if row["verdict"] == "fail"]
    assert reasons
    assert all(reason.endswith(WORDS) for reason in reasons)


def test_what_is_wrong_beside_that_is_told_with_how_exact_sums_agree(validated: Callable[..., Any]) -> None:
    facts = validated(error=0.02)
    assert facts["rows"][0]["verdict"] == "fail"
    assert "with exact sums the copy agrees to 34.0 dB; quantise it" in facts["reason"]


@pytest.mark.parametrize(
    "case",
    [
        {"saturates": False},
        {"weights": BYTES.view(np.uint8)},  # multiplied by another instruction
        {"is_exact": True, "error": 0.02},  # exact sums change nothing
    ],
)
def test_other_faults_are_not_laid_on_the_processor(validated: Callable[..., Any], case: dict[str, Any]) -> None:
    facts = validated(**case)
    assert facts["rows"][0]["verdict"] == "fail"
    assert "VNNI" not in facts["reason"]


def test_what_passes_needs_no_reason(validated: Callable[..., Any]) -> None:
    assert validated(is_exact=True)["reason"] is None
