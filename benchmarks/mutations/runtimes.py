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
    """A PyTorch module, eager, in float32, in float64, or in float16 between float32 inputs and outputs."""

    def __init__(self, module: nn.Module, *, double: bool = False, half: bool = False) -> None:
        self._module = module.double() if double else module.half() if half else module
        self._double, self._half = double, half

    def __call__(self, feeds: Feeds) -> list[Array]:
        """Answer a call: the outputs in order."""
        tensors = [torch.from_numpy(array.copy()) for array in feeds.values()]
        if self._double:
            tensors = [tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors]
        if self._half:
            tensors = [tensor.half() if tensor.is_floating_point() else tensor for tensor in tensors]
        with torch.no_grad():
            answer = self._module(*tensors)
        answers = answer if isinstance(answer, tuple) else (answer,)
        if self._half:
            answers = tuple(part.float() if part.is_floating_point() else part for part in answers)
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
    if form == "onnx:fp16":
        return _onnx_in_half(path, names)
    form = form.partition(":")[0]
    return {"onnx": _onnx, "torchscript": _torchscript, "saved-model": _saved_model, "tflite": _tflite}[form](
        path, names
    )


def _onnx(path: Path, names: Sequence[str]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda feeds: [np.asarray(array) for array in session.run(list(names), feeds)]


def _onnx_in_half(path: Path, names: Sequence[str]) -> Run:
    """Open a file in onnx's reference evaluator: ONNX Runtime computes float16 in float32 on most processors."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    from transload.converters.onnx_graph.topological_order import sort_nodes

    model = onnx.load(path)
    sort_nodes(model.graph)
    session = ReferenceEvaluator(model)

    def run(feeds: Feeds) -> list[Array]:
        with np.errstate(all="ignore"):
            return [np.asarray(array) for array in session.run(list(names), feeds)]

    return run


def _torchscript(path: Path, names: Sequence[str]) -> Run:  # noqa: ARG001  its outputs have no names
    return ModuleRun(torch.jit.load(str(path)))  # type: ignore[no-untyped-call]


def second_function(path: Path, names: Sequence[str]) -> Run:
    """Open the signature `predict` of a SavedModel, else its `__call__`."""
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    function = loaded.signatures["predict"] if "predict" in loaded.signatures else loaded  # noqa: SIM401  (no dict)
    return _function(loaded, function, names)


def _saved_model(path: Path, names: Sequence[str]) -> Run:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    return _function(loaded, loaded.signatures["serving_default"], names)


def _function(loaded: Any, function: Any, names: Sequence[str]) -> Run:
    import tensorflow as tf

    def run(feeds: Feeds, _loaded: Any = loaded) -> list[Array]:
        answers = function(**{name: tf.constant(array) for name, array in feeds.items()})
        return [np.asarray(answers[name]) for name in names]

    return run


def _tflite(path: Path, names: Sequence[str]) -> Run:
    from ai_edge_litert.interpreter import Interpreter

    def run(feeds: Feeds) -> list[Array]:
        runner = Interpreter(model_path=str(path), num_threads=1).get_signature_runner()
        answers = runner(**feeds)
        return [np.asarray(answers[name]) for name in names]

    return run
