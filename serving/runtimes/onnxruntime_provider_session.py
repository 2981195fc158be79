"""ONNX Runtime with another execution provider: OpenVINO's on the CPU, TensorRT's on CUDA.

ONNX Runtime gives nodes that a provider does not take to another one, and says so in a line of its log. Here such a
model is refused: a row that is named for a provider was computed by it, but for work on shapes and copies.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...models.artifact import Artifact, read_artifact
from ...models.errors import BadRequest, ToolMissing
from ...models.signature import Signature
from ..session import Session
from .int32_feeds import Int32FeedCheck
from .onnxruntime_session import OnnxCpuSession, OnnxCudaSession, providers_of_nodes, session_options
from .openvino_session import cpu_settings
from .payload import check_names, opening
from .provider_check import computed_elsewhere, number, numbered_device

OPENVINO, TENSORRT = "onnxruntime-openvino", "onnxruntime-tensorrt"


@dataclass(frozen=True)
class ExecutionProvider:
    """A provider, as ONNX Runtime names it, for the runtime that is named for it."""

    runtime: str
    name: str
    options: Callable[[str, int], dict[str, str]]  # for a device, and a number of threads


def open_openvino(folder: Path, device: str, threads: int) -> Session:  # noqa: ARG001  (every entry takes it)
    """Open a session over the ONNX artifact in `folder`. It runs on the CPU, whatever `device` says.
    Raises BadRequest where it cannot be opened, or OpenVINO does not take all of it; ToolMissing where ONNX Runtime or
    its provider is not there."""
    artifact = read_artifact(folder)
    with opening(OPENVINO, artifact.path):
        inner, refused = _open(artifact, _OPENVINO, "cpu", threads)
        return OnnxOpenVinoSession(artifact.signature, inner, refused)


def open_tensorrt(folder: Path, device: str, threads: int) -> Session:
    """Open a session over the ONNX artifact in `folder`; TensorRT builds its engine meanwhile.
    Raises BadRequest where it cannot be opened, or TensorRT does not take all of it; ToolMissing where ONNX Runtime,
    its provider or the GPU is not there."""
    artifact = read_artifact(folder)
    with opening(TENSORRT, artifact.path):
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"  # float32 as float32; the provider has no option for it
        inner, refused = _open(artifact, _TENSORRT, device, threads)
        return OnnxCudaSession(artifact.signature, inner, numbered_device(device), refused, TENSORRT)


def _open(artifact: Artifact, provider: ExecutionProvider, device: str, threads: int) -> tuple[Any, type[Exception]]:
    """Open ONNX Runtime's session with one provider, and return it with the error by which it refuses values."""
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

    available = onnxruntime.get_available_providers()
    if provider.name not in available:
        raise ToolMissing(
            f"{provider.runtime} needs {provider.name}, and this build of ONNX Runtime has {', '.join(available)}",
            fix="see transload doctor",
        )
    if provider is _TENSORRT:
        if device == "cpu":
            raise ToolMissing(f"{TENSORRT} runs on a GPU alone", fix="use --device cuda, or the runtime onnxruntime")
        onnxruntime.preload_dlls()
    inner = onnxruntime.InferenceSession(
        str(artifact.path),
        session_options(onnxruntime, threads),
        providers=[(provider.name, provider.options(device, threads))],
    )
    inner.disable_fallback()  # else a provider that fails in a run is replaced without a word
    if inner.get_providers()[0] != provider.name:
        raise ToolMissing(
            f"{provider.name} cannot be loaded here, and ONNX Runtime takes {inner.get_providers()[0]} in its place",
            fix="read the log: it says what the provider lacks",
        )
    if left_out := computed_elsewhere(providers_of_nodes(inner), provider.name):
        raise BadRequest(
            f"{provider.name} does not take all of {artifact.path}, and leaves out {', '.join(left_out)}",
            fix="use the runtime onnxruntime",
        )
    check_names(artifact, [node.name for node in inner.get_inputs()], [node.name for node in inner.get_outputs()])
    return inner, InvalidArgument


def _openvino_options(device: str, threads: int) -> dict[str, str]:  # noqa: ARG001  (of every provider)
    """Return the options by which it computes as the runtime `openvino` does."""
    settings = json.dumps({"CPU": cpu_settings(threads)})  # the provider takes its precision from its own option
    return {"device_type": "CPU", "precision": "FP32", "load_config": settings}


def _tensorrt_options(device: str, threads: int) -> dict[str, str]:  # noqa: ARG001  (of every provider)
    return {"device_id": str(number(device)), "trt_fp16_enable": "0", "trt_int8_enable": "0"}


_OPENVINO = ExecutionProvider(OPENVINO, "OpenVINOExecutionProvider", _openvino_options)
_TENSORRT = ExecutionProvider(TENSORRT, "TensorrtExecutionProvider", _tensorrt_options)


class OnnxOpenVinoSession(OnnxCpuSession):
    """InferenceSession.run with OpenVINO's provider, which computes int64 in int32."""

    def __init__(self, signature: Signature, inner: Any, refused: type[Exception]) -> None:
        super().__init__(signature, inner, "cpu", refused, OPENVINO)
        self._check = Int32FeedCheck(OPENVINO, signature.inputs)
