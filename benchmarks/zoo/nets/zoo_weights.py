"""Random weights with the statistics of trained ones. As constructors leave them, zeros hide whole branches (layer
scales, last norms of a residual block, heads), norms of weight 1 and bias 0 hide an exchange, small weights make
attention uniform, and BatchNorm has seen no data: a wrong copy would give the right answer, or all answers alike."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

_MATRICES = ("Linear", "Conv1D", "NonDynamicallyQuantizableLinear")  # the last two: of GPT-2, of nn.MultiheadAttention


def realistic(model: nn.Module, *batches: Iterable[Tensor]) -> nn.Module:
    """`model` in eval mode with weights as if it had been trained; BatchNorm's statistics are of `batches`."""
    model.eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        own = dict(module.named_parameters(recurse=False))
        kind = type(module).__name__
        for name, value in own.items():
            if "norm" in kind.lower():
                _fill_norm(name, value, generator)
            elif kind in _MATRICES and name == "weight":
                _fill_matrix(value, generator, fan_in=value.shape[0 if kind == "Conv1D" else 1])
            else:
                _fill_constant(value, generator)
    _calibrate(model, batches)
    return model


def _fill_norm(name: str, value: Tensor, generator: torch.Generator) -> None:
    if name == "bias":
        value.copy_(_normal(value, generator) * 0.1)
    else:
        value.copy_(torch.rand(value.shape, generator=generator) * 0.6 + 0.7)


def _fill_matrix(value: Tensor, generator: torch.Generator, fan_in: int) -> None:
    """Outputs as large as inputs: transformers begin with 0.02, which leaves every attention uniform."""
    wanted = fan_in**-0.5
    spread = float(value.std()) if value.numel() > 1 else 0.0
    if spread == 0:
        value.copy_(_normal(value, generator) * wanted)
    elif spread < 0.7 * wanted:
        value.mul_(wanted / spread)


def _fill_constant(value: Tensor, generator: torch.Generator) -> None:
    """Whatever is one number all over: layer scales, gates, empty heads and tables, biases, empty tokens."""
    if not value.is_floating_point() or value.numel() < 2 or float(value.max() - value.min()) > 0:
        return
    level = float(value.flatten()[0])
    if value.squeeze().ndim > 1:
        value.copy_(level + _normal(value, generator) * max(value[0].numel(), 1) ** -0.5)
    elif level == 0:
        value.copy_(_normal(value, generator) * 0.05)
    else:  # scales: of small ones (1e-6), what training makes of them
        value.copy_((torch.rand(value.shape, generator=generator) * 0.6 + 0.7) * max(abs(level), 0.3))


def _normal(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator)


def _calibrate(model: nn.Module, batches: Iterable[Iterable[Tensor]]) -> None:
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None  # the plain average over all batches
        norm.reset_running_stats()
        norm.train()
    if norms:
        with torch.no_grad():
            for batch in batches:
                model(*batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.eval()


def pictures(size: int | tuple[int, int], channels: int = 3, count: int = 8) -> list[tuple[Tensor]]:
    """Two batches of pictures to calibrate on."""
    import numpy as np
    from zoo_feeds import picture

    height, width = (size, size) if isinstance(size, int) else size
    rng = np.random.default_rng(7)
    return [(torch.from_numpy(picture(rng, (count, channels, height, width))),) for _ in range(2)]


def noise(*shape: int) -> list[tuple[Tensor]]:
    """Two batches of standard normal numbers."""
    generator = torch.Generator().manual_seed(7)
    return [(torch.randn(shape, generator=generator),) for _ in range(2)]
