"""Weights in files: ours in safetensors, and those that were trained elsewhere. Worker only, but for a digest.

A module also keeps notes for the user on where its weights are from.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..array_file import map_arrays
from ..errors import BadRequest
from ..sources import RecordedSettings
from ..store import digest_of, digest_of_json
from ..untrusted_files import check_plain
from ..user_python.inside.model_state import separate_overlaps, state_of_module
from .checkpoints.checkpoint_file import read_checkpoint
from .checkpoints.file_head import check_weight_file
from .checkpoints.hyper_parameters import recorded_arguments
from .checkpoints.state_dicts import list_keys, part_at, state_of, state_places, without_prefix
from .checkpoints.stored_tensors import load_tensors, tensor_record
from .checkpoints.stubs import PickleRefused

if TYPE_CHECKING:
    import torch

_INDEX = ".index.json"  # of weights in several files, as transformers writes them
_INDEX_BYTES = 64 << 20
_NOTES = "_transload_notes"  # the attribute of a module
_SHOWN = 3  # names in a sentence
Tensor = TypeVar("Tensor")  # torch's, or a record of one
_SAYABLE = (bool, int, float, str)  # settings that a user would write on a command line


def weights_digest(path: Path) -> str:
    """Return the sha256 of a file of weights; of an index, over it and every file that it names."""
    check_plain(path)
    if not path.name.endswith(_INDEX):
        return digest_of(path)
    shards = shards_of(path)
    for shard in shards:
        check_plain(shard)
    return digest_of_json({file.name: digest_of(file) for file in (path, *shards)})


@dataclass(frozen=True)
class WeightFile:
    """A file of weights that was read once. The tensors of a checkpoint are not loaded yet."""

    path: Path
    content: object  # a state dict of torch's tensors, or a checkpoint as read_checkpoint reads it

    def load_into(self, model: torch.nn.Module, key: str | None = None) -> list[str]:
        """Put the weights into `model`, and return sentences for the user.
        They say that a prefix was removed, that names were left out, that weights had another dtype. Raises BadRequest
        where the weights do not fit, or the file is not complete."""
        wanted = state_of_module(model)
        records, notes = self.records(key, set(wanted))
        records, prefix_notes = fit_names(records, set(wanted))
        notes += prefix_notes
        state = _tensors(records, self.path)
        try:
            load_weights(model, state)
        except BadRequest as error:
            raise _with_settings(error, model, self.content) from error
        kinds = Counter(str(value.dtype) for name, value in state.items() if value.dtype != wanted[name].dtype)
        for dtype, count in kinds.items():
            kind = dtype.removeprefix("torch.")
            notes.append(f"{count} weights are {kind} in {self.path.name}, and are taken as the model has them")
        return notes

    def state(self, key: str | None = None) -> dict[str, torch.Tensor]:
        """Return the state dict in the file, or in the part that `key` names. Raises BadRequest."""
        return _tensors(self.records(key)[0], self.path)

    def recorded_settings(self) -> RecordedSettings:
        """Return the arguments that a checkpoint records for the factory of its model."""
        values, open_names = recorded_arguments(self.content)
        return RecordedSettings(self.path.name, values, open_names)

    def records(
        self, key: str | None = None, wanted: Collection[str] = frozenset()
    ) -> tuple[Mapping[str, Any], list[str]]:
        """Return the state dict that is meant, with sentences for the user.

        That is the part at `key`; without one the file itself, else its state_dict, else the only part whose names fit
        those that are wanted. Raises BadRequest where there is none."""
        content = part_at(self.content, key, self.path) if key else self.content
        if state := _state(content):
            return state, []
        places = {} if key else state_places(content)
        if "state_dict" in places:
            state = places.pop("state_dict")
            twins = [place for place, part in places.items() if len(part) == len(state)]
            some = f"of state_dict and {', '.join(twins)} in {self.path.name} the first was taken"
            return state, [f"{some}; --weights-key names another"] if twins else []
        fitting = [place for place, part in places.items() if _fits(part, wanted)]
        if len(fitting) == 1:
            return places[fitting[0]], [f"the weights are the part {fitting[0]} of {self.path.name}"]
        names = (fitting or list(places))[:4]
        fix = f"name the part: {' or '.join(f'--weights-key {place}' for place in names)}" if names else ""
        raise BadRequest(
            f"{self.path} holds no state dict, but {list_keys(content)}", fix=fix or "save model.state_dict()"
        )


def _state(content: object) -> Mapping[str, Any] | None:
    """Return a state dict of tensors, of records of them, or of both (an index of files of two kinds); or None."""
    import torch

    values = content.values() if isinstance(content, Mapping) else ()
    if any(isinstance(value, torch.Tensor) for value in values):
        plain = all(isinstance(value, torch.Tensor) or tensor_record(value) is not None for value in values)
        return cast("Mapping[str, Any]", content) if plain else None
    return state_of(content)


def _fits(state: Mapping[str, Any], wanted: Collection[str]) -> bool:
    try:
        return bool(wanted) and set(fit_names(state, set(wanted))[0]) == set(wanted)
    except BadRequest:  # it fits more than once
        return True


def _tensors(records: Mapping[str, Any], path: Path) -> dict[str, torch.Tensor]:
    """Load the tensors of a state dict. Raises BadRequest where one is not plain numbers."""
    tensors = {name: value for name, value in records.items() if tensor_record(value) is None}
    stored = {name: record for name, value in records.items() if (record := tensor_record(value)) is not None}
    try:
        return tensors | load_tensors(stored, path.name)
    except PickleRefused as error:
        raise BadRequest(
            f"{error}, which is not read", fix="save plain tensors: dequantised, dense and whole"
        ) from error


def load_weight_file(model: torch.nn.Module, path: Path, key: str | None = None) -> list[str]:
    """Put the weights in the file at `path` into `model`, and return sentences for the user (WeightFile.load_into)."""
    return open_weight_file(path).load_into(model, key)


def read_weight_file(path: Path, key: str | None = None) -> dict[str, torch.Tensor]:
    """Read a state dict from a file of weights.

    That is a .safetensors file, the files that an index names (.safetensors.index.json, .bin.index.json), or a
    checkpoint (.pt, .pth, .ckpt, .bin). Of a checkpoint's pickle only tensors are built, and nothing that it names is
    imported or called. Of a file with more in it than the model's weights, `key` names the part: "model_ema.state", or
    a prefix of the weights' names. Without it a part called state_dict is used, as Lightning writes it.
    Raises BadRequest."""
    return open_weight_file(path).state(key)


def open_weight_file(path: Path) -> WeightFile:
    """Read a file, or the files that an index names, but for the tensors of checkpoints. Raises BadRequest."""
    check_weight_file(path)
    if path.suffix == ".npz":
        return WeightFile(path, _read_arrays(path))
    if path.suffix != ".json":
        return WeightFile(path, read_weights(path) if path.suffix == ".safetensors" else read_checkpoint(path))
    state: dict[str, object] = {}
    for shard in shards_of(path):
        check_weight_file(shard)
        part: Mapping[str, Any] = (
            read_weights(shard)
            if shard.suffix == ".safetensors"
            else WeightFile(shard, read_checkpoint(shard)).records()[0]
        )
        if twice := [name for name in part if name in state]:
            raise BadRequest(
                f"{few(twice)} of {path.name} lies in {shard.name} and in another file", fix="copy the model again"
            )
        state |= part
    return WeightFile(path, state)


def _read_arrays(path: Path) -> dict[str, torch.Tensor]:
    """Read arrays that numpy.savez wrote, as a state dict. Raises BadRequest."""
    import numpy as np
    import torch

    try:
        return {name: torch.from_numpy(np.array(array)) for name, array in map_arrays(path).items()}
    except TypeError as error:  # text and dates are no tensors
        raise BadRequest(f"{path} has an array that is no tensor: {error}", fix="save arrays of numbers") from error


def _with_settings(error: BadRequest, model: torch.nn.Module, checkpoint: object) -> BadRequest:
    """Add the settings in Lightning's checkpoint to the refusal, where the model has other ones."""
    recorded = checkpoint.get("hyper_parameters") if isinstance(checkpoint, Mapping) else None
    own = getattr(model, "hparams", None)
    if not (isinstance(recorded, Mapping) and isinstance(own, Mapping)):
        return error
    options = []
    for name, value in own.items():
        setting = recorded.get(name)
        if isinstance(setting, _SAYABLE) and setting != value:
            text = setting if isinstance(setting, str) else json.dumps(setting)
            options.append(f"--set {shlex.quote(f'{name}={text}')}")
    return BadRequest(error.what, fix=f"make the model as the file says: {' '.join(options)}") if options else error


