"""torch.linspace of as many steps as an axis is long, through torch.export: the kernel's numbers at any length."""

from __future__ import annotations

import pytest
import torch

from transload.converters.torch_export import export
from transload.models.signature import Signature


class Lines(torch.nn.Module):
    def __init__(self, **more: object) -> None:
        super().__init__()
        self.more = more

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = x.shape[1]
        return x + torch.linspace(0, 1, steps, **self.more) + torch.linspace(start=-1.5, end=x.sum(), steps=steps)


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


def test_a_line_of_whole_numbers_is_the_kernels_own() -> None:
    with pytest.raises(Exception, match="makes its size a constant"):
        export(Lines(dtype=torch.int64), SIGNATURE)
