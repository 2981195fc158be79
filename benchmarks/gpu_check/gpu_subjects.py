"""The runtimes under measurement, each over one net in one precision: built, bound to inputs, and read back."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import gpu_nets
import numpy as np
from gpu_assets import ONNX_FILE
from gpu_timing import BoundCalls, DeviceTimer, EventTimer, HostTimer

STORED = {"fp32": "fp32", "tf32": "fp32", "fp16": "fp16", "bf16": "bf16"}  # TF32 is how float32 weights are multiplied


class Unfit(Exception):
    """A runtime that cannot do what its cell says, in one sentence."""


class Runtime(Protocol):
    """A loaded net."""

    timer: DeviceTimer

    def bind(self, array: Any) -> BoundCalls:
        """Return the calls on an input."""

    def facts(self) -> dict[str, Any]:
        """What really runs, read back: runs_on, and what tells it."""

    def release(self) -> None:
        """Give back the memory that a batch left cached."""


def open_runtime(name: str, spec: gpu_nets.NetSpec, precision: str, device: str, *, assets: Path, net: str) -> Runtime:
    """Open a net in a runtime. Raises Unfit where it would run elsewhere or as something else."""
    if name == "onnxruntime":
        return OnnxRuntime(assets / f"{net}.{STORED[precision]}.onnx" / ONNX_FILE, spec, precision, device)
    if name == "tensorflow":
        return TensorFlowRuntime(assets / f"{net}.saved_model", spec, precision, device)
    return TorchRuntime(name, spec, precision, device)


def torch_dtype(precision: str) -> Any:
    """The dtype that weights are stored in."""
    import torch

    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64}[
        STORED.get(precision, precision)
    ]


def set_tf32(*, on: bool) -> None:
    """Set TF32 for this process. The older pair of flags, and never both pairs: PyTorch 2.9 and later raise in
    torch.compile where `fp32_precision` was set beside them."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on


class TorchRuntime:
    """PyTorch: eager, TorchScript (traced and frozen) or torch.compile. No autocast: the weights have the precision."""

    def __init__(self, mode: str, spec: gpu_nets.NetSpec, precision: str, device: str) -> None:
        import torch

        self._torch, self._mode, self._device = torch, mode, torch.device(device)
        set_tf32(on=precision == "tf32")
        net: Any = gpu_nets.InPrecision(gpu_nets.build_net(spec), torch_dtype(precision)).to(self._device)
        self._stored = str(next(net.parameters()).dtype)
        if mode == "torchscript":
            example = torch.from_numpy(gpu_nets.host_input(spec, 2)).to(self._device)
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")  # TorchScript is deprecated as a whole, and still served
                net = torch.jit.freeze(torch.jit.trace(net, example, check_trace=False).eval())  # type: ignore[no-untyped-call]
        elif mode == "compile":
            net = torch.compile(net)
        self._net = net
        self._on_gpu = self._device.type == "cuda"
        self.timer: DeviceTimer = EventTimer(torch) if self._on_gpu else HostTimer()
        self._runs_on: str | None = None

    def bind(self, array: Any) -> BoundCalls:
        """See Runtime."""
        torch, device = self._torch, self._device
        on_host = torch.from_numpy(array)
        on_device = on_host.to(device, copy=True)
        if self._mode == "compile" and len(array) > 1:
            torch._dynamo.maybe_mark_dynamic(on_device, 0)  # one program for all batches above 1, as a server has it
        outputs = self._run(on_device)
        self._runs_on = str(outputs[0].device)

        def copy_in() -> Any:
            on_device.copy_(on_host)
            self.timer.synchronise()

        pinned = on_host.pin_memory() if self._on_gpu else None

        def copy_in_pinned() -> None:
            on_device.copy_(pinned, non_blocking=True)
            self.timer.synchronise()

        return BoundCalls(
            host=lambda: [output.cpu().numpy() for output in self._run(on_host.to(device))],
            device=lambda: self._run(on_device),
            copy_in=copy_in,
            copy_out=lambda: [output.to("cpu", copy=True) for output in outputs],
            copy_in_pinned=copy_in_pinned if self._on_gpu else None,
            bytes_in=array.nbytes,
        )

    def _run(self, tensor: Any) -> Any:
        with self._torch.inference_mode():
            return self._net(tensor)

    def facts(self) -> dict[str, Any]:
        """See Runtime. `runs_on`: the device of the outputs."""
        torch = self._torch
        facts: dict[str, Any] = {
            "runs_on": self._runs_on,
            "weights": self._stored,
            "tf32": bool(torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32),
        }
        if self._mode == "compile":
            from torch._dynamo.utils import counters

            facts["compiled_graphs"] = int(counters["stats"]["unique_graphs"])  # 0: it ran eagerly
        return facts

    def release(self) -> None:
        """See Runtime."""
        if self._on_gpu:
            self._torch.cuda.empty_cache()


