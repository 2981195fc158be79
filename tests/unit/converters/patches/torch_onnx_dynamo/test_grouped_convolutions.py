"""Convolutions in as many groups as a batch has samples, exported by torch's dynamo exporter: in ONNX Runtime as in
PyTorch, at several batches and sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from transload.converters.patches.torch_onnx_dynamo.translations import translations

DYNAMIC = torch.export.Dim.DYNAMIC
Tensors = tuple[Tensor, ...]


def modulated(x: Tensor, kernels: Tensor) -> Tensors:
    """As StyleGAN2 has them: a kernel (K, C, 3, 3) of each sample. x: (B, 4, H, W), kernels: (B, 6, 4, 3, 3)."""
    batch, _, high, wide = x.shape
    folded, weight = x.reshape(1, batch * 4, high, wide), kernels.reshape(batch * 6, 4, 3, 3)
    turned = kernels.transpose(1, 2).reshape(batch * 4, 6, 3, 3)
    bias = weight.mean((1, 2, 3))
    direct = (
        functional.conv2d(folded, weight, padding=1, groups=batch),
        functional.conv2d(folded, weight, bias, stride=(2, 1), padding=(0, 2), dilation=(1, 2), groups=batch),
        functional.conv2d(folded, weight[:, :, :1, :1], stride=3, groups=batch),
        functional.conv2d(folded[0], weight[:, :, :1], padding="same", groups=batch),
        functional.conv2d(folded, weight[:, :2], padding=3, groups=2 * batch),
    )
    up = functional.conv_transpose2d
    larger = (
        up(folded, turned, stride=2, groups=batch),
        up(folded, turned, bias, 2, 1, 1, groups=batch),
        up(folded, turned[:, :, :2], None, (3, 1), (0, 2), (2, 0), groups=batch, dilation=(1, 3)),
        up(folded[0], turned[:, :, :1, :2], stride=(1, 3), padding=(0, 1), groups=batch),
        up(folded, turned, padding=2, groups=batch),
    )
    return (*(each.reshape(batch, 6, *each.shape[-2:]) for each in direct + larger),)


def correlated(x: Tensor, kernels: Tensor) -> Tensors:
    """As trackers have them: each channel of a sample under a kernel of its own."""
    batch, kernel = x.shape[0], kernels[:, :4, 0]
    each = functional.conv2d(
        x.reshape(1, batch * 4, *x.shape[2:]), kernel.reshape(batch * 4, 1, 3, 3), groups=batch * 4
    )
    whole = functional.conv2d(x.reshape(1, batch * 4, *x.shape[2:]), kernel, groups=batch)
    return each.reshape(batch, 4, *each.shape[2:]), whole.reshape(batch, 1, *whole.shape[2:])


def of_other_axes(x: Tensor, kernels: Tensor) -> Tensors:
    """Lines and volumes, and several samples under the kernels of as many groups as a picture is wide."""
    batch, _, high, wide = x.shape
    line = functional.conv1d(
        x[:, :, 0].reshape(1, batch * 4, wide), kernels[:, :, :, 0].reshape(-1, 4, 3), groups=batch
    )
    back = functional.conv_transpose1d(line, kernels[:, :, :, 0].reshape(-1, 4, 3), stride=2, groups=batch)
    volume = x.reshape(1, batch * 2, 2, high, wide)
    cube = kernels.reshape(batch, 2, 2, 2, 3, 3, 3)[:, :, :, 0].reshape(-1, 2, 3, 3, 3)
    deep = functional.conv3d(volume, cube, padding=1, groups=batch)
    raised = functional.conv_transpose3d(volume, cube, stride=(1, 2, 1), groups=batch)
    columns = x.permute(0, 3, 1, 2).reshape(batch, wide * 4, high)
    weights = x[0, :, :3].permute(2, 0, 1).repeat(1, 2, 1).reshape(wide * 2, 4, 3)
    shared = functional.conv1d(columns, weights, padding=1, groups=wide)
    return line, back, deep, raised, shared, functional.conv_transpose1d(shared, weights, groups=wide)


@pytest.mark.parametrize("function", [modulated, correlated, of_other_axes])
def test_groups_follow_the_batch(function: Callable[[Tensor, Tensor], Tensors], tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensors:
            return function(x, y)

    torch.manual_seed(0)
    session = exported(Model(), given(3, 7, 9), tmp_path / "model.onnx")
    for batch, high, wide in ((3, 7, 9), (1, 6, 5), (2, 8, 8), (5, 5, 12)):
        pair = given(batch, high, wide)
        feeds = {name: each.numpy() for name, each in zip("xy", pair, strict=True)}
        for at, (got, want) in enumerate(zip(session.run(None, feeds), function(*pair), strict=True)):
            np.testing.assert_allclose(got, want, atol=1e-4, err_msg=f"output {at} of {batch} x {high} x {wide}")


def test_a_known_number_of_groups_stays_a_convolution(tmp_path: Path) -> None:
    class Known(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            plain = functional.conv2d(functional.conv2d(x, y[0, :4]), y[0, :, :2], groups=2)
            return functional.conv_transpose2d(plain, y[0], groups=3)

    model, (x, y) = Known(), given(3, 7, 9)
    session = exported(model, (x, y), tmp_path / "model.onnx")
    np.testing.assert_allclose(session.run(None, {"x": x.numpy(), "y": y.numpy()})[0], model(x, y), atol=1e-3)
    kinds = [node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node]
    assert (kinds.count("Conv"), kinds.count("ConvTranspose"), kinds.count("MatMul")) == (2, 1, 0)


def given(batch: int, high: int, wide: int) -> Tensors:
    return torch.randn(batch, 4, high, wide), torch.randn(batch, 6, 4, 3, 3)


def exported(model: torch.nn.Module, pair: Tensors, path: Path) -> onnxruntime.InferenceSession:
    axes = {0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC}, {0: DYNAMIC}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter's own
        program = torch.export.export(model, pair, dynamic_shapes=axes, strict=False)
        made = torch.onnx.export(
            program, dynamo=True, opset_version=20, verbose=False, custom_translation_table=translations()
        )
    assert made is not None
    made.save(path)
    return onnxruntime.InferenceSession(path)
