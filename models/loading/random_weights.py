"""Random weights that tell a wrong copy from a right one. Worker only.

Constructors leave heads and branches empty, and BatchNorm has seen no data. Signals fade from layer to layer, the model
answers alike whatever its inputs are, and a wrong copy of it would give the right answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..signature import TensorSpec

if TYPE_CHECKING:
    import torch

_ROWS = 2


def fill_constants(model: torch.nn.Module) -> None:
    """Fill every parameter that is one number all over with random numbers of torch's generator.
    Constructors begin with empty heads, layer scales and gates of 0 or 1e-6, and norms of weight 1."""
    import torch

    with torch.no_grad():
        for value in model.parameters():
            if not value.is_floating_point() or value.numel() < 2 or value.min() < value.max():
                continue
            level = float(value.flatten()[0])
            if value.squeeze().ndim > 1:
                value.add_(torch.randn_like(value) * value[0].numel() ** -0.5)
            elif level == 0:
                value.normal_(std=0.05)
            else:
                value.uniform_(0.7, 1.3).mul_(max(abs(level), 0.3))


def calibrate(model: torch.nn.Module, specs: Sequence[TensorSpec]) -> None:
    """Give every BatchNorm the statistics of its inputs in one call.
    The call has random inputs like those that the model is verified on. Nothing is done where `specs` is empty: the
    inputs are not known."""
    import torch
    from torch.nn.modules.batchnorm import _BatchNorm

    norms = [part for part in model.eval().modules() if isinstance(part, _BatchNorm) and part.track_running_stats]
    if not norms or not specs:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None  # the plain average
        norm.reset_running_stats()
        norm.train()
    shapes = [spec.sized(dict.fromkeys(spec.dynamic_axes.values(), _ROWS)) for spec in specs]
    with torch.no_grad():
        model(*(torch.randn(shape) + 0.3 for shape in shapes))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.eval()
