"""Make the value that an annotation means out of JSON: a dataclass of its fields, an enum of its name, a path of text.

Worker only: the annotations are those of the user's code.
"""

from __future__ import annotations

import argparse
import enum
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Any, TypeAlias

from ..errors import BadRequest
from ..user_python.inside.settings_dict import SettingsDict
from .record_classes import ABSENT, RecordClass, plain_class, record_class

_PLAIN: tuple[type, ...] = (bool, int, float, str, list, tuple, dict)
_OPEN = (None, typing.Any, object)
_SEQUENCES = (list, tuple, set, frozenset, Sequence, Collection)
_TELLING = (enum.Enum, PurePath, argparse.Namespace, types.SimpleNamespace, dict, tuple, list)  # kinds of defaults
_MAPPINGS = (dict, Mapping, MutableMapping)


_Maker: TypeAlias = "Callable[[ArgumentPlace], object]"


class Fields(dict[str, object]):
    """Settings of one argument, by the names of its fields: `--set config.depth=50`."""


@dataclass(frozen=True)
class ArgumentPlace:
    """Where a value goes: the name that `--set` knows it by, and what takes it."""

    name: str
    owner: str

    @property
    def text(self) -> str:
        """The place in a sentence."""
        return f"{self.name} of {self.owner}"

    @property
    def argument(self) -> str:
        """The name of the argument that the value is a part of."""
        return self.name.partition(".")[0]

    def part(self, key: object) -> ArgumentPlace:
        """Return the place of a field or an element."""
        return replace(self, name=f"{self.name}.{key}")


def nested_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Turn `{"a.b": 1, "c": 2}` into `{"a": Fields({"b": 1}), "c": 2}`.
    Raises BadRequest where one is set both whole and by its fields."""
    nested: dict[str, object] = {}
    for name, value in settings.items():
        head, dot, rest = name.partition(".")
        known = nested.get(head)
        if (dot and head in nested and not isinstance(known, Fields)) or (not dot and isinstance(known, Fields)):
            raise BadRequest(f"--set names {head} both whole and by its fields", fix=f"give {head} one way")
        if dot:
            fields = known if isinstance(known, Fields) else Fields()
            nested[head] = fields
            fields[rest] = value
        else:
            nested[head] = value
    return nested


def check_names(names: Collection[str], known: Sequence[str], owner: str) -> None:
    """Raise BadRequest where a name is not among those that are known."""
    for name in names:
        if name not in known:
            if not known:
                raise BadRequest(f"{owner} takes no settings, and got {name}", fix="leave --set out")
            near = get_close_matches(name, known, n=1)
            did = f"did you mean {near[0]!r}? " if near else ""
            raise BadRequest(f"{owner} takes no {name!r}", fix=f"{did}it takes {', '.join(known)}")


def check_complete(names: Collection[str], needed: Mapping[str, object], owner: str, prefix: str = "") -> None:
    """Raise BadRequest where a name that is needed is missing; `needed` has the annotation of each."""
    if lacking := [name for name in needed if name not in names]:
        words = " ".join(f"--set {prefix}{name}{_first_field(needed[name])}=VALUE" for name in lacking)
        raise BadRequest(f"{owner} needs {' and '.join(lacking)}", fix=f"give what it needs: {words}")


def _first_field(hint: object) -> str:
    """Return ".width" where an annotation is a record whose first field is width."""
    records = [record for kind in kinds_of(hint) if (record := record_class(kind)) and record.fields]
    return f".{next(iter(records[0].fields))}" if records else ""


def annotated_value(value: object, hint: object, base: object, place: ArgumentPlace) -> object:
    """Make the argument that a JSON value means where the annotation is `hint`.

    `base` is the argument's default, or None: fields that are not set are its own. Raises BadRequest."""
    kinds = kinds_of(hint)
    if value is None and type(None) in kinds:
        return None
    if known := _kind_of(base, kinds):
        kinds = known
    if len(kinds) > 1 and not isinstance(value, Fields | Mapping | list) and type(value) in kinds:
        return value
    refusals: list[BadRequest] = []
    for kind in kinds:
        if maker := _maker(kind, value, base):
            try:
                return maker(place)
            except BadRequest as error:
                refusals.append(error)
    if refusals and all(_maker(kind, value, base) or kind is type(None) for kind in kinds):
        raise refusals[0] if len(refusals) == 1 else _refused(value, kinds, place)
    if isinstance(value, Fields):
        if refusals:
            raise refusals[0]
        raise BadRequest(
            f"the fields of {place.text} cannot be set: it is neither a dataclass nor a dict",
            fix=f"write a function that makes {place.name}, and name that function",
        )
    _check_kind(value, kinds, place)
    return value


