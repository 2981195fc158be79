"""Models that read and write `tensor.data`, as older ones do: captured and traced as others are."""

from __future__ import annotations

import io

import torch
from torch import Tensor

from transload.converters.patches.torch_export.temporary_settings import followed_data
from transload.converters.to_pytorch.pt2_from_source import export
from transload.converters.to_pytorch.tracing import traced
from transload.models.signature import Signature, parse_input


class Masked(torch.nn.Module):
    """Tacotron's scores, and capsules' rows of a known matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(3.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = x * self.weight.data
        scores.data.masked_fill_(x > 0, -1e9)
        return scores.softmax(1), torch.eye(3).index_select(0, x.argmax(1).data)


def test_data_is_followed() -> None:
    model, own = Masked(), torch.Tensor.data
    outputs = parse_input("scores=float32[batch,3]"), parse_input("rows=float32[batch,3]")
    signature = Signature((parse_input("x=float32[batch,3]"),), outputs)
    held = io.BytesIO()
    torch.export.save(export(model, signature), held)
    held.seek(0)
    for made in (torch.export.load(held).module(), traced(model, [torch.ones(2, 3)])):
        for x in (torch.randn(5, 3), -torch.eye(3)):
            for got, want in zip(made(x), model(x), strict=True):
                torch.testing.assert_close(got, want)
    assert torch.Tensor.data is own


def test_data_is_set_as_before() -> None:
    weight = torch.nn.Parameter(torch.zeros(3))
    with followed_data():
        weight.data = torch.ones(2)
    assert weight.tolist() == [1, 1]
