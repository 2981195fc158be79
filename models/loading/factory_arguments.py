"""The arguments that a factory is called with, out of what a person sets by name (`--set depth=50`). Worker only.

They are held against the factory's own signature, so that a wrong one ends in a sentence with the names that it takes.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from ..errors import BadRequest

_PLAIN: tuple[type, ...] = (bool, int, float, str, list, tuple, dict)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def arguments(factory: Callable[..., Any], settings: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Keyword arguments for `factory`. `config.depth` sets one field of the argument config, which is a dataclass or a
    dict; `what` is how a person named the factory.

    Raises BadRequest where the factory takes no such argument, needs one that is not set, or takes another kind of it.
    """
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some callables of C have none
        return dict(settings)
    hints = _hints(factory)
    given = _nested(settings)
    taken = {name: each for name, each in parameters.items() if each.kind in _NAMED}
    if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        _check_names(given, tuple(taken), what)
    _check_whole(given, parameters, what)
    return {
        name: _value(value, hints.get(name), getattr(taken.get(name), "default", None), f"{name} of {what}", name)
        for name, value in given.items()
    }


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`{"a.b": 1, "c": 2}` as `{"a": _Fields({"b": 1}), "c": 2}`."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        head, dot, rest = name.partition(".")
        known = found.get(head)
        if (dot and head in found and not isinstance(known, _Fields)) or (not dot and isinstance(known, _Fields)):
            raise BadRequest(f"--set names {head} both whole and by its fields", fix=f"give {head} one way")
        if dot:
            found.setdefault(head, _Fields())[rest] = value
        else:
            found[head] = value
    return found


class _Fields(dict[str, Any]):
    """What is set of one argument, by the names of its fields."""


def _check_names(given: Mapping[str, Any], taken: tuple[str, ...], what: str) -> None:
    for name in given:
        if name not in taken:
            if not taken:
                raise BadRequest(f"{what} takes no settings, and got {name}", fix="leave --set out")
            near = get_close_matches(name, taken, n=1)
            did = f"did you mean {near[0]!r}? " if near else ""
            raise BadRequest(f"{what} takes no {name!r}", fix=f"{did}it takes {', '.join(taken)}")


def _check_whole(given: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter], what: str) -> None:
    """Every argument without a default must be set."""
    needed = [each for each in parameters.values() if each.default is inspect.Parameter.empty]
    by_place = [each.name for each in needed if each.kind is inspect.Parameter.POSITIONAL_ONLY]
    if by_place:
        raise BadRequest(f"{what} takes {', '.join(by_place)} by position", fix="name a function without arguments")
    lacking = [each.name for each in needed if each.kind in _NAMED and each.name not in given]
    if lacking:
        words = " ".join(f"--set {name}=VALUE" for name in lacking)
        raise BadRequest(f"{what} needs {' and '.join(lacking)}", fix=f"give what it needs: {words}")


def _hints(factory: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a factory's arguments, as far as they can be read."""
    target: Any = factory.__init__ if inspect.isclass(factory) else factory
    try:
        return typing.get_type_hints(target)
    except Exception:  # noqa: BLE001  (an annotation is any expression)
        return {}


def _value(value: Any, hint: Any, default: Any, what: str, name: str) -> Any:
    """A JSON value as the argument that is meant: a dataclass out of its fields, a tuple out of a list."""
    kind = type(default) if dataclasses.is_dataclass(default) else _dataclass_of(hint)
    if kind is not None and isinstance(value, Mapping):
        return _filled(kind, value, default, what, name)
    if isinstance(value, _Fields):
        if not (_is_dict(hint) or isinstance(default, dict)):
            raise BadRequest(
                f"the fields of {what} cannot be set: it is neither a dataclass nor a dict",
                fix=f"write a function that makes {name}, and name that function",
            )
        return _merged(default if isinstance(default, dict) else {}, value)
    if isinstance(value, list) and (isinstance(default, tuple) or _is_tuple(hint)):
        return tuple(value)
    _check_kind(value, hint, what, name)
    return value


def _filled(kind: Any, value: Mapping[str, Any], default: Any, what: str, name: str) -> Any:
    """A dataclass with these fields; the others are the default's, else the class's own."""
    fields = {each.name: each for each in dataclasses.fields(kind) if each.init}
    given, hints = _nested(value), _hints(kind)
    _check_names({f"{name}.{key}": None for key in given}, tuple(f"{name}.{key}" for key in fields), what)
    whole = default if isinstance(default, kind) else None
    if whole is None:
        empty = dataclasses.MISSING
        needed = [key for key, each in fields.items() if each.default is empty and each.default_factory is empty]
        if lacking := [key for key in needed if key not in given]:
            words = " ".join(f"--set {name}.{key}=VALUE" for key in lacking)
            raise BadRequest(f"{what} needs {' and '.join(lacking)}", fix=f"give what it needs: {words}")
    made = {
        key: _value(each, hints.get(key), _default_of(fields[key], whole), f"{name}.{key} of {what}", f"{name}.{key}")
        for key, each in given.items()
    }
    return dataclasses.replace(whole, **made) if whole is not None else kind(**made)


def _default_of(field: dataclasses.Field[Any], whole: Any) -> Any:
    if whole is not None:
        return getattr(whole, field.name)
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else None


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A dict with dotted names put into it."""
    found = dict(base)
    for key, value in _nested(more).items():
        inner = found.get(key)
        found[key] = _merged(inner if isinstance(inner, dict) else {}, value) if isinstance(value, _Fields) else value
    return found


def _members(hint: Any) -> tuple[Any, ...]:
    """The kinds that a union allows; one kind alone, else."""
    united = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if united else (hint,)


def _dataclass_of(hint: Any) -> type | None:
    return next((each for each in _members(hint) if isinstance(each, type) and dataclasses.is_dataclass(each)), None)


def _is_dict(hint: Any) -> bool:
    return any((typing.get_origin(each) or each) in (dict, Mapping, typing.Any) for each in _members(hint))


def _is_tuple(hint: Any) -> bool:
    kinds = [typing.get_origin(each) or each for each in _members(hint)]
    return tuple in kinds and list not in kinds


def _check_kind(value: Any, hint: Any, what: str, name: str) -> None:
    """Refuse a value that is plainly of another kind than its annotation: "yes" where a bool is wanted."""
    kinds = tuple(typing.get_origin(each) or each for each in _members(hint))
    known = (*_PLAIN, type(None))
    if hint is None or not all(kind in known for kind in kinds) or type(value) in kinds:
        return
    if isinstance(value, int) and not isinstance(value, bool) and float in kinds:
        return
    wanted = " or ".join("None" if kind is type(None) else str(kind.__name__) for kind in kinds)
    quoted = f", as in --set {name}='\"{value}\"'" if str in kinds else ""
    raise BadRequest(f"{what} takes {wanted}, got {value!r}", fix=f"give {name} as {wanted}{quoted}")
