"""Weights that a model computes from others at each call, as plain weights: what an exporter is given. Worker only.

`torch.nn.utils.parametrizations` (weight_norm, spectral_norm, orthogonal), whatever a person registers with
`torch.nn.utils.parametrize`, the older hooks of the first two, and masks of `torch.nn.utils.prune`. In evaluation mode
such a weight is a constant: torch's exporters stop at what makes it (a matrix exponential), or carry that into every
copy. The reference stays the model as it was given.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.foreign_errors import first_line
from ...models.signature import Signature
from ...models.sources import read_source
from ..patches.torch_export.mixture_of_experts import ask_every_expert
from ..patches.torch_export.transformer_layers import make_capturable
from .guards import agree, leaves

if TYPE_CHECKING:
    import torch

_BATCH = 2


def model_to_export(folder: Path) -> torch.nn.Module:
    """As build_model gives it, with encoders and experts that can be captured; or, where weights of it are computed, a
    copy of that with what they come to. Where such a copy cannot be made, or answers otherwise, that is printed, and
    the model without is given."""
    from ...models.loading.build import build_model

    model = build_model(folder)
    make_capturable(model)
    ask_every_expert(model)
    if not _is_computed(model):
        return model
    try:
        made = _baked(model, read_source(folder).signature)
    except Exception as error:  # noqa: BLE001  (a model of any kind: the exporter will say what it cannot take)
        print(f"weights stay computed at each call: {type(error).__name__}: {first_line(error)}")
        return model
    if made is None:
        print("weights stay computed at each call: with what they come to the model answers otherwise")
    return made or model


def _baked(model: torch.nn.Module, signature: Signature) -> torch.nn.Module | None:
    """None where a copy with plain weights does not answer as the model does."""
    import torch

    from ...models.probes.random_inputs import sample_inputs

    def answers(asked: torch.nn.Module) -> list[Any]:
        arrays = sample_inputs(signature, _BATCH)
        with torch.no_grad():
            return leaves(asked(*(torch.from_numpy(arrays[spec.name]) for spec in signature.inputs)))

    wanted = answers(model)  # first: a hook leaves a weight that can be copied only when it is called without gradients
    made = copy.deepcopy(model)
    for module in made.modules():
        _bake(module)
    made.requires_grad_(False)
    pairs = zip(answers(made), wanted, strict=True)
    return made if all(agree(got, want) for got, want in pairs if torch.is_tensor(want)) else None


def _is_computed(model: torch.nn.Module) -> bool:
    from torch.nn.utils.parametrize import is_parametrized

    return any(is_parametrized(module) or any(_hooks(module)) for module in model.modules())


def _bake(module: torch.nn.Module) -> None:
    from torch.nn.utils.parametrize import is_parametrized, remove_parametrizations

    for key, hook in list(_hooks(module)):
        hook.remove(module)
        del module._forward_pre_hooks[key]
    if is_parametrized(module):
        for name in list(module.parametrizations):  # type: ignore[arg-type]  # a ModuleDict
            remove_parametrizations(module, name, leave_parametrized=True)


def _hooks(module: torch.nn.Module) -> Iterator[tuple[int, Any]]:
    """Those that compute a weight before each call, and know how to be taken off."""
    from torch.nn.utils.prune import BasePruningMethod
    from torch.nn.utils.spectral_norm import SpectralNorm
    from torch.nn.utils.weight_norm import WeightNorm

    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod | SpectralNorm | WeightNorm):
            yield key, hook
