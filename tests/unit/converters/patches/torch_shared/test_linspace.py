"""What torch.export makes a constant of an axis' size in, at any length: torch.linspace of so many steps and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from transload.converters.to_pytorch.pt2_from_source import export
from transload.models.signature import Signature


class Lines(torch.nn.Module):
    def __init__(self, **more: Any) -> None:
        super().__init__()
        self.more = more

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = x.shape[1]
        return x + torch.linspace(0, 1, steps, **self.more) + torch.linspace(start=-1.5, end=x.sum(), steps=steps)


class Calls(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


SIGNATURE = Signature.from_json(
    {
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", "length"]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", "length"]}],
    }
)


def test_a_line_is_as_long_as_an_axis() -> None:
    own = torch.linspace
    program = export(Lines(device="cpu"), SIGNATURE).module()
    assert torch.linspace is own
    for length in (1, 2, 3, 8, 101):
        x = torch.randn(2, length)
        torch.testing.assert_close(program(x), Lines()(x), rtol=1e-6, atol=1e-6)


def test_a_line_ends_where_an_axis_does() -> None:
    """Frames are picked so: a bit less, and the last one is never seen."""
    program = export(Calls(lambda x: x[:, torch.linspace(0, x.shape[1] - 1, 8).long()]), SIGNATURE).module()
    for length in (2, 8, 32, 63, 118, 125, 256, 1000):
        x = torch.arange(length, dtype=torch.float32).expand(2, length)
        torch.testing.assert_close(program(x), x[:, torch.linspace(0, length - 1, 8).long()], rtol=0, atol=0)


def test_a_line_of_whole_numbers_is_the_kernels_own() -> None:
    with pytest.raises(Exception, match="makes its size a constant"):
        export(Lines(dtype=torch.int64), SIGNATURE)


KEPT: list[Callable[[torch.Tensor], torch.Tensor]] = [
    torch.nn.MaxPool1d(3, 2, 1),
    torch.nn.MaxPool1d(kernel_size=(2,), stride=1, dilation=2, ceil_mode=True),
    lambda x: functional.max_pool1d(x[:, None], 2)[:, 0],
    lambda x: functional.one_hot(x.argmax(1), x.shape[1]),
    lambda x: functional.one_hot(x.argmax(1), num_classes=x.shape[1]).sum(0),
    lambda x: torch.take_along_dim(x, x.argsort(1), 1),
    lambda x: x[:, None].take_along_dim(x[:, None].argsort(-1), dim=-1),
    lambda x: torch.take_along_dim(x, x[:1].argsort(1), -1),
    lambda x: torch.cdist(x[..., None], x[:1, :, None] * 3),
]


@pytest.mark.parametrize("function", KEPT)
def test_what_reads_the_size_of_an_axis_is_captured_with_it_open(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    program = export(Calls(function), SIGNATURE).module()
    for batch, length in ((2, 5), (1, 4), (3, 40)):
        x = torch.randn(batch, length)
        torch.testing.assert_close(program(x), function(x), rtol=1e-3, atol=1e-3)
