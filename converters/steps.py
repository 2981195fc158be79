"""The table of conversion steps, as data: routing and `transload formats` read it without importing a framework.

A step's entry is imported in a worker only, and is a `models.job.Work`: it reads the artifact (or the source) in
inputs["source"], writes payload and record into `out`, and takes calibration data from inputs["data"] where it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from ..models.environments import Environment
from ..models.formats import Format, Precision, Target

_HERE = "transload.converters"


@dataclass(frozen=True, slots=True)
class Step:
    """One conversion. `source` is None where it starts from the model in PyTorch."""

    name: str
    source: Target | None
    target: Target
    entry: str  # "transload.converters.to_tflite.tflite_from_onnx:tflite_int8"
    requires: tuple[str, ...]  # modules that the worker must be able to find
    cost: float  # lower is taken first; counts fidelity, then time
    calibrates: bool = False  # takes inputs["data"]
    environment: Environment | None = None  # another Python that may run it
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)  # what its entry finds in job.options
    on_request: str = ""  # the option of a conversion that opens it: "flex"; nothing where it needs none
    stands_in_for: str = ""  # another step, that this one does in another way: taken only where that one gave nothing
    package: str = ""  # the third party that brought it, with its version; nothing where it is ours


def _t(form: Format, precision: Precision = Precision.FP32) -> Target:
    return Target(form, precision)


def _tflite(name: str, form: Format, requires: tuple[str, ...], cost: float) -> tuple[Step, ...]:
    """TFLite in each precision, from ONNX by our lowering or from a SavedModel."""
    return tuple(
        Step(
            name if precision is Precision.FP32 else f"{name}-{precision.value}",
            _t(form),
            _t(Format.TFLITE, precision),
            f"{_HERE}.to_tflite.tflite_from_onnx:tflite_{precision.value.replace('-', '_')}",
            requires,
            cost,
            calibrates=precision is Precision.INT8,
        )
        for precision in (Precision.FP32, Precision.FP16, Precision.INT8_DYNAMIC, Precision.INT8)
    )


def _with_flex(steps: Iterable[Step], cost: float) -> tuple[Step, ...]:
    """The same with TensorFlow's operators where TFLite has no kernel. None calibrates: TensorFlow's own interpreter,
    which runs the samples, has no Flex delegate."""
    return tuple(
        replace(step, name=f"{step.name}@flex", cost=cost, options={"flex": True}, on_request="flex",
                stands_in_for=step.name)
        for step in steps if not step.calibrates
    )  # fmt: skip


_TF = ("tensorflow",)
_ONNX2TF = ("onnx2tf", "onnxsim", "onnx_graphsurgeon", "sng4onnx", "tf_keras")  # it declares none of what it needs

_TFLITE = (
    *_tflite("lowering-tflite", Format.ONNX, ("onnx", *_TF), 1),
    *_tflite("tflite", Format.SAVED_MODEL, _TF, 2),  # of a SavedModel that was given, or that onnx2tf made
)

STEPS: tuple[Step, ...] = (
    Step("torch.export", None, _t(Format.PT2), f"{_HERE}.to_pytorch.pt2_from_source:pt2_from_source", ("torch",), 1),
    Step("torch.jit", None, _t(Format.TORCHSCRIPT),
         f"{_HERE}.to_pytorch.torchscript_from_source:torchscript_from_source", ("torch",), 1),
    Step("torch.onnx-dynamo", _t(Format.PT2), _t(Format.ONNX), f"{_HERE}.to_onnx.onnx_from_pt2:onnx_from_pt2",
         ("torch", "onnx", "onnxscript"), 1),
    Step("torch.onnx-torchscript", None, _t(Format.ONNX), f"{_HERE}.to_onnx.onnx_from_source:onnx_from_source",
         ("torch", "onnx"), 4),
    # Each exporter once more at another opset, where operators are spelled differently.
    Step("torch.onnx-dynamo@18", _t(Format.PT2), _t(Format.ONNX), f"{_HERE}.to_onnx.onnx_from_pt2:onnx_from_pt2",
         ("torch", "onnx", "onnxscript"), 5, options={"opset": 18}, stands_in_for="torch.onnx-dynamo"),
    Step("torch.onnx-torchscript@20", None, _t(Format.ONNX), f"{_HERE}.to_onnx.onnx_from_source:onnx_from_source",
         ("torch", "onnx"), 7, options={"opset": 20}, stands_in_for="torch.onnx-torchscript"),
    Step("onnxruntime-qdq", _t(Format.ONNX), _t(Format.ONNX, Precision.INT8),
         f"{_HERE}.to_onnx.onnx_precisions:onnx_int8_from_onnx", ("onnx", "onnxruntime"), 1, calibrates=True),
    Step("onnxruntime-fp16", _t(Format.ONNX), _t(Format.ONNX, Precision.FP16),
         f"{_HERE}.to_onnx.onnx_precisions:onnx_fp16_from_onnx", ("onnx", "onnxruntime"), 1),
    Step("lowering", _t(Format.ONNX), _t(Format.SAVED_MODEL),
         f"{_HERE}.to_saved_model.saved_model_from_onnx:saved_model_from_onnx", ("onnx", *_TF), 1),
    Step("onnx2tf", _t(Format.ONNX), _t(Format.SAVED_MODEL),
         f"{_HERE}.to_saved_model.saved_model_by_onnx2tf:saved_model_by_onnx2tf",
         ("onnx", *_ONNX2TF, *_TF), 5),
    *_TFLITE,
    *_with_flex(_TFLITE, 30),  # behind every route without: a runtime that needs less runs in more places
    Step("litert-torch", _t(Format.PT2), _t(Format.TFLITE), f"{_HERE}.to_tflite.tflite_by_litert:tflite_from_pt2",
         ("torch", "litert_torch"), 6, environment=Environment("litert")),
    # From TensorFlow.
    Step("keras.export", _t(Format.KERAS), _t(Format.SAVED_MODEL),
         f"{_HERE}.to_saved_model.saved_model_from_keras:saved_model_from_keras", ("keras", *_TF), 1),
    Step("tf2onnx", _t(Format.SAVED_MODEL), _t(Format.ONNX),
         f"{_HERE}.to_onnx.onnx_from_tensorflow:onnx_from_saved_model", ("tf2onnx", "onnx", *_TF), 2),
    Step("tf2onnx-tflite", _t(Format.TFLITE), _t(Format.ONNX), f"{_HERE}.to_onnx.onnx_from_tensorflow:onnx_from_tflite",
         ("tf2onnx", "onnx", "ai_edge_litert", *_TF), 3),
    # From TorchScript.
    Step("torchscript.onnx", _t(Format.TORCHSCRIPT), _t(Format.ONNX),
         f"{_HERE}.to_onnx.onnx_from_torchscript:onnx_from_torchscript", ("torch", "onnx"), 4),
    Step("torchscript.export", _t(Format.TORCHSCRIPT), _t(Format.PT2),
         f"{_HERE}.to_pytorch.pt2_from_torchscript:pt2_from_torchscript", ("torch",), 4),
    # From ONNX to PyTorch: a readable module with its weights, and the exported program of it.
    Step("onnx-to-torch", _t(Format.ONNX), _t(Format.PT2), f"{_HERE}.to_pytorch.pt2_from_onnx:pt2_from_onnx",
         ("torch", "onnx", "safetensors"), 5),
)  # fmt: skip


def missing(requires: tuple[str, ...], find: Callable[[str], object | None] = find_spec) -> str | None:
    """What keeps something with these requirements from running here, or None. Looks; imports nothing."""
    absent = [name for name in dict.fromkeys(requires) if find(name) is None]
    return f"needs {', '.join(absent)}" if absent else None
