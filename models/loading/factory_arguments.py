"""Make the arguments of a factory from settings by name (`--set depth=50`). Worker only.

They are checked against the factory's own signature. A wrong one ends in a sentence with the names that it takes.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ..errors import BadRequest

_PLAIN: tuple[type, ...] = (bool, int, float, str, list, tuple, dict)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def arguments(factory: Callable[..., object], settings: Mapping[str, object], owner: str) -> dict[str, Any]:
    """Make keyword arguments for `factory`, which errors name as `owner`.

    `config.depth` sets one field of the argument config, which is a dataclass or a dict.
    Raises BadRequest where the factory takes no such argument, needs one that is not set, or takes another kind of
    it."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some callables of C have none
        return dict(settings)
    hints = _hints(factory)
    nested = _nested(settings)
    named = {name: parameter for name, parameter in parameters.items() if parameter.kind in _NAMED}
    if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        _check_names(nested, tuple(named), owner)
    _check_complete(nested, parameters, owner)
    return {
        name: _value(value, hints.get(name), getattr(named.get(name), "default", None), f"{name} of {owner}", name)
        for name, value in nested.items()
    }


def _nested(settings: Mapping[str, object]) -> dict[str, object]:
    """Turn `{"a.b": 1, "c": 2}` into `{"a": _Fields({"b": 1}), "c": 2}`."""
    nested: dict[str, object] = {}
    for name, value in settings.items():
        head, dot, rest = name.partition(".")
        known = nested.get(head)
        if (dot and head in nested and not isinstance(known, _Fields)) or (not dot and isinstance(known, _Fields)):
            raise BadRequest(f"--set names {head} both whole and by its fields", fix=f"give {head} one way")
        if dot:
            fields = known if isinstance(known, _Fields) else _Fields()
            nested[head] = fields
            fields[rest] = value
        else:
            nested[head] = value
    return nested


class _Fields(dict[str, object]):
    """Settings of one argument, by the names of its fields."""


def _check_names(names: Mapping[str, object], known: tuple[str, ...], owner: str) -> None:
    for name in names:
        if name not in known:
            if not known:
                raise BadRequest(f"{owner} takes no settings, and got {name}", fix="leave --set out")
            near = get_close_matches(name, known, n=1)
            did = f"did you mean {near[0]!r}? " if near else ""
            raise BadRequest(f"{owner} takes no {name!r}", fix=f"{did}it takes {', '.join(known)}")


def _check_complete(nested: Mapping[str, object], parameters: Mapping[str, inspect.Parameter], owner: str) -> None:
    """Raise BadRequest where an argument without a default is not set."""
    needed = [parameter for parameter in parameters.values() if parameter.default is inspect.Parameter.empty]
    by_place = [parameter.name for parameter in needed if parameter.kind is inspect.Parameter.POSITIONAL_ONLY]
    if by_place:
        raise BadRequest(f"{owner} takes {', '.join(by_place)} by position", fix="name a function without arguments")
    _check_given(nested, [parameter.name for parameter in needed if parameter.kind in _NAMED], owner)


def _check_given(names: Mapping[str, object], needed: Sequence[str], owner: str, prefix: str = "") -> None:
    if lacking := [name for name in needed if name not in names]:
        words = " ".join(f"--set {prefix}{name}=VALUE" for name in lacking)
        raise BadRequest(f"{owner} needs {' and '.join(lacking)}", fix=f"give what it needs: {words}")


def _hints(factory: Callable[..., object]) -> dict[str, object]:
    """Return the annotations of a factory's arguments, as far as they can be read."""
    target: Any = factory.__init__ if inspect.isclass(factory) else factory
    try:
        return typing.get_type_hints(target)
    except Exception:  # noqa: BLE001  (an annotation is any expression)
        return {}


def _value(value: object, hint: object, default: object, place: str, name: str) -> object:
    """Turn a JSON value into the argument that is meant: fields into a dataclass, a list into a tuple."""
    kinds = _kinds(hint)
    records = [kind for kind in kinds if isinstance(kind, type) and dataclasses.is_dataclass(kind)]
    kind = type(default) if dataclasses.is_dataclass(default) else next(iter(records), None)
    if kind is not None and isinstance(value, Mapping):
        return _make_dataclass(kind, value, default, place, name)
    if isinstance(value, _Fields):
        if not (isinstance(default, dict) or any(kind in (dict, Mapping, typing.Any) for kind in kinds)):
            raise BadRequest(
                f"the fields of {place} cannot be set: it is neither a dataclass nor a dict",
                fix=f"write a function that makes {name}, and name that function",
            )
        return _merged(default if isinstance(default, dict) else {}, value)
    if isinstance(value, list) and (isinstance(default, tuple) or (tuple in kinds and list not in kinds)):
        return tuple(value)
    if hint is not None:
        _check_kind(value, kinds, place, name)
    return value


def _make_dataclass(kind: Any, value: Mapping[str, object], default: object, place: str, name: str) -> object:
    """Make a dataclass with these fields; the others are the default's, else the class's own."""
    fields = {entry.name: entry for entry in dataclasses.fields(kind) if entry.init}
    nested, hints = _nested(value), _hints(kind)
    _check_names({f"{name}.{key}": None for key in nested}, tuple(f"{name}.{key}" for key in fields), place)
    base = default if isinstance(default, kind) else None
    if base is None:
        empty = dataclasses.MISSING
        needed = [key for key, entry in fields.items() if entry.default is empty and entry.default_factory is empty]
        _check_given(nested, needed, place, f"{name}.")
    values = {
        key: _value(part, hints.get(key), _default_of(fields[key], base), f"{name}.{key} of {place}", f"{name}.{key}")
        for key, part in nested.items()
    }
    return dataclasses.replace(base, **values) if base is not None else kind(**values)


def _default_of(field: dataclasses.Field[Any], base: object) -> object:
    if base is not None:
        return getattr(base, field.name)
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else None


def _merged(base: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """Merge settings with dotted names into a dict."""
    merged = dict(base)
    for key, value in _nested(more).items():
        inner = merged.get(key)
        merged[key] = _merged(inner if isinstance(inner, dict) else {}, value) if isinstance(value, _Fields) else value
    return merged


def _kinds(hint: object) -> tuple[Any, ...]:
    """Return the kinds that an annotation allows, each of a union, without their arguments: `list` of `list[int]`."""
    united = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return tuple(typing.get_origin(kind) or kind for kind in (typing.get_args(hint) if united else (hint,)))


def _check_kind(value: object, kinds: Sequence[Any], place: str, name: str) -> None:
    """Refuse a value that is plainly of another kind than its annotation: "yes" where a bool is wanted."""
    known = (*_PLAIN, type(None))
    if not all(kind in known for kind in kinds) or type(value) in kinds:
        return
    if isinstance(value, int) and not isinstance(value, bool) and float in kinds:
        return
    wanted = " or ".join("None" if kind is type(None) else str(kind.__name__) for kind in kinds)
    quoted = f", as in --set {name}='\"{value}\"'" if str in kinds else ""
    raise BadRequest(f"{place} takes {wanted}, got {value!r}", fix=f"give {name} as {wanted}{quoted}")
