"""Make the arguments that a checkpoint records: objects of the classes that the factory's annotations and file name.

A class that a checkpoint names is never imported. It is looked for among the annotation's own, those derived from it,
and those in modules of the user's that their code has imported; only classes that are made from fields, enums and
torch.nn's modules count.
"""

from __future__ import annotations

import enum
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadRequest
from ..user_python.inside.settings_dict import CLASS, NAMESPACES, SettingsDict, with_attributes
from .annotated_values import ArgumentPlace, annotated_value, kinds_of
from .checkpoints.hyper_parameters import ARGS, ELEMENTS, PAIRS, VALUES, members_of
from .record_classes import ABSENT, RecordClass, record_class

_CONTAINERS: Mapping[str, type] = {"tuple": tuple, "set": set, "dict": dict}


@dataclass(frozen=True)
class RecordedValues:
    """Makes values for one factory out of what a checkpoint records."""

    factory: Callable[..., object]
    owner: str

    def value(self, recorded: object, hint: object, default: object, name: str) -> object:
        """Make the value of the argument `name`. Raises BadRequest, which names the field that cannot be made."""
        place = ArgumentPlace(name, self.owner)
        try:
            return self._value(recorded, hint, default, place)
        except BadRequest:
            raise
        except Exception as error:  # a checkpoint may record anything, as a dict whose keys are lists
            raise _not_made(place, error) from error

    def _value(self, recorded: object, hint: object, base: object, place: ArgumentPlace) -> object:
        kinds = kinds_of(hint)
        if isinstance(recorded, dict) and CLASS in recorded:
            return self._object(recorded, kinds, place)
        record = next((record for kind in kinds if (record := record_class(kind))), None)
        if isinstance(recorded, dict):
            if record is not None:
                return self._record(record, recorded, place)
            hints = _arguments_of(kinds, dict, Mapping)
            parts = {key: self._value(part, hints[-1], None, place.part(key)) for key, part in recorded.items()}
            return _mapping_of(kinds, parts, dict)
        if isinstance(recorded, list):
            hints = _arguments_of(kinds, list, tuple, Sequence)
            elements = [
                self._value(part, _hint_at(hints, at), None, place.part(at)) for at, part in enumerate(recorded)
            ]
            return tuple(elements) if any(_origin(kind) is tuple for kind in kinds) else elements
        if isinstance(recorded, str) or any(_is_enum(kind) for kind in kinds):
            converting = tuple(kind for kind in kinds if _is_enum(kind) or _origin(kind) is Path)
            if len(kinds) == len(converting) + (type(None) in kinds) and converting:
                return annotated_value(recorded, hint, base, place)
        return recorded  # a call with it was right, whatever the annotation says

    def _object(self, recorded: Mapping[str, Any], kinds: Sequence[Any], place: ArgumentPlace) -> object:
        """Make an object that the checkpoint names a class of."""
        text = str(recorded[CLASS])
        module, _, name = text.partition(":")
        if (known := self._known_object(recorded, text, kinds, place)) is not ABSENT:
            return known
        cls = self._class(module, name, kinds)
        if cls is not None and issubclass(cls, enum.Enum):
            return self._member(cls, recorded, place)
        members = members_of(recorded)
        record = record_class(cls) or next((record for kind in kinds if (record := record_class(kind))), None)
        if record is not None:
            return self._record(record, {**self._by_place(record, recorded), **members}, place)
        if not members or "_parameters" in members or (ARGS in recorded and text not in NAMESPACES):
            raise BadRequest(
                f"{place.text} is an object of {module}.{name} in the checkpoint, which is not made",
                fix=f"give it: --set {place.argument}=VALUE, or name a function that makes the model",
            )
        parts = {key: self._value(part, None, None, place.part(key)) for key, part in members.items()}
        return _mapping_of(kinds, parts, NAMESPACES.get(text, SettingsDict), is_config=module.startswith("omegaconf"))

    def _known_object(
        self, recorded: Mapping[str, Any], text: str, kinds: Sequence[Any], place: ArgumentPlace
    ) -> object:
        """Make a container, a path, a device or what is named; ABSENT where it is none of these."""
        module, _, name = text.partition(":")
        if module == "builtins" and name in _CONTAINERS and (ELEMENTS in recorded or PAIRS in recorded):
            return self._container(recorded, name, kinds, place)
        if text == "builtins:type":
            return self._named(str(recorded[ARGS][0]), place)
        if module.startswith("pathlib"):
            return Path(*(str(part) for part in recorded.get(ARGS, ())))
        if text == "torch:device":
            return sys.modules["torch"].device(*recorded.get(ARGS, ()))
        return ABSENT

    def _container(self, recorded: Mapping[str, Any], name: str, kinds: Sequence[Any], place: ArgumentPlace) -> object:
        if name == "dict":
            return {
                self._value(key, None, None, place): self._value(part, None, None, place.part(key))
                for key, part in recorded[PAIRS]
            }
        hints = _arguments_of(kinds, list, tuple, Sequence, set)
        elements = enumerate(recorded[ELEMENTS])
        parts = [self._value(part, _hint_at(hints, at), None, place.part(at)) for at, part in elements]
        return list(parts) if any(_origin(kind) is list for kind in kinds) else _CONTAINERS[name](parts)

    def _record(self, record: RecordClass, values: Mapping[str, Any], place: ArgumentPlace) -> object:
        """Make a record of recorded fields. Those that its class does not take are made by the class itself."""
        skipped = {name for name in values if name not in record.fields and name in dir(record.cls)}
        skipped |= {name for name in values if name.startswith("_")} | _not_taken(record)
        settings: dict[str, object] = {}
        for name, part in values.items():
            if name in record.fields:
                settings[name] = self._value(part, record.fields[name].hint, None, place.part(name))
            elif name not in skipped:
                raise BadRequest(
                    f"{record.cls.__name__} has no field {name!r}, which the checkpoint records for {place.text}",
                    fix=f"use the code that the model was trained with, or give it: --set {place.argument}=VALUE",
                )
        try:
            return record.make(**settings)
        except Exception as error:
            raise _not_made(place, error) from error

    @staticmethod
    def _by_place(record: RecordClass, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that were recorded by their places: of named tuples, and of frozen classes with slots."""
        values = recorded.get(VALUES, recorded.get(ARGS, ()))
        return dict(zip(record.fields, values, strict=False))

    def _member(self, cls: type[enum.Enum], recorded: Mapping[str, Any], place: ArgumentPlace) -> object:
        args = recorded.get(ARGS, ())
        value = self._value(args[0], None, None, place) if len(args) == 1 else None
        for member in cls:
            if type(member.value) is type(value) and member.value == value:
                return member
        raise BadRequest(
            f"{cls.__name__} has no member of the value {value!r}, which the checkpoint records for {place.text}",
            fix=f"give it: --set {place.argument}=VALUE",
        )

    def _named(self, text: str, place: ArgumentPlace) -> object:
        """Return the class, the enum's member or the dtype that a checkpoint names, where it may be used."""
        torch = sys.modules["torch"]
        module, _, name = text.partition(":")
        owner, _, member = name.rpartition(".")
        if module == "torch" and isinstance(dtype := getattr(torch, name, None), torch.dtype):
            return dtype
        if module.startswith("torch.nn.") and inspect.isclass(layer := getattr(torch.nn, name, None)):
            return layer
        cls = self._class(module, owner, ()) if owner else None
        if cls is not None and issubclass(cls, enum.Enum) and member in cls.__members__:
            return cls[member]
        if (cls := self._class(module, name, ())) is not None:
            return cls
        raise BadRequest(
            f"{place.text} is {module}.{name} in the checkpoint, which is not imported",
            fix=f"give it: --set {place.argument}=VALUE, or name a function that makes the model",
        )

    def _class(self, module: str, name: str, kinds: Sequence[Any]) -> type | None:
        """Find the class of a recorded object: the one of its module and name, else the only one of its name."""
        known = list(self._known(module, name, kinds))
        exact = [cls for cls in known if cls.__module__ == module]
        return exact[0] if exact else known[0] if len(set(known)) == 1 else None

    def _known(self, module: str, name: str, kinds: Sequence[Any]) -> Iterator[type]:
        """Yield the classes of a name that may be made for an object whose class was in `module`."""
        names = {**_names_in(module), **_names_in(getattr(self.factory, "__module__", ""))}
        annotated: list[type[Any]] = [kind for kind in kinds if isinstance(kind, type) and kind is not object]
        for kind in annotated:
            annotated += (cls for cls in type.__subclasses__(kind) if cls not in annotated)
        usable = (enum.Enum, sys.modules["torch"].nn.Module)
        for candidate in (*annotated, *names.values()):
            if not inspect.isclass(candidate) or candidate.__qualname__ != name:
                continue
            if record_class(candidate) or issubclass(candidate, usable):
                yield candidate


def _names_in(module: str) -> Mapping[str, Any]:
    """Return what a module holds that the user's code has imported; of Python's and of libraries nothing."""
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    if file is None or module.partition(".")[0] in sys.stdlib_module_names or "site-packages" in Path(file).parts:
        return {}
    return vars(loaded)


def _not_taken(record: RecordClass) -> set[str]:
    """Return the fields of a dataclass that its __init__ does not take."""
    fields = getattr(record.cls, "__dataclass_fields__", {})
    return {name for name, entry in fields.items() if not entry.init}


def _hint_at(hints: Sequence[Any], at: int) -> Any:
    """Return the annotation of an element: of tuple[int, str] its own, of list[int] the same for all."""
    return hints[min(at, len(hints) - 1)]


def _not_made(place: ArgumentPlace, error: Exception) -> BadRequest:
    return BadRequest(
        f"{place.text} is not made from the checkpoint: {type(error).__name__}: {error}",
        fix=f"use the code that the model was trained with, or give it: --set {place.argument}=VALUE",
    )


def _origin(kind: Any) -> Any:
    return typing.get_origin(kind) or kind


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def _arguments_of(kinds: Sequence[Any], *origins: Any) -> tuple[Any, ...]:
    """Return the arguments of the first container among the kinds, as (str, Layer) of dict[str, Layer]."""
    for kind in kinds:
        arguments = tuple(part for part in typing.get_args(kind) if part is not Ellipsis)
        if _origin(kind) in origins and arguments:
            return arguments
    return (None,)


def _mapping_of(kinds: Sequence[Any], parts: dict[str, Any], plain: type, *, is_config: bool = False) -> object:
    """Return recorded members as what the annotation wants, else as what they were."""
    configs = [kind for kind in kinds if getattr(kind, "__module__", "").startswith("omegaconf")]
    if (configs or is_config) and "omegaconf" in sys.modules:
        return sys.modules["omegaconf"].OmegaConf.create(parts)
    for kind in kinds:
        if _origin(kind) in (dict, Mapping):
            return dict(parts)
        if kind in NAMESPACES.values():
            return kind(**parts)
    if is_config:
        return with_attributes(parts)
    return plain(**parts) if plain in NAMESPACES.values() else plain(parts)