class OnnxRuntime:
    """ONNX Runtime through IO binding, on PyTorch's stream so that its events enclose the work."""

    def __init__(self, path: Path, spec: gpu_nets.NetSpec, precision: str, device: str) -> None:
        # Before ONNX Runtime, which then finds CUDA and cuDNN already loaded, in PyTorch's versions.
        import torch  # isort: split

        import onnxruntime

        from transload.serving.runtimes.onnxruntime_session import device_of
        from transload.serving.runtimes.provider_check import number, numbered_device

        if not path.exists():
            raise Unfit(_why_not(path.parent))
        on_gpu = device.startswith("cuda")
        self._ort, self._spec = onnxruntime, spec
        self._kind, self._index = ("cuda" if on_gpu else "cpu"), number(device)
        stream: Any = torch.cuda.Stream(self._index) if on_gpu else None  # type: ignore[no-untyped-call]
        self._stream = stream
        providers: list[Any] = ["CPUExecutionProvider"]
        tf32 = precision == "tf32"
        if on_gpu:
            onnxruntime.preload_dlls()
            options = {"device_id": self._index, "use_tf32": int(tf32), "arena_extend_strategy": "kSameAsRequested",
                       "user_compute_stream": str(stream.cuda_stream)}  # fmt: skip
            providers.insert(0, ("CUDAExecutionProvider", options))
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1  # as the product opens it; the GPU works
        settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        self._session = onnxruntime.InferenceSession(str(path), settings, providers=providers)
        self._session.disable_fallback()
        runs_on = device_of(self._session, device)
        self._facts = {
            "runs_on": runs_on, "providers": list(self._session.get_providers()),
            "tf32": tf32 and on_gpu, "weights": STORED[precision],
        }  # fmt: skip
        if on_gpu and runs_on != numbered_device(device):
            raise Unfit(
                f"{device} was asked for; ONNX Runtime has {self._facts['providers']} and computes on {runs_on}"
            )
        self.timer: DeviceTimer = EventTimer(torch, self._stream) if on_gpu else HostTimer()

    def bind(self, array: Any) -> BoundCalls:
        """See Runtime."""
        value_of = self._ort.OrtValue.ortvalue_from_numpy
        on_device = value_of(array, self._kind, self._index)

        def binding_for(value: Any) -> Any:
            binding = self._session.io_binding()
            binding.bind_ortvalue_input(self._spec.input_name, value)
            for name in self._spec.outputs:
                binding.bind_output(name, self._kind, self._index)
            return binding

        def host() -> Sequence[Any]:  # as serving/runtimes/onnxruntime_session.py answers
            binding = binding_for(value_of(array, self._kind, self._index))
            self._session.run_with_iobinding(binding)
            answers: Sequence[Any] = binding.copy_outputs_to_cpu()
            return answers

        bound = binding_for(on_device)
        self._session.run_with_iobinding(bound)
        return BoundCalls(
            host=host,
            device=lambda: self._session.run_with_iobinding(bound),
            copy_in=lambda: on_device.update_inplace(array),
            copy_out=bound.copy_outputs_to_cpu,
            copy_in_pinned=None,
            bytes_in=array.nbytes,
        )

    def facts(self) -> dict[str, Any]:
        """See Runtime. `runs_on`: by the providers that the session got and where each node was put."""
        return dict(self._facts)

    def release(self) -> None:
        """See Runtime. Its arena keeps what it has."""


class TensorFlowRuntime:
    """A SavedModel of our own lowering, called by its signature. It shows no events: the host's clock and a wait."""

    def __init__(self, path: Path, spec: gpu_nets.NetSpec, precision: str, device: str) -> None:
        import tensorflow as tf

        if not path.exists():
            raise Unfit(_why_not(path))
        gpus = tf.config.list_physical_devices("GPU")
        if device.startswith("cuda") and not gpus:
            raise Unfit(f"{device} was asked for and TensorFlow {tf.__version__} sees no GPU")
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, enable=True)  # else it takes all memory of the GPU
        tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
        self._tf, self._loaded, self._spec = tf, tf.saved_model.load(str(path)), spec
        self._function = self._loaded.signatures["serving_default"]
        self._at = f"/GPU:{device.partition(':')[2] or 0}" if device.startswith("cuda") else "/CPU:0"
        on_gpu = self._at != "/CPU:0"
        self.timer: DeviceTimer = HostTimer(tf.test.experimental.sync_devices if on_gpu else lambda: None)
        self._facts = {"runs_on": None, "tf32": tf.config.experimental.tensor_float_32_execution_enabled()}

    def bind(self, array: Any) -> BoundCalls:
        """See Runtime."""
        tf, name = self._tf, self._spec.input_name

        def tensor() -> Any:
            with tf.device(self._at):
                return tf.identity(tf.constant(array))

        def run(value: Any) -> list[Any]:
            answers = self._function(**{name: value})
            return [answers[output] for output in self._spec.outputs]

        on_device = tensor()
        outputs = run(on_device)
        at = outputs[0].device
        self._facts["runs_on"] = f"cuda:{at.rpartition(':')[2]}" if "GPU" in at else "cpu"

        def copy_in() -> None:
            tensor()
            self.timer.synchronise()

        return BoundCalls(
            host=lambda: [output.numpy() for output in run(tensor())],
            device=lambda: run(on_device),
            copy_in=copy_in,
            copy_out=lambda: [np.array(output.numpy()) for output in outputs],
            copy_in_pinned=None,
            bytes_in=array.nbytes,
        )

    def facts(self) -> dict[str, Any]:
        """See Runtime. `runs_on`: the device of the outputs."""
        return dict(self._facts)

    def release(self) -> None:
        """See Runtime. Its allocator keeps what it has."""


def _why_not(path: Path) -> str:
    note = path.with_name(path.name + ".failed")
    return note.read_text() if note.exists() else f"{path.name} was not made"
