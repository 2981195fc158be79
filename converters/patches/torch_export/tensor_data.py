"""Follow `tensor.data`, at which torch.export stops, and of which a trace makes a constant."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ..ledger import swapped, swaps

if TYPE_CHECKING:
    from types import GetSetDescriptorType

    import torch


def followed_data() -> AbstractContextManager[None]:
    """Read `x.data` as `x.detach()`, which shares its numbers as well, while a model is captured or traced."""
    return swapped(PATCHES)


def _detached(own: GetSetDescriptorType) -> property:
    import torch

    def assign(self: torch.Tensor, value: torch.Tensor) -> None:
        own.__set__(self, value)

    return property(torch.Tensor.detach, assign)


PATCHES = swaps(
    "torch.Tensor",
    {"data": _detached},
    why="torch.export stops at `x.data`; a trace makes a constant of its value.",
    upstream="torch/csrc/autograd/python_variable.cpp (THPVariable_get_data)",
    until="both captures follow `x.data`",
)
