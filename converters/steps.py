"""The table of conversion steps, as data: routing and `transload formats` read it without importing a framework.

A step's entry is imported only in a worker, and is a `models.job.Work`. It reads the artifact (or the source) in
inputs["source"], and the data in inputs["data"] if the step calibrates, or calls the model and the data is the user's.
It writes payload and record to `out`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..models.environments import PythonEnvironment, find_installed
from ..models.formats import Format, Precision, Target
from ..models.user_python.inside.conversation import TENSORFLOW
from ..models.user_python.interpreter import TORCH


def _entry(module: str, function: str = "") -> str:
    """Return the entry of a function of converters/, by default of the one that its module is named after."""
    return f"transload.converters.{module}:{function or module.rpartition('.')[2]}"


@dataclass(frozen=True, slots=True)
class Step:
    """A conversion. `source` is None if it starts from the model's source in PyTorch."""

    name: str
    source: Target | None
    target: Target
    entry: str  # "transload.converters.to_tflite.tflite_from_onnx:tflite_int8"
    requires: tuple[str, ...]  # modules that the worker must be able to find
    cost: float  # lower is tried first; reflects fidelity, then time
    calibrates: bool = False  # reads inputs["data"]
    calls: bool = False  # calls the model, with the user's samples in inputs["data"] where there are any
    environment: PythonEnvironment | None = None  # another Python environment that may run it
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)  # job.options of its entry
    on_request: str = ""  # the option of a conversion that enables it, as "flex"; empty if it needs none
    stands_in_for: str = ""  # the step that this one replaces; tried only if that one gave no result
    user_framework: str = ""  # of the user's interpreter, where it captures a model that lives there
    package: str = ""  # name and version of the third party that provides it; empty if it is ours


def _tflite(name: str, form: Format, requires: tuple[str, ...], cost: float) -> tuple[Step, ...]:
    """Return the steps to TFLite in each precision, from ONNX by our lowering or from a SavedModel."""
    return tuple(
        Step(
            name if precision is Precision.FP32 else f"{name}-{precision.value}",
            Target(form),
            Target(Format.TFLITE, precision),
            _entry("to_tflite.tflite_from_onnx", f"tflite_{precision.value.replace('-', '_')}"),
            requires,
            cost,
            calibrates=precision is Precision.INT8,
        )
        for precision in (Precision.FP32, Precision.FP16, Precision.INT8_DYNAMIC, Precision.INT8)
    )


def _with_flex(steps: Iterable[Step], cost: float) -> tuple[Step, ...]:
    """Return the same steps with TensorFlow's operators where TFLite has no kernel.

    None calibrates: TensorFlow's own interpreter, which runs the samples, has no Flex delegate.
    """
    return tuple(
        replace(step, name=f"{step.name}@flex", cost=cost, options={"flex": True}, on_request="flex",
                stands_in_for=step.name)
        for step in steps if not step.calibrates
    )  # fmt: skip


