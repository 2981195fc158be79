"""Attention in TorchScript to ONNX: fused as PyTorch has it in evaluation mode, and traced without that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from transload.converters.to_onnx.onnx_from_torchscript import onnx_from_torchscript
from transload.models.artifact import write_artifact
from transload.models.errors import Refused
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature, parse_input
from transload.serving.runtimes.onnxruntime_session import open_session


def masks(kind: str, x: Tensor) -> dict[str, Tensor | None]:
    """Of padding, of which rows see which, of both or none."""
    length = x.shape[1]
    rows = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
    return {"rows": rows if kind == "both" else None, "padding": x[:, :, 0] > 0.3 if kind else None}


class Layer(nn.Module):
    """A layer with a mask of padding, with one of its own beside it, or with none."""

    def __init__(self, mask: str, **settings: Any) -> None:
        super().__init__()
        self.mask = mask
        self.layer = nn.TransformerEncoderLayer(12, settings.pop("heads", 4), 20, batch_first=True, **settings)

    def forward(self, x: Tensor) -> Tensor:
        given = masks(self.mask, x)
        made: Tensor = self.layer(x, src_mask=given["rows"], src_key_padding_mask=given["padding"])
        return made


class Attention(nn.Module):
    """Attention alone, with its weights: of each head, or their mean."""

    def __init__(self, mask: str, *, mean: bool | None) -> None:
        super().__init__()
        self.mask, self.mean = mask, mean
        self.layer = nn.MultiheadAttention(12, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        given, wanted = masks(self.mask, x), self.mean is not None
        made, weights = self.layer(
            x,
            x,
            x,
            given["padding"],
            need_weights=wanted,
            attn_mask=given["rows"],
            average_attn_weights=bool(self.mean),
        )
        return (made, weights) if wanted else made


def agrees(net: nn.Module, operator: str, fused: bool, folder: Path, *outputs: str) -> None:
    """The ONNX of the traced net answers as the net, at other sizes than it was traced with."""
    for each in net.parameters():
        nn.init.normal_(each, std=0.4)
    with torch.no_grad():
        traced: Any = torch.jit.trace(net.eval(), torch.randn(2, 5, 12), check_trace=False)
    assert (operator in str(traced.inlined_graph)) == fused
    given = folder / "given"
    given.mkdir()
    traced.save(given / "model.pt")
    specs = (parse_input("x=float32[batch,time,12]"),), tuple(map(parse_input, outputs))
    write_artifact(given, Target(Format.TORCHSCRIPT), Signature(*specs))
    (folder / "onnx").mkdir()
    onnx_from_torchscript(Job({"source": given}, folder / "onnx"))
    session = open_session(folder / "onnx", "cpu", 1)
    for shape in ((1, 4, 12), (3, 7, 12)):
        x = torch.randn(shape)
        x[:, 0, 0] = -1  # of a row that sees nothing NaN is made
        with torch.no_grad():
            made = net(x)
        wanted = made if len(outputs) > 1 else [made]
        for got, want in zip(session.run({"x": x.numpy()}).values(), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


MADE = "y=float32[batch,time,12]"


@pytest.mark.filterwarnings("ignore")  # of the exporter and of the tracer, each about itself
@pytest.mark.parametrize(
    ("fused", "mask", "settings"),
    [
        (True, "", {}),
        (True, "", {"activation": "gelu", "norm_first": True, "layer_norm_eps": 0.3}),
        (True, "padding", {}),
        (True, "both", {"activation": "gelu"}),
        (False, "", {"heads": 3}),
    ],
)
def test_a_traced_layer_comes_through(fused: bool, mask: str, settings: dict[str, Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    agrees(Layer(mask, **settings), "_transformer_encoder_layer_fwd", fused, tmp_path, MADE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("mask", "mean", "outputs"),
    [
        ("", None, []),
        ("padding", True, ["weights=float32[batch,time,time]"]),
        ("both", False, ["weights=float32[batch,4,time,time]"]),
    ],
)
def test_traced_attention_comes_through(mask: str, mean: bool | None, outputs: list[str], tmp_path: Path) -> None:
    torch.manual_seed(0)
    agrees(Attention(mask, mean=mean), "_native_multi_head_attention", True, tmp_path, MADE, *outputs)


@pytest.mark.filterwarnings("ignore")
def test_compiled_attention_is_refused_with_what_helps(tmp_path: Path) -> None:
    net = torch.jit.script(nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 4, 20, batch_first=True), 1).eval())
    specs = (parse_input("src=float32[batch,time,12]"),), (parse_input(MADE),)
    given, out = tmp_path / "given", tmp_path / "onnx"
    given.mkdir()
    out.mkdir()
    torch.jit.save(net, given / Format.TORCHSCRIPT.spec.payload)
    write_artifact(given, Target(Format.TORCHSCRIPT), Signature(*specs))
    with pytest.raises(Refused, match=r"follows neither\n  fix: save a trace, torch.jit.trace\(model, example\)"):
        onnx_from_torchscript(Job({"source": given}, out))
