"""Weights that were trained elsewhere, out of the files that people keep them in. Worker only, but for their digest."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BadRequest
from ..store import digest_of, digest_of_json
from .state_dicts import load_weights, read_weights

if TYPE_CHECKING:
    import torch

_INDEX = ".index.json"  # of weights in several files, as transformers writes them
_INDEX_BYTES = 64 << 20
_SAYABLE = (bool, int, float, str)  # the settings that a person would write on a line


def weights_digest(path: Path) -> str:
    """sha256 of a file of weights; of an index, over it and every file that it names."""
    if not path.name.endswith(_INDEX):
        return digest_of(path)
    return digest_of_json({each.name: digest_of(each) for each in (path, *shards_of(path))})


def load_given(model: torch.nn.Module, path: Path, key: str | None = None) -> list[str]:
    """Put the weights in the file at `path` into `model`. What a person should know of it, a sentence each: that a
    prefix went, that names were left out, that they were of another dtype.

    Raises BadRequest where they do not fit, or the file is no whole one.
    """
    wanted, content = model.state_dict(), _content(path)
    given, notes = fitted(_state_in(content, path, key), set(wanted))
    notes += [] if key else _also_there(content, path)
    try:
        load_weights(model, given)
    except BadRequest as error:
        raise _with_settings(error, model, path) from error
    kinds = Counter(str(value.dtype) for name, value in given.items() if value.dtype != wanted[name].dtype)
    for dtype, count in kinds.items():
        notes.append(
            f"{count} weights are {dtype.removeprefix('torch.')} in {path.name}, and are taken as the model has them"
        )
    return notes


def _with_settings(error: BadRequest, model: torch.nn.Module, path: Path) -> BadRequest:
    """The refusal, with what Lightning's checkpoint says that the model was made with, where it is made otherwise."""
    found = None if path.suffix in (".safetensors", ".json") else _read_checkpoint(path)
    said = found.get("hyper_parameters") if isinstance(found, Mapping) else None
    own = getattr(model, "hparams", None)
    if not (isinstance(said, Mapping) and isinstance(own, Mapping)):
        return error
    other = {name: said[name] for name in own if isinstance(said.get(name), _SAYABLE) and said[name] != own[name]}
    words = [f"--set {shlex.quote(f'{name}={_word(value)}')}" for name, value in other.items()]
    return BadRequest(error.what, fix=f"make the model as the file says: {' '.join(words)}") if words else error


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def read_given(path: Path, key: str | None = None) -> dict[str, torch.Tensor]:
    """The state dict in a .safetensors file, in the files that an index names (.safetensors.index.json), or in a
    checkpoint that holds nothing but weights (.pt, .pth, .ckpt, .bin).

    A checkpoint's pickle is read by torch's weights-only reader, which runs nothing that the file names. Of a file with
    more in it than the model's weights, `key` names the part: "model_ema.state", or what the weights' names begin with.
    Without it a part called state_dict is taken, as Lightning writes it.

    Raises BadRequest.
    """
    return _state_in(_content(path), path, key)


def _content(path: Path) -> object:
    """All that is in a file, or in those that an index names."""
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
    """What to say where state_dict was taken, and beside it lie as many weights: an average of them, say."""
    state = content.get("state_dict") if isinstance(content, Mapping) else None
    if not isinstance(state, Mapping) or not _is_state(state):
        return []
    parts = {place: _part(content, place, path) for place in _places(content) if place != "state_dict"}
    others = [place for place, part in parts.items() if isinstance(part, Mapping) and len(part) == len(state)]
    said = f"of state_dict and {', '.join(others)} in {path.name} the first was taken; --weights-key names another"
    return [said] if others else []


