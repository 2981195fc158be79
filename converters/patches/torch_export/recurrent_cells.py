"""`nn.GRUCell`, `nn.LSTMCell` and `nn.RNNCell` by operators that take a row as well as a batch of rows.

PyTorch's own ask their input how many axes it has. In a loop that is compiled nothing tells that, and so torch's older
exporter fails at the question; two of the three cells it does not know either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ..torch_shared.replaced import Instead, replaced

if TYPE_CHECKING:
    from torch import Tensor


def open_cells() -> AbstractContextManager[None]:
    """While a model is compiled from its source."""
    return replaced(_table())


def _table() -> Iterator[Instead]:
    """What TorchScript reads: an input (..., input_size), and states (..., hidden_size). Formulas: the classes'."""
    import torch
    from torch import nn
    from torch.nn import functional

    def gru(self: nn.GRUCell, input: Tensor, hx: Tensor | None = None) -> Tensor:  # noqa: A002  (the cell's own)
        size = self.hidden_size
        given = functional.linear(input, self.weight_ih, self.bias_ih)
        if hx is None:
            hx = torch.zeros_like(given.narrow(-1, 0, size))
        kept = functional.linear(hx, self.weight_hh, self.bias_hh)
        reset = torch.sigmoid(given.narrow(-1, 0, size) + kept.narrow(-1, 0, size))
        update = torch.sigmoid(given.narrow(-1, size, size) + kept.narrow(-1, size, size))
        new = torch.tanh(given.narrow(-1, 2 * size, size) + reset * kept.narrow(-1, 2 * size, size))
        return new + update * (hx - new)

    def lstm(
        self: nn.LSTMCell,
        input: Tensor,  # noqa: A002  (the cell's own)
        hx: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        size = self.hidden_size
        given = functional.linear(input, self.weight_ih, self.bias_ih)
        if hx is None:
            nothing = torch.zeros_like(given.narrow(-1, 0, size))
            hx = (nothing, nothing)
        gates = given + functional.linear(hx[0], self.weight_hh, self.bias_hh)
        taken, kept, shown = (  # unpacked where they are made: TorchScript has no generators
            torch.sigmoid(gates.narrow(-1, 0, size)),
            torch.sigmoid(gates.narrow(-1, size, size)),
            torch.sigmoid(gates.narrow(-1, 3 * size, size)),
        )
        cell = kept * hx[1] + taken * torch.tanh(gates.narrow(-1, 2 * size, size))
        return shown * torch.tanh(cell), cell

    def rnn(self: nn.RNNCell, input: Tensor, hx: Tensor | None = None) -> Tensor:  # noqa: A002  (the cell's own)
        made = functional.linear(input, self.weight_ih, self.bias_ih)
        if hx is None:
            hx = torch.zeros_like(made)
        made = made + functional.linear(hx, self.weight_hh, self.bias_hh)
        return torch.tanh(made) if self.nonlinearity == "tanh" else torch.relu(made)

    for owner, forward in ((nn.GRUCell, gru), (nn.LSTMCell, lstm), (nn.RNNCell, rnn)):
        yield Instead(owner, "forward", forward)
