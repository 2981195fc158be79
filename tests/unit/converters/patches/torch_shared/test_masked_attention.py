"""Attention of which a query may see no key, by both of torch's exporters: 0 there, as PyTorch says."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as attend

from transload.converters.patches.torch_export.transformer_layers import keep_own_classes, make_capturable
from transload.converters.patches.torch_onnx_dynamo.translations import translations
from transload.converters.patches.torch_onnx_torchscript.symbolics import mend_older_exporter

DYNAMIC = torch.export.Dim.DYNAMIC


class Masked(torch.nn.Module):
    """Every kind of mask: of booleans, of minus infinities, of the lowest numbers (whose rows are means), of a layer's
    padding, of one row for all queries; and a softmax of minus infinities, which is none."""

    def __init__(self, *, shared: bool) -> None:
        super().__init__()
        self.shared = shared
        self.layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, q: Tensor, k: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
        floats = [torch.zeros_like(seen, dtype=q.dtype).masked_fill(~seen, each) for each in (-torch.inf, -3.4e38)]
        each = [attend(q, k, k, mask) for mask in (seen, seen[:, :, -1:], *floats)]
        layer, _ = self.layer(q[:, 1], k[:, 1], k[:, 1], key_padding_mask=~seen[:, 0, -1], need_weights=False)
        if self.shared:
            each += [attend(q, k[:, :2], k[:, :2], mask, enable_gqa=True) for mask in (seen, floats[0])]
        return *each, layer, torch.where(seen, 0, -torch.inf).softmax(-1)


def asked(batch: int, queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    seen = torch.rand(batch, 1, queries, keys) < 0.5
    seen[0], seen[-1, :, 0] = False, False
    return torch.randn(batch, 4, queries, 8), torch.randn(batch, 4, keys, 8), seen


def agrees(model: torch.nn.Module, path: Path) -> None:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for sizes in ((2, 5, 6), (3, 7, 9), (1, 3, 1)):
        inputs = asked(*sizes)
        with torch.no_grad():
            wanted = model(*inputs)
        got = session.run(None, {name: each.numpy() for name, each in zip(("q", "k", "seen"), inputs, strict=True)})
        for one, want in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one, want, rtol=1e-4, atol=1e-5)
        assert not wanted[0][0].any(), "the model is asked with a row that sees nothing"
        assert wanted[-1].isnan().any()


def test_a_row_that_sees_nothing_is_0_by_the_dynamo_exporter(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, path = Masked(shared=True).eval(), tmp_path / "model.onnx"
    sizes = {0: DYNAMIC, 2: DYNAMIC}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch.onnx about itself
        torch.onnx.export(
            model,
            asked(2, 5, 6),
            str(path),
            dynamo=True,
            opset_version=20,
            input_names=["q", "k", "seen"],
            dynamic_shapes=(sizes, sizes, {**sizes, 3: DYNAMIC}),
            custom_translation_table=translations(),
            verbose=False,
        )
    agrees(model, path)


@pytest.mark.filterwarnings("ignore")  # of the exporter and of the tracer, each about itself
def test_a_row_that_sees_nothing_is_0_by_the_older_exporter(tmp_path: Path) -> None:
    torch.manual_seed(0)
    mend_older_exporter()
    model, path = Masked(shared=False).eval(), tmp_path / "model.onnx"
    axes = {"q": {0: "batch", 2: "queries"}, "k": {0: "batch", 2: "keys"}}
    torch.onnx.export(
        model,
        asked(2, 5, 6),
        str(path),
        dynamo=False,
        opset_version=17,
        input_names=["q", "k", "seen"],
        dynamic_axes={**axes, "seen": {0: "batch", 2: "queries", 3: "keys"}},
    )
    agrees(model, path)


class Padded(torch.nn.Module):
    """A classifier's usual encoder, with a norm of its own behind it, and a decoder whose mask PyTorch looks at."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
        norm = torch.nn.LayerNorm(8)
        torch.nn.init.normal_(norm.bias)
        self.encoder = torch.nn.TransformerEncoder(layer, 1, norm)
        self.decoder = torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(8, 2, 12, batch_first=True), 1)

    def forward(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        made, causal = self.encoder(x, src_key_padding_mask=hidden), torch.ones(x.shape[1], x.shape[1]).triu(1) > 0
        return made, self.decoder(x, made, causal, memory_key_padding_mask=hidden)


BEHIND = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0], [0, 1, 1, 1, 1]]).bool()
BETWEEN = torch.tensor([[0, 1, 0, 0, 1], [0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).bool()
PADS = (BEHIND, BETWEEN, BEHIND[1:2], BEHIND[2:], torch.tensor([[0], [0]]).bool())


def captured(model: torch.nn.Module, example: tuple[Tensor, Tensor], _: Path) -> Callable[..., tuple[Any, ...]]:
    sizes = {0: DYNAMIC, 1: DYNAMIC}
    program = torch.export.export(model, example, dynamic_shapes=(sizes, sizes), strict=False)
    return program.module()


def traced(model: torch.nn.Module, example: tuple[Tensor, Tensor], path: Path) -> Callable[..., tuple[Any, ...]]:
    mend_older_exporter()
    names = ["x", "hidden"]
    axes = {name: {0: "batch", 1: "tokens"} for name in names}
    torch.onnx.export(model, example, str(path), dynamo=False, opset_version=17, input_names=names, dynamic_axes=axes)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda *inputs: session.run(None, {name: each.numpy() for name, each in zip(names, inputs, strict=True)})


@pytest.mark.filterwarnings("ignore")  # of the exporter and of the tracer, each about itself
@pytest.mark.parametrize("capture", [captured, traced])
def test_a_padded_transformer_answers_as_pytorch_does_by_its_masks(capture: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Padded().eval().requires_grad_(False)
    wanted = [(x, hidden, model(x, hidden)) for hidden in PADS for x in [torch.randn(*hidden.shape, 8)]]
    assert len(wanted[0][2][0][BEHIND].unique(dim=0)) == 1, "the model is asked with rows that PyTorch packs"
    make_capturable(model)
    with torch.no_grad():
        copy = capture(model, (torch.randn(3, 5, 8), BETWEEN), tmp_path / "model.onnx")
    for x, hidden, answers in wanted:
        for got, eager, want in zip(copy(x, hidden), model(x, hidden), answers, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-5)
            np.testing.assert_allclose(eager, want, atol=1e-5)


@pytest.mark.filterwarnings("ignore")  # of TorchScript, about itself
def test_a_padded_encoder_is_compiled_from_pytorchs_own_source() -> None:
    model = Padded().eval()
    make_capturable(model)
    with keep_own_classes(model):
        torch.jit.script(model)
    assert type(model.encoder) is not torch.nn.TransformerEncoder
