"""The state dicts in a checkpoint: where they lie, and which part of it a key names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ...errors import BadRequest
from .stored_tensors import TensorRecord, tensor_record
from .stubs import Stub

_SHOWN = 8  # keys in a sentence
_DEEP = 3  # parts of parts that are searched
_MOST_MODULES = 100_000
_MOST_NESTED_MODULES = 200

StateRecords: TypeAlias = dict[str, TensorRecord]


def state_of(content: object) -> StateRecords | None:
    """Return the state dict that a part of a checkpoint is, or that a module in it had, or None."""
    if isinstance(content, Stub):
        return module_state(content)
    if not isinstance(content, Mapping) or not content:
        return None
    state: StateRecords = {}
    for name, value in content.items():
        record = tensor_record(value)
        if record is None and name == "_metadata":
            continue  # neuraloperator's models save their settings under it, beside the weights
        if record is None or not isinstance(name, str):
            return None
        state[name] = record
    return state or None


def module_state(stub: Stub) -> StateRecords | None:
    """Return the state dict of a module that was pickled as a whole, or None where a stub is of something else.
    Raises BadRequest where its parts are nested without end."""
    if not {"_parameters", "_buffers", "_modules"} <= set(stub.attributes):
        return None
    state: StateRecords = {}
    modules: list[tuple[str, Stub, int]] = [("", stub, 0)]
    count = 0
    while modules:
        prefix, module, depth = modules.pop()
        count += 1
        if count > _MOST_MODULES or depth > _MOST_NESTED_MODULES:
            raise BadRequest("the module in the checkpoint has parts without end", fix="save model.state_dict()")
        own = module.attributes
        passing = own.get("_non_persistent_buffers_set")
        skipped = passing if isinstance(passing, set) else set()
        for kind in ("_parameters", "_buffers"):
            for name, value in _items(own.get(kind)):
                record = tensor_record(value)
                if record is not None and not (kind == "_buffers" and name in skipped):
                    state[f"{prefix}{name}"] = record
        parts = [(name, part) for name, part in _items(own.get("_modules")) if isinstance(part, Stub)]
        modules += [(f"{prefix}{name}.", part, depth + 1) for name, part in reversed(parts)]
    return state


def _items(value: object) -> Iterator[tuple[str, object]]:
    entries = value.entries if isinstance(value, Stub) else value  # a subclass of dict, or a dict
    if isinstance(entries, Mapping):
        yield from ((name, part) for name, part in entries.items() if isinstance(name, str))


def part_at(content: object, key: str, path: Path) -> object:
    """Return the part of a checkpoint at a dotted key.

    A step may have dots of its own, and the last may be a prefix of the weights' names.
    Raises BadRequest where there is none."""
    if isinstance(content, Stub):
        content = module_state(content) or content.entries or content.attributes
    if not isinstance(content, Mapping):
        raise BadRequest(f"{path} has no part {key!r}", fix=f"leave --weights-key out: it holds {list_keys(content)}")
    if key in content:
        return content[key]
    for at in (at for at, letter in enumerate(key) if letter == "."):
        if isinstance(content.get(key[:at]), Mapping | Stub):
            return part_at(content[key[:at]], key[at + 1 :], path)
    named = without_prefix(content, f"{key}.")
    if not named:
        raise BadRequest(f"{path} has no part {key!r}", fix=f"name one of {list_keys(content)}")
    return named


def state_places(content: object) -> dict[str, StateRecords]:
    """Return the state dicts inside a checkpoint, by the keys that name them."""
    return dict(_places(content, "", _DEEP))


def _places(content: object, before: str, deep: int) -> Iterator[tuple[str, StateRecords]]:
    if not deep:
        return
    for key, value in content.items() if isinstance(content, Mapping) else ():
        state = state_of(value) if isinstance(key, str) else None
        if state:
            yield f"{before}{key}", state
        else:
            yield from _places(value, f"{before}{key}.", deep - 1)


def list_keys(content: object) -> str:
    """Name what a part of a checkpoint holds: "state_dict, epoch"."""
    if isinstance(content, Stub):
        return f"an object of {content.cls.text}"
    if not isinstance(content, Mapping):
        return f"a {type(content).__name__}"
    names = [
        f"{key} (an object of {part.cls.text})" if isinstance(part, Stub) else str(key) for key, part in content.items()
    ]
    return ", ".join(names[:8]) or "nothing"


def without_prefix(weights: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the weights whose names begin with a prefix, without it."""
    return {str(name).removeprefix(prefix): value for name, value in weights.items() if str(name).startswith(prefix)}
