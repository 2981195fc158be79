"""Weights that were trained elsewhere, out of the files that people keep them in. Worker only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BadRequest
from .weights import read_weights

if TYPE_CHECKING:
    import torch


def read_given(path: Path, key: str | None = None) -> dict[str, torch.Tensor]:
    """The state dict in a .safetensors file, or in a checkpoint that holds nothing but weights (.pt, .pth, .ckpt).

    A checkpoint's pickle is read by torch's weights-only reader, which runs nothing that the file names.
    Of a checkpoint with more in it than weights, `key` names the part, "state_dict" where it is not given.

    Raises BadRequest.
    """
    if not path.is_file():
        raise BadRequest(f"no such file: {path}", fix="check the path of the weights")
    if path.stat().st_size == 0:
        raise BadRequest(f"{path} is empty", fix="copy it again, or save it again")
    if path.suffix == ".safetensors":
        return read_weights(path)
    return _state_in(_read_checkpoint(path), path, key)


def _read_checkpoint(path: Path) -> object:
    import pickle
    import re
    import warnings

    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a TorchScript archive, and then raises
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        what = f"it names {named[1]}" if named else "it is no checkpoint of torch.save"
        raise BadRequest(
            f"{path} holds more than weights ({what}), and is not executed",
            fix="where you trust it, load it and save torch.save(model.state_dict(), FILE)",
        ) from error
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].partition(". ")[0]
        raise BadRequest(
            f"{path} is not a whole checkpoint: {reason}", fix="copy it again, or save model.state_dict() again"
        ) from error


def _state_in(found: object, path: Path, key: str | None) -> dict[str, torch.Tensor]:
    import torch

    for part in [key] if key else []:
        if not isinstance(found, Mapping) or part not in found:
            raise BadRequest(f"{path} has no part {part!r}", fix=f"name one of {_keys(found)}")
        found = found[part]
    if not key and isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping):
        found = found["state_dict"]
    if (
        not isinstance(found, Mapping)
        or not found
        or not all(isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in found.items())
    ):
        raise BadRequest(f"{path} holds no state dict, but {_keys(found)}", fix="save model.state_dict()")
    return dict(found)


def _keys(found: object) -> str:
    if not isinstance(found, Mapping):
        return f"a {type(found).__name__}"
    return ", ".join(str(key) for key in list(found)[:8]) or "nothing"


def without_prefix(given: Mapping[str, torch.Tensor], wanted: set[str]) -> dict[str, torch.Tensor]:
    """The weights with the one prefix removed that a wrapper put before every name (`model.` of a LightningModule,
    `module.` of DDP), if the names then fit the model; else as they are."""
    first = next(iter(given), "")
    for at, letter in enumerate(first):
        prefix = first[: at + 1]
        if letter == "." and all(name.startswith(prefix) for name in given):
            bare = {name.removeprefix(prefix): value for name, value in given.items()}
            if set(bare) == wanted:
                return bare
    return dict(given)