def _with_float_layers(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the calibrating steps again, each cheaper than itself, with the layers in float32 that int8 costs most."""
    return tuple(
        replace(step, name=f"{step.name}@keep-float", cost=step.cost - 0.5, options={"keep_float": True},
                on_request="keep-float")
        for step in steps if step.calibrates
    )  # fmt: skip


_PT2, _ONNX, _TORCHSCRIPT = Target(Format.PT2), Target(Format.ONNX), Target(Format.TORCHSCRIPT)
_SAVED_MODEL, _TFLITE, _KERAS = Target(Format.SAVED_MODEL), Target(Format.TFLITE), Target(Format.KERAS)
_TF = ("tensorflow",)
_DYNAMO, _OLDER = _entry("to_onnx.onnx_from_pt2"), _entry("to_onnx.onnx_from_source")  # torch's exporters

_TO_TFLITE = (
    *_tflite("lowering-tflite", Format.ONNX, ("onnx", *_TF), 1),
    *_tflite("tflite", Format.SAVED_MODEL, _TF, 2),  # from a SavedModel of the user's
)

STEPS: tuple[Step, ...] = (
    Step("torch.export", None, _PT2, _entry("to_pytorch.pt2_from_source"), ("torch",), 1, calls=True),
    Step("torch.jit", None, _TORCHSCRIPT, _entry("to_pytorch.torchscript_from_source"), ("torch",), 1, calls=True),
    Step("torch.onnx-dynamo", _PT2, _ONNX, _DYNAMO, ("torch", "onnx", "onnxscript"), 1),
    Step("torch.onnx-torchscript", None, _ONNX, _OLDER, ("torch", "onnx"), 4, calls=True),
    # Captures of a model in another interpreter, by its own torch. The steps above build it here, where that works.
    Step("foreign.export", None, _PT2, _entry("user_python_captures", "pt2_from_user_python"), ("torch",), 2,
         calls=True, user_framework=TORCH),
    Step("foreign.onnx", None, _ONNX, _entry("user_python_captures", "onnx_from_user_python"), ("torch", "onnx"), 4.5,
         calls=True, user_framework=TORCH),
    Step("foreign.jit", None, _TORCHSCRIPT, _entry("user_python_captures", "torchscript_from_user_python"), ("torch",),
         2, calls=True, user_framework=TORCH),
    # A model of Keras in another interpreter has this one alone.
    Step("foreign.saved-model", None, _SAVED_MODEL, _entry("user_python_captures", "saved_model_from_user_python"),
         ("torch", "google.protobuf"), 1, calls=True, user_framework=TENSORFLOW),
    # Each exporter again at another opset, which has other operators.
    Step("torch.onnx-dynamo@18", _PT2, _ONNX, _DYNAMO, ("torch", "onnx", "onnxscript"), 5,
         options={"opset": 18}, stands_in_for="torch.onnx-dynamo"),
    Step("torch.onnx-torchscript@20", None, _ONNX, _OLDER, ("torch", "onnx"), 7,
         calls=True, options={"opset": 20}, stands_in_for="torch.onnx-torchscript"),
    Step("onnxruntime-qdq", _ONNX, Target(Format.ONNX, Precision.INT8),
         _entry("to_onnx.onnx_precisions", "onnx_int8_from_onnx"), ("onnx", "onnxruntime"), 1, calibrates=True),
    Step("onnxruntime-fp16", _ONNX, Target(Format.ONNX, Precision.FP16),
         _entry("onnx_half", "onnx_fp16_from_onnx"), ("onnx", "onnxruntime"), 1, calibrates=True),
    Step("lowering", _ONNX, _SAVED_MODEL, _entry("to_saved_model.saved_model_from_onnx"), ("onnx", *_TF), 1),
    *_TO_TFLITE,
    *_with_float_layers(_TO_TFLITE),
    *_with_flex(_TO_TFLITE, 30),  # after every route without Flex: fewer runtimes have the delegate
    # From TensorFlow.
    Step("keras.export", _KERAS, _SAVED_MODEL, _entry("to_saved_model.saved_model_from_keras"), ("keras", *_TF), 1),
    Step("tf2onnx", _SAVED_MODEL, _ONNX,
         _entry("to_onnx.onnx_from_tensorflow", "onnx_from_saved_model"), ("tf2onnx", "onnx", *_TF), 2),
    Step("tf2onnx-tflite", _TFLITE, _ONNX,
         _entry("to_onnx.onnx_from_tensorflow", "onnx_from_tflite"), ("tf2onnx", "onnx", "ai_edge_litert", *_TF), 3),
    # From TorchScript.
    Step("torchscript.onnx", _TORCHSCRIPT, _ONNX, _entry("to_onnx.onnx_from_torchscript"), ("torch", "onnx"), 4,
         calls=True),
    Step("torchscript.export", _TORCHSCRIPT, _PT2, _entry("to_pytorch.pt2_from_torchscript"), ("torch",), 4,
         calls=True),
    # From ONNX to PyTorch: a readable module with its weights, and the exported program of it.
    Step("onnx-to-torch", _ONNX, _PT2, _entry("to_pytorch.pt2_from_onnx"), ("torch", "onnx", "safetensors"), 5,
         calls=True),
)  # fmt: skip


def missing(requires: tuple[str, ...], find: Callable[[str], object | None] = find_installed) -> str | None:
    """Return which of these required modules are missing, as a phrase, or None. Imports nothing."""
    absent = [name for name in dict.fromkeys(requires) if find(name) is None]
    return f"needs {', '.join(absent)}" if absent else None
