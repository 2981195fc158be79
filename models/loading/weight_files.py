"""Weights in files: ours in safetensors, and those that were trained elsewhere. Worker only, but for a digest.

A module also keeps notes for the user on where its weights are from.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest
from ..foreign_files import check_plain, check_unpacked
from ..store import digest_of, digest_of_json

if TYPE_CHECKING:
    import torch

_INDEX = ".index.json"  # of weights in several files, as transformers writes them
_INDEX_BYTES = 64 << 20
_NOTES = "_transload_notes"  # the attribute of a module
_SHOWN = 3  # names in a sentence
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


def load_weight_file(model: torch.nn.Module, path: Path, key: str | None = None) -> list[str]:
    """Put the weights in the file at `path` into `model`, and return sentences for the user.
    They say that a prefix was removed, that names were left out, that weights had another dtype. Raises BadRequest
    where the weights do not fit, or the file is not complete."""
    wanted, content = model.state_dict(), _content(path)
    state, notes = fit_names(_state_in(content, path, key), set(wanted))
    notes += [] if key else _also_there(content, path)
    try:
        load_weights(model, state)
    except BadRequest as error:
        raise _with_settings(error, model, content) from error
    kinds = Counter(str(value.dtype) for name, value in state.items() if value.dtype != wanted[name].dtype)
    for dtype, count in kinds.items():
        notes.append(
            f"{count} weights are {dtype.removeprefix('torch.')} in {path.name}, and are taken as the model has them"
        )
    return notes


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


def read_weight_file(path: Path, key: str | None = None) -> dict[str, torch.Tensor]:
    """Read a state dict from a file of weights.

    That is a .safetensors file, the files that an index names (.safetensors.index.json), or a checkpoint that holds
    nothing but weights (.pt, .pth, .ckpt, .bin). A checkpoint's pickle is read by torch's weights-only reader, which
    runs nothing that the file names. Of a file with more in it than the model's weights, `key` names the part:
    "model_ema.state", or a prefix of the weights' names. Without it a part called state_dict is used, as Lightning
    writes it.
    Raises BadRequest."""
    return _state_in(_content(path), path, key)


def _content(path: Path) -> object:
    """Read everything in a file, or in the files that an index names."""
    _check_there(path)
    if path.suffix != ".json":
        return read_weights(path) if path.suffix == ".safetensors" else _read_checkpoint(path)
    state: dict[str, torch.Tensor] = {}
    for shard in shards_of(path):
        _check_there(shard)
        state |= (
            read_weights(shard) if shard.suffix == ".safetensors" else _state_in(_read_checkpoint(shard), shard, None)
        )
    return state


def _also_there(content: object, path: Path) -> list[str]:
    """Say that beside the state_dict that was used lie as many other weights, such as an average of them."""
    state = content.get("state_dict") if isinstance(content, Mapping) else None
    if not isinstance(state, Mapping) or not _is_state(state):
        return []
    parts = {place: _part(content, place, path) for place in _places(content) if place != "state_dict"}
    twins = [place for place, part in parts.items() if isinstance(part, Mapping) and len(part) == len(state)]
    note = f"of state_dict and {', '.join(twins)} in {path.name} the first was taken; --weights-key names another"
    return [note] if twins else []


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


def _check_there(path: Path) -> None:
    if not path.is_file():
        raise BadRequest(f"no such file: {path}", fix="check the path of the weights")
    if path.stat().st_size == 0:
        raise BadRequest(f"{path} is empty", fix="copy it again, or save it again")


def _read_checkpoint(path: Path) -> object:
    with contextlib.suppress(zipfile.BadZipFile, NotImplementedError, ValueError), zipfile.ZipFile(path) as archive:
        check_unpacked(path, archive)  # what is no whole zip, torch says
    import pickle
    import re
    import warnings

    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a TorchScript archive, and then raises
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL ([\w.]+)\s", f"{error} ")  # what is no name is the content of any file
        reason = f"it names {named[1]}" if named else "it is no checkpoint of torch.save"
        raise BadRequest(
            f"{path} holds more than weights ({reason}), and is not executed",
            fix="where you trust it, load it and save torch.save(model.state_dict(), FILE)",
        ) from None  # torch's own words, which the log would have, quote the file
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].partition(". ")[0]
        raise BadRequest(
            f"{path} is not a whole checkpoint: {reason}", fix="copy it again, or save model.state_dict() again"
        ) from error


def _state_in(content: object, path: Path, key: str | None) -> dict[str, torch.Tensor]:
    if key:
        content = _part(content, key, path)
    elif isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    if not _is_state(content):
        places = list(_places(content))[:4]
        fix = f"name the part: {' or '.join(f'--weights-key {place}' for place in places)}" if places else ""
        raise BadRequest(f"{path} holds no state dict, but {_keys(content)}", fix=fix or "save model.state_dict()")
    return dict(content)  # type: ignore[call-overload,no-any-return]


def _part(content: object, key: str, path: Path) -> object:
    """Return the part of a checkpoint at a dotted key.
    A step may have dots of its own, and the last may be a prefix of the weights' names."""
    if not isinstance(content, Mapping):
        raise BadRequest(f"{path} has no part {key!r}", fix=f"leave --weights-key out: it holds {_keys(content)}")
    if key in content:
        return content[key]
    for at in (at for at, letter in enumerate(key) if letter == "."):
        if isinstance(content.get(key[:at]), Mapping):
            return _part(content[key[:at]], key[at + 1 :], path)
    named = _without_prefix(content, f"{key}.")
    if not named:
        raise BadRequest(f"{path} has no part {key!r}", fix=f"name one of {_keys(content)}")
    return named


def _is_state(content: object) -> bool:
    import torch

    return (
        isinstance(content, Mapping)
        and bool(content)
        and all(isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in content.items())
    )


def _places(content: object, before: str = "", deep: int = 3) -> Iterator[str]:
    """Yield the keys of the state dicts inside a checkpoint."""
    if isinstance(content, Mapping) and deep:
        for key, value in content.items():
            if _is_state(value):
                yield f"{before}{key}"
            else:
                yield from _places(value, f"{before}{key}.", deep - 1)


def _keys(content: object) -> str:
    if not isinstance(content, Mapping):
        return f"a {type(content).__name__}"
    return ", ".join(str(key) for key in list(content)[:8]) or "nothing"


def fit_names(state: Mapping[str, torch.Tensor], wanted: set[str]) -> tuple[dict[str, torch.Tensor], list[str]]:
    """Return the weights under the model's names, with sentences for the user.

    A prefix that a wrapper put before every name is removed (`model.` of a LightningModule, `module.` of DDP,
    `_orig_mod.` of torch.compile), with everything that the wrapper keeps beside the model (a loss with weights). Where
    no prefix fits, the names stay.
    Raises BadRequest where two prefixes fit, a student's and a teacher's, or one and the names as they are."""
    if set(state) == wanted or not wanted:
        return dict(state), []
    first = min(wanted)
    prefixes = [path.removesuffix(first) for path in state if path.endswith(f".{first}")]
    prefixes = [prefix for prefix in prefixes if set(_without_prefix(state, prefix)) == wanted]
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
    return _without_prefix(state, prefix), notes


def _without_prefix(weights: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {str(name).removeprefix(prefix): value for name, value in weights.items() if str(name).startswith(prefix)}


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
