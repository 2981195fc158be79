"""PyTorch, imported at its first use: the helpers can be read, and their text pasted, without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..lazy_import import LazyLibrary

if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F  # noqa: N812  its users know it by this name
    from torch import Tensor
else:
    torch, F, Tensor = LazyLibrary("torch"), LazyLibrary("torch.nn.functional"), Any

__all__ = ["F", "Tensor", "torch"]
