"""Integers of 64 bits against each other through both of torch's exporters: as in PyTorch where the lower halves of
numbers have a sign and the numbers have none."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

from transload.converters.patches.torch_onnx_dynamo.translations import translations
from transload.converters.patches.torch_onnx_torchscript.symbolics import mend_older_exporter


class Compared(torch.nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = x.flip(0)
        bounds = x.clamp(y, y + 5), x.clamp(max=y), x.clamp(x.shape[0], 2**32), x.clamp(0, 2), x.clamp(5, 2)
        of_two = torch.maximum(x, y), torch.minimum(x, y), torch.max(x, y), torch.min(x, y)
        return *bounds, *of_two, x.clamp_min(7), x.clamp(max=2), x.relu(), x.sign(), x[0].max(x[1, 1])


@pytest.mark.parametrize("dynamo", [True, False])
def test_integers_of_64_bits_are_compared_whole(dynamo: bool, tmp_path: Path) -> None:
    mend_older_exporter()
    edges = [0, 1, 2, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**31, 2**62, -1, -(2**31) - 1, -(2**32)]
    places = np.random.default_rng(0).integers(0, len(edges), (6, 40))
    x, path = torch.tensor(edges)[torch.from_numpy(places)], tmp_path / "model.onnx"
    more = {"custom_translation_table": translations(), "verbose": False} if dynamo else {"input_names": ["x"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters, about themselves
        torch.onnx.export(Compared(), (x,), str(path), dynamo=dynamo, opset_version=18, **more)
    made = onnxruntime.InferenceSession(path).run(None, {"x": x.numpy()})
    for at, (got, want) in enumerate(zip(made, Compared()(x), strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"output {at}")
