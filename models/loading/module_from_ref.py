"""A module out of what a person names: a recipe, a class, a function or an instance. Runs their code: worker only."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest
from ..recipe import Recipe
from ..sources import CodeRef
from .code_refs import load_named
from .factory_arguments import arguments
from .user_code import at_root, user_code

if TYPE_CHECKING:
    import torch

_SEED = 0


def construct(ref: CodeRef, seed: int = _SEED) -> torch.nn.Module:
    """The module that a recipe, a class, a function or an instance gives, in eval mode, without gradients.

    Raises BadRequest where that is no torch module, or does not take the reference's settings.
    """
    import torch

    with torch.random.fork_rng(devices=[]), user_code(f"making the model {ref.text}", ref):
        torch.manual_seed(seed)
        found = load_named(ref)  # an instance is made while its file is imported
        torch.manual_seed(seed)
        with at_root(ref):
            model = _made(found, ref)
    if not isinstance(model, torch.nn.Module):
        raise BadRequest(
            f"{ref.text} gives a {type(model).__name__}, not a torch.nn.Module",
            fix="name a class, a function or an instance that gives a module",
        )
    bare = _bare(model, ref)
    _let_trace(bare)
    with user_code(f"eval() of {ref.text}", ref):  # which may be the user's own
        return bare.eval().requires_grad_(False)


def _let_trace(model: torch.nn.Module) -> None:
    """torch.jit reads every property of a module, and Lightning's modules raise where one asks for a Trainer that they
    do not have; unless this is set, as their own to_torchscript does."""
    for module in model.modules():
        if hasattr(module, "_jit_is_scripting"):
            module._jit_is_scripting = True  # type: ignore[assignment]


def _bare(model: torch.nn.Module, ref: CodeRef) -> torch.nn.Module:
    """The module inside of what only runs it in another way: torch.compile's, and DataParallel's.

    Raises BadRequest for TorchScript, whose forward is no Python.
    """
    import torch

    if isinstance(model, torch.jit.ScriptModule):
        raise BadRequest(
            f"{ref.text} gives a TorchScript module", fix="save it with torch.jit.save, and name that file as the model"
        )
    inner = getattr(model, "_orig_mod", None)
    if inner is None and isinstance(model, torch.nn.DataParallel):
        inner = model.module
    return _bare(inner, ref) if isinstance(inner, torch.nn.Module) else model


def _made(found: Any, ref: CodeRef) -> Any:
    import torch

    if isinstance(found, Recipe):
        _check_unset(ref, "a recipe")
        return found.net()
    if isinstance(found, torch.nn.Module) or not callable(found):
        _check_unset(ref, "no class and no function")
        return found
    if inspect.isabstract(found):
        lacking = ", ".join(sorted(found.__abstractmethods__))
        raise BadRequest(f"{ref.text} is abstract: it lacks {lacking}", fix="name a class that has them")
    return found(**arguments(found, ref.settings, ref.text))


def _check_unset(ref: CodeRef, what: str) -> None:
    if ref.settings:
        raise BadRequest(f"{ref.text} is {what}, and takes no settings", fix="leave --set out")
