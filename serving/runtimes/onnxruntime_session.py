"""ONNX Runtime: an `onnx` artifact on the CPU, or on CUDA through IO binding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...models.artifact import read_artifact
from ...models.signature import Array, Signature
from ..checked_session import CheckedSession
from ..session import Session
from .payload import check_names, opening
from .provider_check import number, numbered_device, placed

NAME = "onnxruntime"
_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def open_session(
    folder: Path,
    device: str,
    threads: int,
    *,
    level: str = "ORT_ENABLE_ALL",
    execution_mode: str = "ORT_SEQUENTIAL",
    allow_spinning: bool = True,
    dynamic_block_base: int = 0,
    denormal_as_zero: bool = False,
    io_binding: bool = False,
    exact_bytes: bool = False,
) -> Session:
    """Open a session over the ONNX artifact in `folder`. If CUDA was requested and is not used, `Session.device` tells.
    `level` names the GraphOptimizationLevel, `execution_mode` the ExecutionMode; `io_binding` binds feeds on the CPU,
    too. The others are entries of a session's configuration.
    Raises BadRequest where it cannot be opened, ToolMissing where ONNX Runtime is not there."""
    artifact = read_artifact(folder)
    with opening(NAME, artifact.path):
        import onnxruntime
        from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

        options = session_options(onnxruntime, threads, level, execution_mode)
        _configure(options, allow_spinning, dynamic_block_base, denormal_as_zero, exact_bytes)
        inner = onnxruntime.InferenceSession(str(artifact.path), options, providers=_providers(onnxruntime, device))
        inner.disable_fallback()  # else a provider that fails in a run is replaced without a word
        check_names(artifact, [node.name for node in inner.get_inputs()], [node.name for node in inner.get_outputs()])
        runs_on = device_of(inner, device)
    on_cpu = OnnxBoundSession if io_binding else OnnxCpuSession
    kind = OnnxCudaSession if runs_on.startswith("cuda") else on_cpu
    return kind(artifact.signature, inner, runs_on, InvalidArgument)


def session_options(
    onnxruntime: Any, threads: int, level: str = "ORT_ENABLE_ALL", execution_mode: str = "ORT_SEQUENTIAL"
) -> Any:
    """Return the options of a session in this many threads; `level` names the GraphOptimizationLevel."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.execution_mode = getattr(onnxruntime.ExecutionMode, execution_mode)
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = threads if execution_mode == "ORT_PARALLEL" else 1
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def _configure(
    options: Any, allow_spinning: bool, dynamic_block_base: int, denormal_as_zero: bool, exact_bytes: bool
) -> None:
    """Add the entries that differ from ONNX Runtime's own defaults."""
    if not allow_spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    if dynamic_block_base:
        options.add_session_config_entry("session.dynamic_block_base", str(dynamic_block_base))
    if denormal_as_zero:
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
    if exact_bytes:
        options.add_session_config_entry("session.x64quantprecision", "1")


def _providers(onnxruntime: Any, device: str) -> list[Any]:
    """CUDA first where it was asked for and is built in; naming one that is not only earns a warning."""
    if device == "cpu" or _CUDA not in onnxruntime.get_available_providers():
        return [_CPU]
    onnxruntime.preload_dlls()  # CUDA and cuDNN out of their wheels, where no system has them
    # TF32 is on by default, and alone moves a copy below 60 dB (docs/design/serving.md).
    return [(_CUDA, {"device_id": number(device), "use_tf32": 0}), _CPU]


def device_of(inner: Any, requested: str) -> str:
    """Where a loaded session runs: by the providers that it really got, and by where each node was put.
    Never by `get_available_providers`: that is what was compiled in (measured: CUDA listed, CPU used, one log line)."""
    if requested == "cpu" or inner.get_providers()[0] != _CUDA:
        return "cpu"
    names = {_CUDA: numbered_device(requested), _CPU: "cpu"}
    nodes = ((operator, names.get(provider, provider)) for operator, provider in providers_of_nodes(inner))
    return placed(nodes, numbered_device(requested))


def providers_of_nodes(inner: Any) -> list[tuple[str, str]]:
    """Return operator type and execution provider of each node of a loaded session."""
    return [
        (node.op_type, part.ep_name) for part in inner.get_provider_graph_assignment_info() for node in part.get_nodes()
    ]


class _OnnxSession(CheckedSession):
    """What both share: the loaded model, and the names of its inputs."""

    def __init__(
        self, signature: Signature, inner: Any, device: str, refused: type[Exception], runtime: str = NAME
    ) -> None:
        super().__init__(runtime, signature, device, (refused,))
        self._inner = inner
        self._inputs = tuple(spec.name for spec in signature.inputs)

    def _release(self) -> None:
        self._inner = None


class OnnxCpuSession(_OnnxSession):
    """InferenceSession.run. It reads a contiguous feed where it lies, and every answer is in memory of its own."""

    def _answer(self, values: Sequence[Array]) -> Sequence[Array]:
        answers: Sequence[Array] = self._inner.run(self._outputs, dict(zip(self._inputs, values, strict=True)))
        return answers

    def bind(self, feeds: Mapping[str, Array]) -> Callable[[], Sequence[Array]]:
        """See serving.session.BindingSession.bind."""
        return partial(self._inner.run, self._outputs, dict(zip(self._inputs, self._check(feeds), strict=True)))


class OnnxBoundSession(_OnnxSession):
    """IO binding on the CPU: each call binds its feeds where they lie, and takes the outputs as ONNX Runtime made
    them."""

    def _answer(self, values: Sequence[Array]) -> Sequence[Array]:
        binding = self._inner.io_binding()
        for name, value in zip(self._inputs, values, strict=True):
            binding.bind_cpu_input(name, np.ascontiguousarray(value))
        for name in self._outputs:
            binding.bind_output(name)
        self._inner.run_with_iobinding(binding)
        answers: Sequence[Array] = binding.copy_outputs_to_cpu()
        return answers


class OnnxCudaSession(_OnnxSession):
    """IO binding: inputs are put on the device, and outputs stay there until the run is done."""

    def _answer(self, values: Sequence[Array]) -> Sequence[Array]:
        from onnxruntime import OrtValue

        index = number(self.device)
        binding = self._inner.io_binding()
        for name, value in zip(self._inputs, values, strict=True):
            on_device = OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value), "cuda", index)
            binding.bind_ortvalue_input(name, on_device)
        for name in self._outputs:
            binding.bind_output(name, "cuda", index)
        self._inner.run_with_iobinding(binding)  # waits for the device
        answers: Sequence[Array] = binding.copy_outputs_to_cpu()
        return answers
