"""Attention in TorchScript to ONNX: fused as PyTorch has it in evaluation mode, and traced without that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from transload.converters.from_torchscript import onnx_from_torchscript
from transload.models.artifact import write_artifact
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature, parse_input
from transload.serving.runtimes.onnxruntime_session import open_session


class Layer(nn.Module):
    """A layer with a mask of padding, of a kind of its own, or with none."""

    def __init__(self, mask: str, **settings: Any) -> None:
        super().__init__()
        self.mask = mask
        self.layer = nn.TransformerEncoderLayer(12, settings.pop("heads", 4), 20, batch_first=True, **settings)
        for each in self.parameters():
            nn.init.normal_(each, std=0.4)

    def forward(self, x: Tensor) -> Tensor:
        if self.mask == "padding":
            made: Tensor = self.layer(x, src_key_padding_mask=x[:, :, 0] > 0.3)
        elif self.mask == "causal":
            made = self.layer(x, src_mask=torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1))
        else:
            made = self.layer(x)
        return made


@pytest.mark.filterwarnings("ignore")  # of the exporter and of the tracer, each about itself
@pytest.mark.parametrize(
    ("fused", "mask", "settings"),
    [
        (True, "", {}),
        (True, "", {"activation": "gelu", "norm_first": True, "layer_norm_eps": 0.3}),
        (True, "padding", {}),
        (True, "causal", {"activation": "gelu"}),
        (False, "", {"heads": 3}),
    ],
)
def test_a_traced_layer_comes_through(fused: bool, mask: str, settings: dict[str, Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, x = Layer(mask, **settings).eval(), torch.randn(2, 5, 12)
    with torch.no_grad():
        traced: Any = torch.jit.trace(net, x, check_trace=False)
    assert ("_transformer_encoder_layer_fwd" in str(traced.inlined_graph)) == fused
    given = tmp_path / "given"
    given.mkdir()
    traced.save(given / "model.pt")
    specs = (parse_input("x=float32[batch,time,12]"),), (parse_input("y=float32[batch,time,12]"),)
    write_artifact(given, Target(Format.TORCHSCRIPT), Signature(*specs))
    (tmp_path / "onnx").mkdir()
    onnx_from_torchscript(Job({"source": given}, tmp_path / "onnx"))
    session = open_session(tmp_path / "onnx", "cpu", 1)
    for shape in ((1, 4, 12), (3, 7, 12)):
        x = torch.randn(shape)
        if mask == "padding":
            x[0, :, 0] = 1  # of a sample of padding alone NaN is made
        with torch.no_grad():
            want = net(x)
        np.testing.assert_allclose(session.run({"x": x.numpy()})["y"], want, rtol=1e-4, atol=1e-5)
