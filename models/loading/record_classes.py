"""Classes that are made from fields: dataclasses, pydantic models, attrs, named tuples, typed dicts, plain classes."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ABSENT: Any = object()  # in place of a default


@dataclass(frozen=True)
class RecordField:
    """A field: its annotation, and its default where it has one."""

    hint: object = None
    default: Any = ABSENT
    is_required: bool = True


@dataclass(frozen=True)
class RecordClass:
    """A class with its fields, which takes their values by name."""

    cls: Any
    fields: Mapping[str, RecordField]
    make: Callable[..., object]
    read: Callable[[object, str], object] = getattr

    def values_of(self, record: object) -> dict[str, object]:
        """Return the values of an instance's fields."""
        return {name: self.read(record, name) for name in self.fields}

    def is_instance(self, value: object) -> bool:
        """Return whether a value is one of this class; a typed dict is a dict."""
        return isinstance(value, dict if typing.is_typeddict(self.cls) else self.cls)


def record_class(kind: Any) -> RecordClass | None:
    """Describe a class that is made from fields, or return None."""
    if not inspect.isclass(kind):
        return None
    fields = _fields_of(kind, hints_of(kind))
    if fields is None:
        return None
    if typing.is_typeddict(kind):
        return RecordClass(kind, fields, dict, _item)
    names = {entry.alias: entry.name for entry in getattr(kind, "__attrs_attrs__", ())}  # attrs makes `_x` of x
    return RecordClass(kind, fields, kind, lambda record, name: getattr(record, names.get(name, name)))


def _fields_of(kind: Any, hints: Mapping[str, Any]) -> dict[str, RecordField] | None:
    """Return the fields of a class by the names that it is made with, or None."""
    if dataclasses.is_dataclass(kind):
        return {entry.name: _of_dataclass(entry, hints) for entry in dataclasses.fields(kind) if entry.init}
    if typing.is_typeddict(kind):
        required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
        return {name: RecordField(hint, is_required=name in required) for name, hint in hints.items()}
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        defaults: Mapping[str, object] = getattr(kind, "_field_defaults", {})
        return {name: _field(hints.get(name), defaults.get(name, ABSENT)) for name in kind._fields}
    if isinstance(described := getattr(kind, "model_fields", None), dict):  # pydantic's
        return {name: _of_pydantic(entry, hints.get(name)) for name, entry in described.items()}
    if isinstance(attributes := getattr(kind, "__attrs_attrs__", None), tuple):
        taking = [entry for entry in attributes if entry.init]
        return {
            entry.alias: _field(hints.get(entry.name, entry.type), _attrs_default(entry.default)) for entry in taking
        }
    return None


def plain_class(kind: Any) -> RecordClass | None:
    """Describe a class of the user's by the arguments of its __init__, or return None."""
    init = kind.__dict__.get("__init__") if inspect.isclass(kind) else None
    if not isinstance(init, types.FunctionType):
        return None
    hints, parameters = hints_of(init), list(inspect.signature(init).parameters.values())[1:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if not parameters or any(parameter.kind not in named for parameter in parameters):
        return None
    fields = {
        parameter.name: _field(
            hints.get(parameter.name), ABSENT if parameter.default is inspect.Parameter.empty else parameter.default
        )
        for parameter in parameters
    }
    return RecordClass(kind, fields, kind)


def hints_of(target: Any) -> dict[str, Any]:
    """Return the annotations of a class or a function, as far as they can be read."""
    with contextlib.suppress(Exception):  # an annotation is any expression
        return typing.get_type_hints(target, include_extras=True)
    hints: dict[str, Any] = {}
    names = vars(sys.modules.get(target.__module__, object))
    for part in reversed(target.__mro__) if inspect.isclass(target) else (target,):
        for name, hint in getattr(part, "__annotations__", {}).items():
            alone = types.SimpleNamespace(__annotations__={name: hint})
            with contextlib.suppress(Exception):
                hints |= typing.get_type_hints(alone, dict(names), include_extras=True)
    return hints


def _field(hint: object, default: object) -> RecordField:
    return RecordField(hint, default, default is ABSENT)


def _of_dataclass(field: dataclasses.Field[Any], hints: Mapping[str, object]) -> RecordField:
    hint, missing = hints.get(field.name), dataclasses.MISSING
    if field.default_factory is not missing:
        return _field(hint, field.default_factory())
    return _field(hint, ABSENT if field.default is missing else field.default)


def _of_pydantic(field: Any, hint: object) -> RecordField:
    required = field.is_required()
    return RecordField(hint, ABSENT if required else field.get_default(call_default_factory=True), required)


def _attrs_default(default: Any) -> Any:
    """Return the default of an attribute; attrs' own mark for none has a class of this name."""
    if type(default).__name__ == "_Nothing":
        return ABSENT
    factory = getattr(default, "factory", None)
    if factory is None:
        return default
    return None if default.takes_self else factory()


def _item(record: Any, name: str) -> object:
    return record.get(name, ABSENT)