def shards_of(index: Path) -> list[Path]:
    """The files of weights that an index names; they lie beside it.

    Raises BadRequest where it is no index, or names a file in another folder.
    """
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
    if key:
        found = _part(found, key, path)
    elif isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping):
        found = found["state_dict"]
    if not _is_state(found):
        places = list(_places(found))[:4]
        fix = f"name the part: {' or '.join(f'--weights-key {place}' for place in places)}" if places else ""
        raise BadRequest(f"{path} holds no state dict, but {_keys(found)}", fix=fix or "save model.state_dict()")
    return dict(found)  # type: ignore[call-overload,no-any-return]


def _part(found: object, key: str, path: Path) -> object:
    """The part of a checkpoint at a dotted key. A step may have dots of its own, and the last may be what the names of
    the weights begin with."""
    if not isinstance(found, Mapping):
        raise BadRequest(f"{path} has no part {key!r}", fix=f"leave --weights-key out: it holds {_keys(found)}")
    if key in found:
        return found[key]
    for at in (at for at, letter in enumerate(key) if letter == "."):
        if isinstance(found.get(key[:at]), Mapping):
            return _part(found[key[:at]], key[at + 1 :], path)
    named = {name.removeprefix(f"{key}."): value for name, value in found.items() if str(name).startswith(f"{key}.")}
    if not named:
        raise BadRequest(f"{path} has no part {key!r}", fix=f"name one of {_keys(found)}")
    return named


def _is_state(found: object) -> bool:
    import torch

    return (
        isinstance(found, Mapping)
        and bool(found)
        and all(isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in found.items())
    )


def _places(found: object, before: str = "", deep: int = 3) -> Iterator[str]:
    """The keys of the state dicts inside a checkpoint."""
    if isinstance(found, Mapping) and deep:
        for key, value in found.items():
            if _is_state(value):
                yield f"{before}{key}"
            else:
                yield from _places(value, f"{before}{key}.", deep - 1)


def _keys(found: object) -> str:
    if not isinstance(found, Mapping):
        return f"a {type(found).__name__}"
    return ", ".join(str(key) for key in list(found)[:8]) or "nothing"


def fitted(given: Mapping[str, torch.Tensor], wanted: set[str]) -> tuple[dict[str, torch.Tensor], list[str]]:
    """The weights under the model's names, and what there is to say of it. A prefix that a wrapper put before every
    name goes (`model.` of a LightningModule, `module.` of DDP, `_orig_mod.` of torch.compile), with whatever else the
    wrapper keeps beside the model (a loss with weights). Where no prefix fits they are as they are.

    Raises BadRequest where two prefixes fit, a student's and a teacher's, or one and the names as they are.
    """
    if set(given) == wanted or not wanted:
        return dict(given), []
    prefixes = [prefix for prefix in _prefixes(given, min(wanted)) if _under(given, prefix) == wanted]
    if len(prefixes) > 1:
        keys = " or ".join(f"--weights-key {prefix.removesuffix('.')}" for prefix in prefixes)
        raise BadRequest(
            f"the weights fit the model more than once: under {', '.join(prefixes)}", fix=f"choose: {keys}"
        )
    if not prefixes:
        return dict(given), []
    prefix = prefixes[0]
    if wanted <= set(given):
        raise BadRequest(
            f"the weights fit the model more than once: as they are, and under {prefix}",
            fix=f"choose: --weights-key {prefix.removesuffix('.')}, or save the others alone",
        )
    left = [name for name in given if not name.startswith(prefix)]
    more = "" if len(left) <= 3 else f" and {len(left) - 3} more"
    notes = [f"the weights' names begin with {prefix}; left out: {', '.join(left[:3])}{more}"] if left else []
    return {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}, notes


def _prefixes(given: Mapping[str, torch.Tensor], name: str) -> list[str]:
    """What stands before the name of one of the model's weights, wherever the file has it."""
    return [each.removesuffix(name) for each in given if each.endswith(f".{name}")]


def _under(given: Mapping[str, torch.Tensor], prefix: str) -> set[str]:
    return {name.removeprefix(prefix) for name in given if name.startswith(prefix)}
