"""A runtime that is named for a provider of ONNX Runtime answers by it, or refuses. ONNX Runtime is stood in for: no
tested build has these providers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from transload.models.artifact import write_artifact
from transload.models.errors import BadRequest, ToolMissing, TransloadError
from transload.models.formats import Format, Target
from transload.models.signature import Signature, TensorSpec
from transload.serving.runtimes.onnxruntime_provider_session import open_openvino, open_tensorrt

SIGNATURE = Signature((TensorSpec("x", "float32", ("batch",)),), (TensorSpec("y", "float32", ("batch",)),))
OPENVINO, TENSORRT, CPU = "OpenVINOExecutionProvider", "TensorrtExecutionProvider", "CPUExecutionProvider"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / Format.ONNX.spec.payload).write_bytes(b"")
    write_artifact(tmp_path, Target(Format.ONNX), SIGNATURE)
    return tmp_path


def stand_in(
    monkeypatch: pytest.MonkeyPatch, available: list[str], loaded: list[str], nodes: list[tuple[str, str]]
) -> dict[str, Any]:
    """Make ONNX Runtime load these providers, and put nodes there. Return what it is asked for."""
    asked: dict[str, Any] = {}

    def open_inner(path: str, options: Any, providers: list[Any]) -> Any:
        asked["providers"] = providers
        parts = [
            SimpleNamespace(ep_name=provider, get_nodes=lambda kind=kind: [SimpleNamespace(op_type=kind)])
            for kind, provider in nodes
        ]
        return SimpleNamespace(
            disable_fallback=lambda: asked.update(fallback=False),
            get_providers=lambda: loaded,
            get_provider_graph_assignment_info=lambda: parts,
            get_inputs=lambda: [SimpleNamespace(name="x")],
            get_outputs=lambda: [SimpleNamespace(name="y")],
        )

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: available)
    monkeypatch.setattr(onnxruntime, "InferenceSession", open_inner)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    return asked


def refusal(folder: Path) -> TransloadError:
    with pytest.raises(TransloadError) as caught:
        open_openvino(folder, "cpu", 1)
    return caught.value


def test_a_model_that_the_provider_takes_whole_is_opened_in_float32(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = stand_in(monkeypatch, [OPENVINO, CPU], [OPENVINO, CPU], [("Conv", OPENVINO), ("Shape", CPU)])
    assert open_openvino(folder, "cpu", 2).device == "cpu"
    ((name, options),) = asked["providers"]
    assert (name, options["device_type"], options["precision"]) == (OPENVINO, "CPU", "FP32")
    settings = json.loads(options["load_config"])["CPU"]
    assert (settings["INFERENCE_NUM_THREADS"], settings["INFERENCE_PRECISION_HINT"]) == ("2", "f32")
    assert asked["fallback"] is False


def test_a_build_without_the_provider_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, [CPU], [CPU], [("Conv", CPU)])
    error = refusal(folder)
    assert isinstance(error, ToolMissing)
    assert error.what == f"onnxruntime-openvino needs {OPENVINO}, and this build of ONNX Runtime has {CPU}"


def test_a_provider_that_is_replaced_without_a_word_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, [OPENVINO, CPU], [CPU], [("Conv", CPU)])
    error = refusal(folder)
    assert isinstance(error, ToolMissing)
    assert error.what == f"{OPENVINO} cannot be loaded here, and ONNX Runtime takes {CPU} in its place"


def test_a_model_that_the_provider_takes_in_part_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, [OPENVINO, CPU], [OPENVINO, CPU], [("Conv", OPENVINO), ("Erf", CPU)])
    error = refusal(folder)
    assert isinstance(error, BadRequest)
    assert error.what == f"{OPENVINO} does not take all of {folder / Format.ONNX.spec.payload}, and leaves out Erf"


def test_tensorrt_says_its_gpu_and_is_none_for_the_cpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "")  # the session sets it, and must not set ours
    asked = stand_in(monkeypatch, [TENSORRT, CPU], [TENSORRT, CPU], [("Conv", TENSORRT)])
    assert open_tensorrt(folder, "cuda:1", 1).device == "cuda:1"
    assert asked["providers"] == [(TENSORRT, {"device_id": "1", "trt_fp16_enable": "0", "trt_int8_enable": "0"})]
    with pytest.raises(ToolMissing) as caught:
        open_tensorrt(folder, "cpu", 1)
    assert caught.value.what == "onnxruntime-tensorrt runs on a GPU alone"
