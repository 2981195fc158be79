"""Pictures made larger and smaller by their nearest elements: PyTorch's, through both exporters, at any size."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch.nn import functional

from transload.converters.onnx_export import translations
from transload.converters.torch_operators.nearest import mend_nearest
from transload.converters.torch_operators.words import in_other_words

Function = Callable[[torch.Tensor], torch.Tensor]
FUNCTIONS: dict[str, Function] = {
    "a size": lambda x: functional.interpolate(x, size=2),
    "of another axis": lambda x: functional.interpolate(x, size=x.shape[1] * 4),
    "a picture": lambda x: functional.interpolate(x[:, :, None, :] + x[:, :, :7, None], size=(2, x.shape[2] + 18)),
    "a factor": lambda x: functional.interpolate(x, scale_factor=1.7),
    "a factor of two": lambda x: functional.interpolate(x, scale_factor=2),
}


class Model(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def exported(name: str, path: Path, *, dynamo: bool) -> onnx.ModelProto:
    example = torch.randn(2, 3, 10)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the older exporter is deprecated
        if dynamo:
            open_axis = ({2: torch.export.Dim("length", min=8)},)
            program = torch.export.export(Model(FUNCTIONS[name]), (example,), dynamic_shapes=open_axis)
            torch.onnx.export(program, f=path, dynamo=True, verbose=False, custom_translation_table=translations())
        else:
            mend_nearest()
            with in_other_words():
                torch.onnx.export(
                    Model(FUNCTIONS[name]), (example,), path, dynamo=False, opset_version=18, input_names=["x"],
                    dynamic_axes={"x": {2: "length"}},
                )  # fmt: skip
    return onnx.load(path)


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_elements_are_pytorchs(name: str, dynamo: bool, tmp_path: Path) -> None:
    model = exported(name, tmp_path / "model.onnx", dynamo=dynamo)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for length in (14, 21, 10):
        x = torch.arange(2 * 3 * length, dtype=torch.float32).reshape(2, 3, length)
        (got,) = session.run(None, {"x": x.numpy()})
        np.testing.assert_array_equal(got, FUNCTIONS[name](x).numpy())
    assert any(node.op_type == "Resize" for node in model.graph.node) == (name == "a factor of two") or not dynamo