def shards_of(index: Path) -> list[Path]:
    """List the files of weights that an index names; they lie beside it.
    Raises BadRequest where it is no index, or names a file in another folder."""
    try:
        if index.stat().st_size > _INDEX_BYTES:
            raise ValueError(f"it is larger than {_INDEX_BYTES >> 20} MiB")
        names = json.loads(index.read_bytes())["weight_map"].values()
        files = list(dict.fromkeys(str(name) for name in names))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadRequest(
            f"{index} is no index of weights: {error}", fix="name a .safetensors file, or the index of several"
        ) from error
    for name in files:
        if Path(name).name != name or name.startswith(".") or not name.endswith((".safetensors", ".bin")):
            raise BadRequest(
                f"{index} names {name!r}, which is no file of weights beside it", fix="copy the model again"
            )
    return [index.parent / name for name in files]


def fit_names(state: Mapping[str, Tensor], wanted: set[str]) -> tuple[dict[str, Tensor], list[str]]:
    """Return the weights under the model's names, with sentences for the user.

    A prefix that a wrapper put before every name is removed (`model.` of a LightningModule, `module.` of DDP,
    `_orig_mod.` of torch.compile), with everything that the wrapper keeps beside the model (a loss with weights). Where
    no prefix fits, the names stay.
    Raises BadRequest where two prefixes fit, a student's and a teacher's, or one and the names as they are."""
    if set(state) == wanted or not wanted:
        return dict(state), []
    first = min(wanted)
    prefixes = [path.removesuffix(first) for path in state if path.endswith(f".{first}")]
    prefixes = [prefix for prefix in prefixes if set(without_prefix(state, prefix)) == wanted]
    if len(prefixes) > 1:
        keys = " or ".join(f"--weights-key {prefix.removesuffix('.')}" for prefix in prefixes)
        raise BadRequest(
            f"the weights fit the model more than once: under {', '.join(prefixes)}", fix=f"choose: {keys}"
        )
    if not prefixes:
        return dict(state), []
    prefix = prefixes[0]
    if wanted <= set(state):
        raise BadRequest(
            f"the weights fit the model more than once: as they are, and under {prefix}",
            fix=f"choose: --weights-key {prefix.removesuffix('.')}, or save the others alone",
        )
    left = [name for name in state if not name.startswith(prefix)]
    notes = [f"the weights' names begin with {prefix}; left out: {few(left)}"] if left else []
    return without_prefix(state, prefix), notes


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
    own = state_of_module(model)
    if misfits := _misfits(own, state):
        shapes = all(name in own and name in state for name in misfits)
        raise BadRequest(
            f"the weights do not fit the model: {'; '.join(misfits.values())}",
            fix="make the model with the settings that they were trained with, each as --set NAME=VALUE"
            if shapes
            else "name the weights that this model made, or the part of the file that holds them with --weights-key",
        )
    separate_overlaps(model)
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
