"""Export modules to ONNX with the axes of their declaration."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from benchmark_models import Model
from declarations import LONGEST, draw_feeds, middle_sizes
from runtimes import output_names
from torch import nn


def example(model: Model) -> tuple[torch.Tensor, ...]:
    """Return small inputs of the declaration."""
    feeds = draw_feeds(model.inputs, np.random.default_rng(6), middle_sizes(model.inputs, 3))
    return tuple(torch.from_numpy(array) for array in feeds.values())


def named_axes(model: Model) -> dict[str, dict[int, str]]:
    """Return by input the axes that have a name."""
    return {
        one_input.name: {
            at: dim.partition("=")[0] for at, dim in enumerate(one_input.dims) if not dim.isdecimal()
        }
        for one_input in model.inputs
    }  # fmt: skip


def export(module: nn.Module, model: Model, path: Path) -> None:
    """Export a module, right or faulty, with all of its axes: by tracing where torch.export refuses it or makes sizes
    constant, as of recurrent layers."""
    try:
        dynamo_export(module, model, path, 18)
        graph = onnx.load(path, load_external_data=False).graph
        shapes = {value.name: value.type.tensor_type.shape.dim for value in graph.input}
        has_axes = all(shapes[name][at].dim_param for name, axes in named_axes(model).items() for at in axes)
    except torch.onnx.OnnxExporterError:  # it knows no fake quantisation
        has_axes = False
    if not has_axes:
        torchscript_export(module, model, path, 17)


def torchscript_export(module: nn.Module, model: Model, path: Path, opset: int, *, fold: bool = True) -> None:
    """Export a module as torch.onnx.export(dynamo=False) does, which traces it."""
    names = output_names(model)
    torch.onnx.export(
        module, example(model), str(path), dynamo=False, opset_version=opset, do_constant_folding=fold,
        input_names=[one_input.name for one_input in model.inputs], output_names=names,
        dynamic_axes={**named_axes(model), **{name: {0: "batch"} for name in names}},
    )  # fmt: skip


def dynamo_export(module: nn.Module, model: Model, path: Path, opset: int, *, optimize: bool = True) -> None:
    """Export a module as torch.onnx.export(dynamo=True) does."""
    bounds = {axis: ends for one_input in model.inputs for axis, ends in one_input.bounds.items()}
    dims = {
        axis: torch.export.Dim(axis, min=max(low, 2) if low > 1 else 1, max=None if high == LONGEST else high)
        for axis, (low, high) in bounds.items()
    }
    dims["batch"] = torch.export.Dim("batch", min=1, max=4096)
    shapes = tuple({at: dims[axis] for at, axis in axes.items()} for axes in named_axes(model).values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module, example(model), dynamo=True, opset_version=opset, optimize=optimize, dynamic_shapes=shapes,
            input_names=[one_input.name for one_input in model.inputs], output_names=output_names(model),
            verbose=False,
        )  # fmt: skip
    if program is None:
        raise RuntimeError("no program")
    program.save(str(path))
