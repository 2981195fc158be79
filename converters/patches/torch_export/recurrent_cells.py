"""`nn.GRUCell` and `nn.RNNCell` by operators that take a row as well as a batch of rows.

PyTorch's own cells ask their input for its rank. In a loop that is compiled nothing tells it, so torch's TorchScript
exporter fails at the question; it does not know the cells either.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ..ledger import RETIRED, swapped, swaps

if TYPE_CHECKING:
    from torch import Tensor, nn


def open_cells() -> AbstractContextManager[None]:
    """Swap the forwards of the cells, while a model is compiled from its source."""
    return swapped(PATCHES)


# TorchScript reads what follows: an input (..., input_size) and states (..., hidden_size). Formulas: the classes'.


def _forward_of(name: str) -> Callable[..., Tensor]:
    """Return the forward of nn.GRUCell or nn.RNNCell."""
    import torch
    from torch.nn import functional

    def gru(self: nn.GRUCell, input: Tensor, hx: Tensor | None = None) -> Tensor:  # noqa: A002  (the cell's own)
        size = self.hidden_size
        inner = functional.linear(input, self.weight_ih, self.bias_ih)
        if hx is None:
            hx = torch.zeros_like(inner.narrow(-1, 0, size))
        state = functional.linear(hx, self.weight_hh, self.bias_hh)
        reset = torch.sigmoid(inner.narrow(-1, 0, size) + state.narrow(-1, 0, size))
        update = torch.sigmoid(inner.narrow(-1, size, size) + state.narrow(-1, size, size))
        new = torch.tanh(inner.narrow(-1, 2 * size, size) + reset * state.narrow(-1, 2 * size, size))
        return new + update * (hx - new)

    def rnn(self: nn.RNNCell, input: Tensor, hx: Tensor | None = None) -> Tensor:  # noqa: A002  (the cell's own)
        inner = functional.linear(input, self.weight_ih, self.bias_ih)
        if hx is None:
            hx = torch.zeros_like(inner)
        inner = inner + functional.linear(hx, self.weight_hh, self.bias_hh)
        return torch.tanh(inner) if self.nonlinearity == "tanh" else torch.relu(inner)

    return gru if name == "GRUCell" else rnn


PATCHES = tuple(
    patch
    for name in ("GRUCell", "RNNCell")
    for patch in swaps(
        f"torch.nn.{name}",
        {"forward": lambda _own, name=name: _forward_of(name)},
        why="The cell asks for the rank of its input, which compiled code does not know in a loop: the TorchScript "
        "exporter fails.",
        upstream="torch/nn/modules/rnn.py",
        until=RETIRED,
    )
)