def _kind_of(base: object, kinds: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the class of a default where it says more than the annotation: a derived class, or any without one."""
    cls = type(base)
    if not (isinstance(base, _TELLING) or record_class(cls) or cls.__module__.startswith("omegaconf")):
        return None
    if any(kind in _OPEN for kind in kinds):
        return (cls,)
    if record_class(cls) and any(isinstance(kind, type) and issubclass(cls, kind) for kind in kinds):
        return (cls,)
    return None


def _maker(kind: Any, value: object, base: object) -> _Maker | None:
    """Return a function that makes a value of one kind, or None where nothing is known of that kind."""
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin is typing.Literal:
        return lambda place: _of_choice(value, {repr(choice): choice for choice in arguments}, place)
    if isinstance(value, Mapping):
        return _maker_of_members(value, origin, arguments, base)
    if isinstance(value, list) and origin in _SEQUENCES:
        return lambda place: _sequence(value, origin, arguments, base, place)
    return _maker_of_scalar(value, origin) if isinstance(origin, type) else None


def _maker_of_members(
    value: Mapping[Any, object], origin: Any, arguments: Sequence[Any], base: object
) -> _Maker | None:
    """Return a function that makes what has members: a record, a dict, a namespace, a list whose elements change."""
    if record := _record_of(origin):
        return lambda place: _record(record, value, base, place)
    if origin in _MAPPINGS or origin is SettingsDict:
        return lambda place: _mapping(value, arguments, base, place)
    if origin in (argparse.Namespace, types.SimpleNamespace):
        return lambda place: origin(**_mapping(value, (), vars(base) if isinstance(base, origin) else {}, place))
    if getattr(origin, "__module__", "").startswith("omegaconf"):
        return lambda place: _configuration(value, base, place)
    if isinstance(value, Fields) and origin in _SEQUENCES and isinstance(base, list | tuple):
        return lambda place: _with_elements(value, arguments, base, place)
    return None


def _maker_of_scalar(value: object, origin: type) -> _Maker | None:
    """Return a function that makes an enum's member, a path, a dtype or a device."""
    if issubclass(origin, enum.Enum):
        return lambda place: _member(value, origin, place)
    if issubclass(origin, PurePath) and isinstance(value, str):
        return lambda _place: (Path if origin is PurePath else origin)(value)
    if origin.__module__ == "torch" and origin.__name__ in ("dtype", "device") and isinstance(value, str):
        return lambda place: _of_torch(value, origin, place)
    return None


def _record_of(kind: Any) -> RecordClass | None:
    """Describe a class that is made from fields: a record, or a class of the user's own with a plain __init__."""
    record = record_class(kind)
    if record or not isinstance(kind, type) or issubclass(kind, enum.Enum) or _is_library(kind):
        return record
    return plain_class(kind)


def _is_library(kind: type) -> bool:
    package = kind.__module__.partition(".")[0]
    return package in sys.stdlib_module_names or package in ("torch", "numpy", "omegaconf")


def _record(record: RecordClass, value: Mapping[Any, object], base: object, place: ArgumentPlace) -> object:
    """Make a record with these fields; the others are those of `base`, else the class's own defaults."""
    nested = nested_settings(value) if isinstance(value, Fields) else dict(value)
    known = [place.part(key).name for key in record.fields]
    check_names([place.part(key).name for key in nested], known, place.text)
    own = record.values_of(base) if base is not None and record.is_instance(base) else {}
    if not own:
        needed = {key: field.hint for key, field in record.fields.items() if field.is_required}
        check_complete(nested, needed, place.text, f"{place.name}.")
    values = {}
    for key, part in nested.items():
        field = record.fields[key]
        default = own.get(key, field.default)
        values[key] = annotated_value(part, field.hint, None if default is ABSENT else default, place.part(key))
    settings = {name: part for name, part in {**own, **values}.items() if part is not ABSENT}
    try:
        return record.make(**settings)
    except Exception as error:
        raise BadRequest(
            f"{place.text} is not made: {type(error).__name__}: {error}", fix=f"give {place.name} other values"
        ) from error


def _mapping(
    value: Mapping[Any, object], arguments: Sequence[Any], base: object, place: ArgumentPlace
) -> dict[Any, object]:
    """Make a dict; fields are put into that of `base`, and values are as the annotation of dict[KEY, VALUE] says."""
    key_hint, hint = arguments if len(arguments) == 2 else (None, None)
    merged: dict[Any, object] = dict(base) if isinstance(base, Mapping) and isinstance(value, Fields) else {}
    for name, part in (nested_settings(value) if isinstance(value, Fields) else value).items():
        key = int(name) if key_hint is int and name.lstrip("-").isdigit() else name
        key = annotated_value(key, key_hint, None, place.part(name)) if key_hint else key
        inner = merged.get(key)
        if isinstance(part, Fields) and hint in _OPEN and _kind_of(inner, _OPEN) is None:
            inner = {}
        merged[key] = annotated_value(part, hint, inner, place.part(name))
    return SettingsDict(merged) if isinstance(base, SettingsDict) else merged


def _sequence(value: list[object], origin: Any, arguments: Sequence[Any], base: object, place: ArgumentPlace) -> object:
    """Make a list, tuple or set of elements as the annotation says: tuple[int, ...], tuple[int, str], list[Layer]."""
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            raise BadRequest(
                f"{place.text} takes {len(arguments)} values, got {len(value)}", fix=f"give {place.name} all of them"
            )
        hints: Sequence[Any] = arguments
    else:
        hints = [arguments[0] if arguments else None] * len(value)
    pairs = enumerate(zip(value, hints, strict=True))
    elements = [annotated_value(part, hint, None, place.part(at)) for at, (part, hint) in pairs]
    if origin in (list, tuple, set, frozenset):
        return origin(elements)
    return tuple(elements) if isinstance(base, tuple) else elements


def _with_elements(value: Fields, arguments: Sequence[Any], base: Any, place: ArgumentPlace) -> object:
    """Change elements of a list or a tuple by their places: `--set config.layers.0.width=8`."""
    elements = list(base)
    for name, part in nested_settings(value).items():
        if not name.isdigit() or int(name) >= len(elements):
            raise BadRequest(
                f"{place.text} has no element {name}",
                fix=f"it has {len(elements)}, from {place.name}.0; or give all of {place.name}, as a list",
            )
        hint = arguments[min(int(name), len(arguments) - 1)] if arguments else None
        hint = arguments[0] if hint is Ellipsis else hint
        elements[int(name)] = annotated_value(part, hint, elements[int(name)], place.part(name))
    return type(base)(elements)


def _member(value: object, kind: type[enum.Enum], place: ArgumentPlace) -> enum.Enum:
    """Return the member of an enum that has this value, or else this name."""
    members = {str(member.value): member for member in kind} | {member.name: member for member in kind}
    for member in kind:
        if type(member.value) is type(value) and member.value == value:
            return member
    if not isinstance(value, str):
        raise _refused(value, (kind,), place)
    folded = {name.lower(): member for name, member in members.items()}
    return folded[value.lower()] if value.lower() in folded else _of_choice(value, dict(kind.__members__), place)


def _of_choice(value: object, choices: Mapping[str, Any], place: ArgumentPlace) -> Any:
    for choice in choices.values():
        if type(choice) is type(value) and choice == value:
            return choice
    names = {name.strip("'").lower(): name.strip("'") for name in choices}
    near = get_close_matches(str(value).lower(), names, n=1)
    did = f"did you mean {names[near[0]]!r}? " if near else ""
    raise BadRequest(
        f"{place.text} takes {' or '.join(choices)}, got {value!r}", fix=f"{did}give {place.name} as one of them"
    )


def _of_torch(value: str, kind: Any, place: ArgumentPlace) -> object:
    """Return the dtype or the device of torch that a text names."""
    if kind.__name__ == "dtype":
        dtype = getattr(sys.modules["torch"], value.removeprefix("torch."), None)
        if isinstance(dtype, kind):
            return dtype
        raise BadRequest(f"{place.text} takes a dtype of torch, got {value!r}", fix=f"give {place.name} as float32")
    try:
        return kind(value)
    except RuntimeError as error:
        raise BadRequest(f"{place.text} takes a device, got {value!r}", fix=f"give {place.name} as cpu") from error


def _configuration(value: Mapping[Any, object], base: object, place: ArgumentPlace) -> object:
    """Make a configuration of OmegaConf, which the user's code has imported."""
    maker = sys.modules["omegaconf"].OmegaConf
    plain = _mapping(value, (), maker.to_container(base) if maker.is_config(base) else {}, place)
    return maker.create(plain)


def kinds_of(hint: object) -> tuple[Any, ...]:
    """Return the kinds that an annotation allows, each of a union; None where there is no annotation."""
    while True:
        origin = typing.get_origin(hint)
        if origin in (typing.Annotated, typing.Final, typing.ClassVar, typing.Required, typing.NotRequired):
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif isinstance(hint, typing.TypeVar):
            hint = hint.__bound__
        else:
            break
    if origin in (typing.Union, types.UnionType):
        return tuple(kind for part in typing.get_args(hint) for kind in kinds_of(part))
    return (hint,)


def _check_kind(value: object, kinds: Sequence[Any], place: ArgumentPlace) -> None:
    """Refuse a value that is plainly of another kind than its annotation: "yes" where a bool is wanted."""
    plain = [typing.get_origin(kind) or kind for kind in kinds]
    known = (*_PLAIN, type(None))
    if not all(kind in known or _is_made(kind) for kind in plain) or type(value) in plain:
        return
    if isinstance(value, int) and not isinstance(value, bool) and float in plain:
        return
    raise _refused(value, plain, place)


def _is_made(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, enum.Enum | PurePath) or record_class(kind) is not None)


def _refused(value: object, kinds: Sequence[Any], place: ArgumentPlace) -> BadRequest:
    names = ["None" if kind is type(None) else _name(kind) for kind in kinds]
    wanted = " or ".join(dict.fromkeys(names))
    quoted = f", as in --set {place.name}='\"{value}\"'" if str in kinds else ""
    return BadRequest(f"{place.text} takes {wanted}, got {value!r}", fix=f"give {place.name} as {wanted}{quoted}")


def _name(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"{kind.__name__} ({', '.join(kind.__members__)})"
    return str(getattr(kind, "__name__", kind))
