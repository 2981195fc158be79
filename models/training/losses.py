"""Training losses, over outputs by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def cross_entropy(output: str) -> Callable[[Mapping[str, torch.Tensor], torch.Tensor], torch.Tensor]:
    """Return a loss: mean cross entropy of the logits in `output` (batch, classes) against int64 labels (batch,)."""
    return partial(_cross_entropy, output=output)


def _cross_entropy(outputs: Mapping[str, torch.Tensor], labels: torch.Tensor, *, output: str) -> torch.Tensor:
    from torch.nn import functional

    return functional.cross_entropy(outputs[output], labels)
