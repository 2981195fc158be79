"""OpenVINO: an `onnx` artifact on the CPU, in float32, one call at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...models.artifact import read_artifact
from ...models.errors import BadRequest
from ...models.signature import Array, Signature, TensorSpec
from ..checked_session import CheckedSession
from ..session import Session
from .int32_feeds import Int32FeedCheck
from .payload import check_names, opening

NAME = "openvino"


def open_session(folder: Path, device: str, threads: int) -> Session:  # noqa: ARG001  (every entry takes it)
    """Open a session over the ONNX artifact in `folder`. It runs on the CPU, whatever `device` says.
    Raises BadRequest where it cannot be opened, ToolMissing where OpenVINO is not there."""
    artifact = read_artifact(folder)
    with opening(NAME, artifact.path):
        import openvino

        core = openvino.Core()
        model = core.read_model(str(artifact.path))
        inputs = _names(model.inputs, artifact.signature.inputs)
        outputs = _names(model.outputs, artifact.signature.outputs)
        check_names(artifact, inputs, outputs)
        compiled = core.compile_model(model, "CPU", cpu_settings(threads))
        precision = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        if precision != "f32":
            raise BadRequest(f"{NAME} computes {artifact.path} in {precision}", fix="use the runtime onnxruntime")
        return OpenVinoSession(artifact.signature, compiled, inputs, outputs)


def cpu_settings(threads: int) -> dict[str, Any]:
    """Return the settings by which its figures compare with those of other runtimes.
    By default it computes float32 in bfloat16 where the processor has that, quantises the activations of reduced
    weights, and binds its threads to cores."""
    return {
        "PERFORMANCE_HINT": "LATENCY",
        "EXECUTION_MODE_HINT": "ACCURACY",
        "INFERENCE_PRECISION_HINT": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
        "INFERENCE_NUM_THREADS": str(threads),
        "ENABLE_CPU_PINNING": "NO",
    }


def _names(ports: Sequence[Any], specs: Sequence[TensorSpec]) -> list[str]:
    """Return a name for each port, that of the record where the port has several."""
    wanted = {spec.name for spec in specs}
    return [next(iter(sorted(port.get_names() & wanted or port.get_names())), "") for port in ports]


class OpenVinoSession(CheckedSession):
    """A compiled model, and one request. `inputs` and `outputs` are the names of its ports, in its order."""

    def __init__(self, signature: Signature, compiled: Any, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        devices = compiled.get_property("EXECUTION_DEVICES")
        super().__init__(NAME, signature, "cpu" if list(devices) == ["CPU"] else ",".join(devices))
        at = {spec.name: at for at, spec in enumerate(signature.inputs)}
        self._feeds = [at[name] for name in inputs]
        self._fetches = [list(outputs).index(spec.name) for spec in signature.outputs]
        self._request = compiled.create_infer_request()
        self._check = Int32FeedCheck(NAME, signature.inputs)

    def _answer(self, values: Sequence[Array]) -> Sequence[Array]:
        # Contiguous feeds are read where they lie. Answers are copied out of the request, which uses its memory again.
        answers = self._request.infer([values[at] for at in self._feeds], share_inputs=True).to_tuple()
        return [answers[at] for at in self._fetches]

    def _release(self) -> None:
        del self._request
