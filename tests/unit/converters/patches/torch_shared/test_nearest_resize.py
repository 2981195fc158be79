"""Pictures made larger and smaller by their nearest elements: PyTorch's, through both exporters, at any size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch.nn import functional

from transload.converters.patches.torch_export.traced_replacements import swap_traced_functions
from transload.converters.patches.torch_onnx_dynamo.translations import translations
from transload.converters.patches.torch_onnx_torchscript.symbolics import register
from transload.converters.patches.torch_shared import nearest_resize

Function = Callable[[torch.Tensor], torch.Tensor]
FUNCTIONS: dict[str, Function] = {
    "a size": lambda x: functional.interpolate(x, size=2),
    "of another axis": lambda x: functional.interpolate(x, size=x.shape[1] * 4),
    "a picture": lambda x: functional.interpolate(x[:, :, None, :] + x[:, :, :7, None], size=(2, x.shape[2] + 18)),
    "a factor": lambda x: functional.interpolate(x, scale_factor=1.7),
    "a factor of two": lambda x: functional.interpolate(x, scale_factor=2),
    "a factor that float32 rounds": lambda x: functional.interpolate(x, scale_factor=0.7),
    "a picture that keeps its height": lambda x: functional.interpolate(x[:, None], scale_factor=(1.3, 1.15)),
    "sizes of a factor": lambda x: functional.interpolate(x, scale_factor=0.7, recompute_scale_factor=True),
}
OTHERWISE: dict[str, Function] = {
    "lines": lambda x: functional.interpolate(x, scale_factor=0.7, mode="linear"),
    "pictures": lambda x: functional.interpolate(x[:, None], scale_factor=(1.4, 0.7), mode="bilinear"),
    "aligned": lambda x: functional.interpolate(
        x[:, None], scale_factor=(1.15, 0.7), mode="bicubic", align_corners=True
    ),
    "cubic": lambda x: functional.interpolate(x[:, None], scale_factor=(2.3, 0.7), mode="bicubic"),
    "middles": lambda x: functional.interpolate(x, scale_factor=0.7, mode="nearest-exact"),
    "as many": lambda x: x[0, 0, :1] + torch.ones(math.floor(x.shape[2] * 0.7 + 1)),
}


class Model(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def exported(function: Function, path: Path, *, dynamo: bool) -> onnx.ModelProto:
    example = torch.randn(2, 3, 10)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the older exporter is deprecated
        if dynamo:
            open_axis = ({2: torch.export.Dim("length", min=8, max=400)},)
            program = torch.export.export(Model(function), (example,), dynamic_shapes=open_axis)
            torch.onnx.export(program, f=path, dynamo=True, verbose=False, custom_translation_table=translations())
        else:
            register(nearest_resize.PATCHES)
            with swap_traced_functions():
                torch.onnx.export(
                    Model(function), (example,), path, dynamo=False, opset_version=18, input_names=["x"],
                    dynamic_axes={"x": {2: "length"}},
                )  # fmt: skip
    return onnx.load(path)


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_elements_are_pytorchs(name: str, dynamo: bool, tmp_path: Path) -> None:
    model = exported(FUNCTIONS[name], tmp_path / "model.onnx", dynamo=dynamo)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for length in (14, 21, 10, 90):
        x = torch.arange(2 * 3 * length, dtype=torch.float32).reshape(2, 3, length)
        (got,) = session.run(None, {"x": x.numpy()})
        np.testing.assert_array_equal(got, FUNCTIONS[name](x).numpy())
    assert any(node.op_type == "Resize" for node in model.graph.node) == (name == "a factor of two") or not dynamo


@pytest.mark.parametrize("name", OTHERWISE)
def test_sizes_are_multiplied_as_python_does_it(name: str, tmp_path: Path) -> None:
    exported(OTHERWISE[name], tmp_path / "model.onnx", dynamo=True)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for length in (21, 10, 90, 100):  # 90 * 0.7 is just below 63, and float32 makes 63 of it
        x = torch.randn(2, 3, length)
        (got,) = session.run(None, {"x": x.numpy()})
        np.testing.assert_allclose(got, OTHERWISE[name](x).numpy(), atol=1e-4)


def test_an_archive_is_multiplied_so_too(tmp_path: Path) -> None:
    example = torch.randn(2, 3, 10)
    register(nearest_resize.PATCHES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter is deprecated, and archives are
        module = torch.jit.trace(Model(FUNCTIONS["a factor that float32 rounds"]), (example,))
        torch.onnx.export(
            module, (example,), tmp_path / "model.onnx", dynamo=False, opset_version=18, input_names=["x"],
            dynamic_axes={"x": {2: "length"}},
        )  # fmt: skip
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for length in (10, 21, 90):
        x = torch.randn(2, 3, length)
        np.testing.assert_array_equal(session.run(None, {"x": x.numpy()})[0], module(x).numpy())
