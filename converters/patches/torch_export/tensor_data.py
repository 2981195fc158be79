"""`tensor.data`, which no capture follows: torch.export stops at it, and a trace makes a constant of what it gives."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..torch_shared.replaced import Instead, replaced

if TYPE_CHECKING:
    import torch


def followed_data() -> AbstractContextManager[None]:
    """While a model is captured or traced: `x.data` is `x.detach()`, which shares its numbers, too."""
    import torch

    own: Any = torch.Tensor.data

    def put(self: torch.Tensor, value: torch.Tensor) -> None:
        own.__set__(self, value)

    return replaced([Instead(torch.Tensor, "data", property(torch.Tensor.detach, put))])
