"""Replacement of weights that a model computes at each call by constants, for exporters. Worker only.

It covers `torch.nn.utils.parametrizations` (weight_norm, spectral_norm, orthogonal), anything registered with
`torch.nn.utils.parametrize`, the older hooks of the first two, and masks of `torch.nn.utils.prune`. In evaluation mode
such a weight is constant. Torch's exporters stop at its computation (a matrix exponential), or copy that into every
artifact. The reference keeps the model unchanged.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.library_messages import first_line
from ...models.probes.sizes import example_sizes
from ...models.signature import Signature
from ...models.sources import read_source
from ..patches.torch_export.mixture_of_experts import ask_every_expert
from ..patches.torch_export.transformer_layers import make_capturable
from .model_calls import TRIAL_BATCH, call_at, same_answers

if TYPE_CHECKING:
    import torch


def model_to_export(folder: Path) -> torch.nn.Module:
    """Build the model with encoders and experts that can be captured, and with computed weights made constant.
    If constant weights fail or change the answers, prints so and returns the model with computed weights."""
    from ...models.loading.build import build_model

    model = build_model(folder)
    make_capturable(model)
    ask_every_expert(model)
    if not _has_computed_weights(model):
        return model
    try:
        constant = _with_constant_weights(model, read_source(folder).signature)
    except Exception as error:  # noqa: BLE001  (a model of any kind: the exporter will name what it refuses)
        print(f"weights stay computed at each call: {type(error).__name__}: {first_line(error)}")
        return model
    if constant is None:
        print("weights stay computed at each call: with what they come to the model answers otherwise")
    return constant or model


def _with_constant_weights(model: torch.nn.Module, signature: Signature) -> torch.nn.Module | None:
    """Return a copy with constant weights; None if it does not answer as the model does."""
    sizes = example_sizes(signature.inputs, TRIAL_BATCH)
    # First, since a hook leaves a weight that can be copied only after a call without gradients.
    expected = call_at(model, signature, sizes)
    copied = copy.deepcopy(model)
    for module in copied.modules():
        _make_constant(module)
    copied.requires_grad_(False)
    return copied if same_answers(call_at(copied, signature, sizes), expected) else None


def _has_computed_weights(model: torch.nn.Module) -> bool:
    from torch.nn.utils.parametrize import is_parametrized

    return any(is_parametrized(module) or any(_weight_hooks(module)) for module in model.modules())


def _make_constant(module: torch.nn.Module) -> None:
    from torch.nn.utils.parametrize import is_parametrized, remove_parametrizations

    for key, hook in list(_weight_hooks(module)):
        hook.remove(module)
        del module._forward_pre_hooks[key]
    if is_parametrized(module):
        for name in list(module.parametrizations):  # type: ignore[arg-type]  # a ModuleDict
            remove_parametrizations(module, name, leave_parametrized=True)


def _weight_hooks(module: torch.nn.Module) -> Iterator[tuple[int, Any]]:
    """Yield the hooks that compute a weight before each call and can be removed."""
    from torch.nn.utils.prune import BasePruningMethod
    from torch.nn.utils.spectral_norm import SpectralNorm
    from torch.nn.utils.weight_norm import WeightNorm

    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod | SpectralNorm | WeightNorm):
            yield key, hook
