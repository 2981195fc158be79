"""Make a module from a recipe, a class, a function or an instance, and that of a source, with its weights.

Runs the user's code: worker only.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest, Refused
from ..recipe import Recipe
from ..signature import Signature
from ..sources import WEIGHTS, CodeRef, read_source
from .call_convention import Call, flat
from .code_refs import load_named
from .factory_arguments import factory_arguments
from .half_precision import widen
from .user_code import user_code, working_in_root
from .weight_files import add_note, load_weights, read_weights

if TYPE_CHECKING:
    import torch

_SEED = 0


def build_model(folder: Path) -> torch.nn.Module:
    """Build the module of the source in `folder`, with its weights, in eval mode, without gradients, on the CPU.

    It takes the signature's inputs by position, and `name_outputs` names the signature's outputs in its result. Without
    a weights file it is as its code constructs it under a fixed seed. Half-precision weights are float32.
    The code of another interpreter is built here, with its packages behind ours.
    Raises BadRequest where the code or the weights do not fit, Refused where such code cannot be built here."""
    source = read_source(folder)
    call = None if source.call is None else Call.from_json(source.call)
    try:
        return with_source_weights(construct(source.ref), folder, call)
    except BadRequest as error:
        if source.ref.python is None:
            raise
        message = f"not built by our torch: {error.what}"
        raise Refused(message, fix="the captures by its own torch need nothing of that") from error


def with_source_weights(model: torch.nn.Module, folder: Path, call: Call | None) -> torch.nn.Module:
    """Put the weights in a source's folder into its module, in float32, and return it as it is called."""
    if (folder / WEIGHTS).exists():
        load_weights(model, read_weights(folder / WEIGHTS))
    widen(model)
    return model if call is None else flat(model, call)


def call_model(model: torch.nn.Module, signature: Signature, inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Call the module and return its outputs by name.

    `inputs` are in the signature's order. The module may return a tensor, a sequence or a mapping.
    Raises BadRequest where it returns other outputs than the signature names."""
    return name_outputs(model(*inputs), [spec.name for spec in signature.outputs])


def name_outputs(returned: object, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """Return the results of a module under the names of its outputs, in their order.
    Raises BadRequest where the two do not match."""
    if isinstance(returned, Mapping):
        outputs, count = dict(returned), len(returned)
        fits = set(outputs) == set(names)
    else:
        values = list(returned) if isinstance(returned, tuple | list) else [returned]
        fits, count = len(values) == len(names), len(values)
        outputs = dict(zip(names, values, strict=False))
    if not fits:
        raise BadRequest(
            f"the model returned {count} outputs where its signature names {', '.join(names)}",
            fix="name the model's outputs in the signature, in its order",
        )
    return {name: outputs[name] for name in names}


def construct(ref: CodeRef) -> torch.nn.Module:
    """Make the module that `ref` names, in eval mode, without gradients.
    Raises BadRequest where the result is no torch module, or does not take the reference's settings."""
    import torch

    if ref.python:  # their packages behind ours: whatever that gives is verified against their own answers
        sys.path.extend(path for path in ref.python.packages if path not in sys.path)
    notes: list[str] = []
    with (
        torch.random.fork_rng(devices=[]),
        _blame_checkpoint(notes),
        user_code(f"making the model {ref.text}", ref),
    ):
        torch.manual_seed(_SEED)
        loaded = load_named(ref)  # an instance is made while its file is imported
        torch.manual_seed(_SEED)
        with working_in_root(ref):
            model = _call_factory(loaded, ref, notes)
    if not isinstance(model, torch.nn.Module):
        raise BadRequest(
            f"{ref.text} gives a {type(model).__name__}, not a torch.nn.Module",
            fix="name a class, a function or an instance that gives a module",
        )
    bare = _unwrap(model, ref)
    _allow_tracing(bare)
    for note in notes:
        add_note(bare, note)
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


@contextmanager
def _blame_checkpoint(notes: list[str]) -> Iterator[None]:
    """Say in an error of the factory that it was called with what a checkpoint records."""
    try:
        yield
    except BadRequest as error:
        if not notes:
            raise
        raise BadRequest(
            f"{error.what} ({notes[0]})", fix=f"set what is wrong: --set NAME=VALUE; or {error.fix}"
        ) from error


def _call_factory(loaded: Any, ref: CodeRef, notes: list[str]) -> object:
    """Make the module; `notes` gets sentences on the arguments that its checkpoint records."""
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
    call = factory_arguments(loaded, ref.settings, ref.text, ref.recorded)
    notes += call.notes
    return loaded(**call.values)


def _check_unset(ref: CodeRef, kind: str) -> None:
    if ref.settings:
        raise BadRequest(f"{ref.text} is {kind}, and takes no settings", fix="leave --set out")
