"""A module out of what a person names: a recipe, a class, a function or an instance. Runs their code: worker only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import BadRequest
from ..recipe import Recipe
from ..sources import CodeRef
from .catalogue import load_named
from .loading import user_code

if TYPE_CHECKING:
    import torch

_SEED = 0


def construct(ref: CodeRef, seed: int = _SEED) -> torch.nn.Module:
    """The module that a recipe, a class, a function or an instance gives, in eval mode, without gradients.

    Raises BadRequest where that is no torch module.
    """
    import torch

    with torch.random.fork_rng(devices=[]), user_code(f"making the model {ref.text}", ref):
        torch.manual_seed(seed)
        found = load_named(ref)  # an instance is made while its file is imported
        torch.manual_seed(seed)
        if isinstance(found, Recipe):
            model = found.net()
        else:
            model = found() if callable(found) and not isinstance(found, torch.nn.Module) else found
    if not isinstance(model, torch.nn.Module):
        raise BadRequest(
            f"{ref.text} gives a {type(model).__name__}, not a torch.nn.Module",
            fix="name a class, a function or an instance that gives a module",
        )
    return model.eval().requires_grad_(False)
