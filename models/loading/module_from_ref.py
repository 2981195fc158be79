"""Make a module from a recipe, a class, a function or an instance. Runs the user's code: worker only."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest
from ..recipe import Recipe
from ..sources import CodeRef
from .code_refs import load_named
from .factory_arguments import arguments
from .user_code import user_code, working_in_root

if TYPE_CHECKING:
    import torch

_SEED = 0


def construct(ref: CodeRef, seed: int = _SEED) -> torch.nn.Module:
    """Make the module that `ref` names, in eval mode, without gradients.
    Raises BadRequest where the result is no torch module, or does not take the reference's settings."""
    import torch

    with torch.random.fork_rng(devices=[]), user_code(f"making the model {ref.text}", ref):
        torch.manual_seed(seed)
        loaded = load_named(ref)  # an instance is made while its file is imported
        torch.manual_seed(seed)
        with working_in_root(ref):
            model = _call_factory(loaded, ref)
    if not isinstance(model, torch.nn.Module):
        raise BadRequest(
            f"{ref.text} gives a {type(model).__name__}, not a torch.nn.Module",
            fix="name a class, a function or an instance that gives a module",
        )
    bare = _unwrap(model, ref)
    _allow_tracing(bare)
    with user_code(f"eval() of {ref.text}", ref):  # which may be the user's own
        return bare.eval().requires_grad_(False)


def _allow_tracing(model: torch.nn.Module) -> None:
    """Let torch.jit read the properties of Lightning's modules, as their own to_torchscript does.
    torch.jit reads every property, and those of a module without a Trainer raise unless this is set."""
    for module in model.modules():
        if hasattr(module, "_jit_is_scripting"):
            module._jit_is_scripting = True  # type: ignore[assignment]


def _unwrap(model: torch.nn.Module, ref: CodeRef) -> torch.nn.Module:
    """Return the module inside a wrapper of torch.compile or DataParallel.
    Raises BadRequest for TorchScript, whose forward is no Python."""
    import torch

    if isinstance(model, torch.jit.ScriptModule):
        raise BadRequest(
            f"{ref.text} gives a TorchScript module", fix="save it with torch.jit.save, and name that file as the model"
        )
    inner = getattr(model, "_orig_mod", None)
    if inner is None and isinstance(model, torch.nn.DataParallel):
        inner = model.module
    return _unwrap(inner, ref) if isinstance(inner, torch.nn.Module) else model


def _call_factory(loaded: Any, ref: CodeRef) -> object:
    import torch

    if isinstance(loaded, Recipe):
        _check_unset(ref, "a recipe")
        return loaded.net()
    if isinstance(loaded, torch.nn.Module) or not callable(loaded):
        _check_unset(ref, "no class and no function")
        return loaded
    if inspect.isabstract(loaded):
        lacking = ", ".join(sorted(loaded.__abstractmethods__))
        raise BadRequest(f"{ref.text} is abstract: it lacks {lacking}", fix="name a class that has them")
    return loaded(**arguments(loaded, ref.settings, ref.text))


def _check_unset(ref: CodeRef, kind: str) -> None:
    if ref.settings:
        raise BadRequest(f"{ref.text} is {kind}, and takes no settings", fix="leave --set out")
