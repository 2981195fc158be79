"""Run an artifact with the plain library of its format: what the truth and the comparators look at."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

os.environ.update({"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"})

import numpy as np
import torch
from benchmark_models import Model
from declarations import Array, Feeds, middle_sizes
from torch import nn

Run: TypeAlias = Callable[[Feeds], list[Array]]


class ModuleRun:
    """A PyTorch module, eager, in float32 or in float64."""

    def __init__(self, module: nn.Module, *, double: bool = False) -> None:
        self._module = module.double() if double else module
        self._double = double

    def __call__(self, feeds: Feeds) -> list[Array]:
        """Answer a call: the outputs in order."""
        tensors = [torch.from_numpy(array.copy()) for array in feeds.values()]
        if self._double:
            tensors = [tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors]
        with torch.no_grad():
            answer = self._module(*tensors)
        answers = answer if isinstance(answer, tuple) else (answer,)
        return [part.numpy() for part in answers]


def output_names(model: Model) -> list[str]:
    """Return the names that transload gives the outputs."""
    feeds = {one_input.name: one_input.sample(np.random.default_rng(0), _sizes(model)) for one_input in model.inputs}
    count = len(ModuleRun(model.build())(feeds))
    return ["output"] if count == 1 else [f"output_{at}" for at in range(count)]


def _sizes(model: Model) -> dict[str, int]:
    return middle_sizes(model.inputs, 2)


def open_artifact(form: str, path: Path, names: Sequence[str]) -> Run:
    """Open a file or folder of a format; `names` are those of its outputs, in order."""
    return {"onnx": _onnx, "torchscript": _torchscript, "saved-model": _saved_model, "tflite": _tflite}[form](
        path, names
    )


def _onnx(path: Path, names: Sequence[str]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda feeds: [np.asarray(array) for array in session.run(list(names), feeds)]


def _torchscript(path: Path, names: Sequence[str]) -> Run:  # noqa: ARG001  its outputs have no names
    return ModuleRun(torch.jit.load(str(path)))  # type: ignore[no-untyped-call]


def _saved_model(path: Path, names: Sequence[str]) -> Run:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    signature = loaded.signatures["serving_default"]

    def run(feeds: Feeds, _loaded: Any = loaded) -> list[Array]:
        answers = signature(**{name: tf.constant(array) for name, array in feeds.items()})
        return [np.asarray(answers[name]) for name in names]

    return run


def _tflite(path: Path, names: Sequence[str]) -> Run:
    from ai_edge_litert.interpreter import Interpreter

    def run(feeds: Feeds) -> list[Array]:
        runner = Interpreter(model_path=str(path), num_threads=1).get_signature_runner()
        answers = runner(**feeds)
        return [np.asarray(answers[name]) for name in names]

    return run
