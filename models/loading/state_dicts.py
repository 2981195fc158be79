"""Write, read and load the state dict of a module, in safetensors, and note where its weights are from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BadRequest

if TYPE_CHECKING:
    import torch


_NOTES = "_transload_notes"  # the attribute of a module
_SHOWN = 3  # names in a sentence


def write_weights(path: Path, state: Mapping[str, torch.Tensor]) -> None:
    """Write a state dict. Tensors that share memory are written one by one, so that each key reads back alone.
    Raises BadRequest where it holds something else than tensors."""
    import torch
    from safetensors.torch import save_file

    for name, value in state.items():
        if not isinstance(value, torch.Tensor):
            raise BadRequest(
                f"the state {name} is a {type(value).__name__}, not a tensor", fix="keep it out of get_extra_state()"
            )
    save_file({name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}, path)


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read a state dict, on the CPU. Raises BadRequest where the file is missing, cut short or not safetensors."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise BadRequest(f"no such file: {path}", fix="check the path of the weights") from error
    except (SafetensorError, OSError) as error:
        raise BadRequest(
            f"{path} is not a whole safetensors file: {error}", fix="copy it again, or save it again with save_file"
        ) from error


def load_weights(model: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Put `state` into `model`: every key, no other key, the same shapes, and no dtype that would lose digits.
    Raises BadRequest with what is missing, left over, or of another shape or dtype."""
    own = model.state_dict()
    if misfits := _misfits(own, state):
        shapes = all(name in own and name in state for name in misfits)
        raise BadRequest(
            f"the weights do not fit the model: {'; '.join(misfits.values())}",
            fix="make the model with the settings that they were trained with, each as --set NAME=VALUE"
            if shapes
            else "name the weights that this model made, or the part of the file that holds them with --weights-key",
        )
    own.update(state)  # keeps the layers' versions, which a file does not: torchvision's MNASNet asks for its own
    model.load_state_dict(own, strict=True)


def _misfits(wanted: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Describe what does not fit, the first few of each kind, by the name of a weight."""
    misfits: dict[str, str] = {}
    if absent := [name for name in wanted if name not in state]:
        misfits[absent[0]] = f"{few(absent)} {'is' if len(absent) == 1 else 'are'} missing"
    if extra := [name for name in state if name not in wanted]:
        misfits[extra[0]] = f"the model has no {few(extra)}"
    other = {name: text for name in wanted if name in state and (text := _mismatch(wanted[name], state[name]))}
    misfits |= {name: f"{name} is {text}" for name, text in list(other.items())[:_SHOWN]}
    if len(other) > _SHOWN:
        misfits[list(other)[_SHOWN]] = f"and {len(other) - _SHOWN} more differ"
    return misfits


def _mismatch(wanted: torch.Tensor, value: torch.Tensor) -> str | None:
    import torch

    if value.shape != wanted.shape:
        return f"{list(value.shape)} where the model has {list(wanted.shape)}"
    if torch.promote_types(value.dtype, wanted.dtype) != wanted.dtype:
        return f"{value.dtype} where the model has {wanted.dtype}, which would lose digits"
    return None


def few(names: Sequence[str]) -> str:
    """Write the first names of a list: "a, b, c and 2 more"."""
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def add_note(model: torch.nn.Module, text: str) -> None:
    """Keep a sentence for the user on a model's weights, on the module itself. Other weights make it void."""
    model.__dict__.setdefault(_NOTES, []).append(text)


def notes_of(model: torch.nn.Module) -> list[str]:
    """Return the sentences, in order."""
    return list(model.__dict__.get(_NOTES, ()))
