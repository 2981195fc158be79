"""The arguments that a checkpoint records beside its weights, as JSON: what made the model when it was trained.

An object is `{"$class": "module:Name"}` with "$fields" (its attributes), "$pairs" (items of a dict), "$elements" and
"$args". models/loading/recorded_values.py makes the values that a factory takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...user_python.inside.settings_dict import CLASS, FIELDS
from .stored_tensors import StoredArray, StoredTensor
from .stubs import Stub, StubClass

PAIRS, ELEMENTS, ARGS, VALUES = "$pairs", "$elements", "$args", "$values"
LIGHTNING = "hyper_parameters"
_PARTS = (LIGHTNING, "hparams", "hyperparameters", "config", "cfg", "args", "model_args", "model_config", "opt")
_LIGHTNING_NAME = "hparams_name"  # the argument that all of hyper_parameters was; "kwargs": the arguments one by one
_MOST_NODES = 100_000
_LETTERS_OF_NODE = 64
_MOST_INT = 1 << 64
_DEEP = 40
_MISSING = "???"  # OmegaConf's value that is not set
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
_MOST_REFERENCES = 8


def recorded_arguments(content: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the values that a checkpoint offers to a factory by name, and the names that **kwargs takes, too.

    Parts called config, args and the like are offered as a whole and by their members; Lightning's hyper_parameters as
    Lightning itself gives them to the class."""
    if not isinstance(content, Mapping):
        return {}, ()
    values: dict[str, Any] = {}
    parts = [part for part in _PARTS if part in content]
    for part in reversed(parts):
        if part != LIGHTNING or not _is_one_argument(content):
            values |= members_of(to_json(content[part]))
    values |= {part: to_json(content[part]) for part in parts}
    if LIGHTNING in content and _is_one_argument(content):
        values[str(content[_LIGHTNING_NAME])] = values[LIGHTNING]
    open_names = () if _is_one_argument(content) else tuple(members_of(values.get(LIGHTNING)))
    return values, open_names


def _is_one_argument(content: Mapping[object, object]) -> bool:
    name = content.get(_LIGHTNING_NAME)
    return isinstance(name, str) and name.isidentifier() and name != "kwargs"


def members_of(recorded: object) -> dict[str, Any]:
    """Return the members of a recorded dict, namespace or object, by name."""
    if not isinstance(recorded, dict):
        return {}
    if CLASS not in recorded:
        return dict(recorded)
    pairs = recorded.get(PAIRS, ())
    return {**recorded.get(FIELDS, {}), **{name: value for name, value in pairs if isinstance(name, str)}}


def to_json(value: object) -> Any:
    """Return a value out of a pickle as JSON. What is no plain data keeps the name of its class alone."""
    return _Writer().write(value, 0)


class _Writer:
    """Writes one value. The number of its parts is limited, as a pickle may name one list a million times."""

    def __init__(self) -> None:
        self._left = _MOST_NODES

    def write(self, value: object, depth: int) -> Any:
        self._left -= 1 + (len(value) // _LETTERS_OF_NODE if isinstance(value, str) else 0)
        record: Any = {CLASS: f"builtins:{type(value).__name__}"}  # of what is no plain data
        if self._left < 0 or depth > _DEEP:
            return record
        match value:
            case None | bool() | float() | str() | int() if not isinstance(value, int) or abs(value) < _MOST_INT:
                record = value
            case list():
                record = [self.write(part, depth + 1) for part in value]
            case dict() if _is_plain(value):
                record = {str(key): self.write(part, depth + 1) for key, part in value.items()}
            case dict():
                record[PAIRS] = self._pairs(value, depth)
            case tuple() | set():
                record[ELEMENTS] = [self.write(part, depth + 1) for part in value]
            case StubClass():
                record = {CLASS: "builtins:type", ARGS: [f"{value.module}:{value.name}"]}
            case Stub():
                record = self._object(value, depth)
            case StoredTensor() | StoredArray():
                record = {CLASS: "torch:Tensor"}
        return record

    def _pairs(self, value: Mapping[Any, object], depth: int) -> list[list[Any]]:
        return [[self.write(key, depth + 1), self.write(part, depth + 1)] for key, part in value.items()]

    def _object(self, stub: Stub, depth: int) -> Any:
        if stub.cls.module.partition(".")[0] == "omegaconf":
            return self._config(stub, depth)
        record: dict[str, Any] = {CLASS: f"{stub.cls.module}:{stub.cls.name}"}
        attributes = stub.attributes
        inner = attributes.get("__dict__")
        if isinstance(inner, dict) and "__pydantic_fields_set__" in attributes:
            attributes = inner
        if attributes:
            record[FIELDS] = {name: self.write(part, depth + 1) for name, part in attributes.items()}
        if isinstance(stub.state, list):  # of frozen dataclasses with slots: the values in the order of the fields
            record[VALUES] = [self.write(part, depth + 1) for part in stub.state]
        if stub.entries:
            record[PAIRS] = self._pairs(stub.entries, depth)
        if stub.elements:
            record[ELEMENTS] = [self.write(part, depth + 1) for part in stub.elements]
        if stub.args:
            record[ARGS] = [self.write(part, depth + 1) for part in stub.args]
        return record

    def _config(self, stub: Stub, depth: int) -> Any:
        """Write a configuration of OmegaConf, its references resolved as far as they name other values of it."""
        plain = self._plain_config(stub, depth)
        resolved = _resolved(plain, plain)
        return {CLASS: f"{stub.cls.module}:{stub.cls.name}", FIELDS: resolved} if isinstance(plain, dict) else resolved

    def _plain_config(self, node: object, depth: int) -> Any:
        if not isinstance(node, Stub) or depth > _DEEP:
            return self.write(node, depth)
        content = node.attributes.get("_content", node.attributes.get("_val"))
        if isinstance(content, dict) and all(isinstance(name, str) for name in content):
            parts = {str(name): self._plain_config(part, depth + 1) for name, part in content.items()}
            return {name: part for name, part in parts.items() if part != _MISSING}
        if isinstance(content, list):
            return [self._plain_config(part, depth + 1) for part in content]
        return self.write(content, depth + 1)


def _is_plain(value: Mapping[Any, object]) -> bool:
    """Return whether a dict is the same as JSON, and not one that looks like a record of an object."""
    return CLASS not in value and all(isinstance(key, str) for key in value)


def _resolved(value: Any, root: Any) -> Any:
    """Replace references (`${model.width}`) by the values that they name; those to something else stay text."""
    if isinstance(value, dict):
        return {name: _resolved(part, root) for name, part in value.items()}
    if isinstance(value, list):
        return [_resolved(part, root) for part in value]
    for _ in range(_MOST_REFERENCES):
        reference = _REFERENCE.search(value) if isinstance(value, str) else None
        target = _at(root, reference[1]) if reference else None
        if reference is None or isinstance(target, dict | list | None):
            break
        value = target if reference[0] == value else value.replace(reference[0], str(target))
    return value


def _at(root: Any, path: str) -> Any:
    for name in path.split("."):
        root = root.get(name) if isinstance(root, dict) else None
    return root
