"""Weights in and out of a module: safetensors always, checkpoints only where they hold nothing but weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BadRequest

if TYPE_CHECKING:
    import torch


def write_weights(path: Path, state: Mapping[str, torch.Tensor]) -> None:
    """Write a state dict. Tensors that share memory are written one by one, so that each key reads back alone.

    Raises BadRequest where it holds something else than tensors.
    """
    import torch
    from safetensors.torch import save_file

    for name, value in state.items():
        if not isinstance(value, torch.Tensor):
            raise BadRequest(
                f"the state {name} is a {type(value).__name__}, not a tensor", fix="keep it out of get_extra_state()"
            )
    save_file({name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}, path)


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read a state dict, on the CPU.

    Raises BadRequest where the file is missing, cut short or not safetensors.
    """
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

    Raises BadRequest with the first key that does not fit.
    """
    trouble = _misfit(model.state_dict(), state)
    if trouble:
        raise BadRequest(f"the weights do not fit the model: {trouble}", fix="name the weights that this model made")
    own = model.state_dict()
    own.update(state)  # keeps the layers' versions, which a file does not: torchvision's MNASNet asks for its own
    model.load_state_dict(own, strict=True)


def _misfit(wanted: Mapping[str, torch.Tensor], given: Mapping[str, torch.Tensor]) -> str | None:
    import torch

    for name, tensor in wanted.items():
        if name not in given:
            return f"{name} is missing"
        value = given[name]
        if value.shape != tensor.shape:
            return f"{name} is {list(value.shape)} where the model has {list(tensor.shape)}"
        if torch.promote_types(value.dtype, tensor.dtype) != tensor.dtype:
            return f"{name} is {value.dtype} where the model has {tensor.dtype}, which would lose digits"
    extra = [name for name in given if name not in wanted]
    return f"the model has no {extra[0]}" if extra else None
