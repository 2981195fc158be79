"""PyTorch in float64, whatever dtype a model's code names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from transload.models.user_python.inside.float64_mode import in_float64, widen_module


class Mixed(torch.nn.Module):
    """Names float32 where a module in float64 alone would narrow its numbers, or raise an error."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(8, 4)
        self.scale = torch.linspace(0.1, 1, 4)  # no buffer: .double() does not reach it

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = torch.zeros(x.shape[0], 4, dtype=torch.float32)
        y = torch.addmm(start, x.float(), self.inner.weight.t()) + self.inner.bias
        return torch.fft.ifft(torch.fft.fft((y * self.scale).to(torch.float32))).real


@pytest.mark.parametrize(
    "make",
    [
        Mixed,
        lambda: torch.nn.Conv1d(8, 4, 1),
        lambda: torch.nn.GRUCell(8, 4),
        lambda: torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    ],
    ids=["mixed", "convolution", "recurrent", "attention"],
)
@torch.no_grad()
def test_answers_are_those_of_float64(make: Callable[[], torch.nn.Module]) -> None:
    torch.manual_seed(0)
    module = make().eval()
    x = torch.randn(6, 8) if not isinstance(module, torch.nn.Conv1d) else torch.randn(6, 8, 3)
    narrow = module(x)
    widen_module(module)
    with in_float64():
        wide = module(x.double())
    assert wide.dtype == torch.float64
    assert 0 < (wide - narrow).abs().max() < 1e-5
    torch.manual_seed(0)
    assert not torch.equal(wide, wide.float().double())  # digits that float32 does not hold


def test_noise_spares_what_float32_computes_without_rounding() -> None:
    x = torch.tensor([0.25, 0.1, 3.0], dtype=torch.float64)
    with in_float64(noise=1e-6):
        doubled, limited, thirds = x * 2, (x * 9).clamp(max=2), x / 3
    assert (doubled == x * 2).tolist() == [True, False, True], "float32 holds no 0.2"
    assert limited.tolist()[2] == 2
    assert limited.tolist()[0] == 2
    assert (thirds != x / 3).all()


def test_noise_parts_equal_scores_only_where_no_order_is_promised() -> None:
    scores = torch.zeros(1, 32)
    firsts, orders = set(), set()
    for seed in range(5):
        with in_float64(noise=1e-6, seed=seed):
            firsts.add(int(scores.argmax(-1)))
            orders.add(tuple(scores.topk(3).indices[0].tolist()))
    assert firsts == {0}, "PyTorch promises the first of equal maxima"
    assert len(orders) > 1
