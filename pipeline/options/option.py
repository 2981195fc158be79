"""An option is one record: a field of a command's record, with its type, help and place in a pipeline file.

    class BenchOptions(CommandOptions):
        rounds: Annotated[int | None, Key("bench.rounds"), Option("--rounds", "N", "Turns of each.", min=3)] = None

Of such a record the command line is made (command_line.py), the keyword arguments of `transload.bench(...)` with the
stub that editors read (keyword_function.py), and the sections of a run's request (`CommandOptions.sections`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from ...models.errors import BadRequest


class Side(Enum):
    """One of the two places where an option may stand."""

    LINE = "the command line"
    PYTHON = "the arguments of a function"


@dataclass(frozen=True)
class Option:
    """How a field is written on the command line. Without `word` it is an argument. `several`: it is given as texts, of
    which the field's parser makes its value."""

    word: str | None = None
    metavar: str | None = None
    help: str = ""
    short: str | None = None
    several: bool = False
    min: float | None = None
    max: float | None = None
    complete: Callable[[str], list[str]] | None = None
    only: Side | None = None  # None: both


@dataclass(frozen=True)
class Positional:
    """Marks what a function takes by its place; `starred`: as many as there are."""

    starred: bool = False


@dataclass(frozen=True)
class Key:
    """The key of a pipeline file that a field stands for, as "bench.threads"; `value` is what it is there."""

    path: str
    value: Callable[[Any], Any] | None = None


class CommandOptions(BaseModel):
    """The arguments and options of one command, with their values. Its docstring is the help of the command."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, protected_namespaces=())

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Return the record of these values. Raises BadRequest."""
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0]) if first["loc"] else cls.__name__
            raise BadRequest(f"{name}: {first['msg']}, and it is {first['input']!r}", fix=_fix_of(cls, name)) from error

    def non_defaults(self) -> dict[str, Any]:
        """Return the values that are not the defaults, by the names of the fields."""
        fields = type(self).model_fields
        return {name: value for name, value in vars(self).items() if _differs(value, fields[name])}

    def words(self, *names: str) -> list[str]:
        """Return the words of a command line that give these fields their values; defaults are left out."""
        changed = self.non_defaults()
        return [word for name in names if name in changed for word in _words(self.word_of(name), changed[name])]

    @classmethod
    def word_of(cls, name: str) -> str:
        """Return the option that a field is on the command line."""
        return str(option_of(cls.model_fields[name]).word)

    def sections(self) -> dict[str, Any]:
        """Return the values that are not the defaults as the sections of a pipeline file."""
        sections: dict[str, Any] = {}
        for name, value in self.non_defaults().items():
            for key in parts_of(type(self).model_fields[name], Key):
                *tables, last = key.path.split(".")
                table = sections
                for part in tables:
                    table = table.setdefault(part, {})
                table[last] = key.value(value) if key.value else value
        return sections


def _differs(value: Any, field: FieldInfo) -> bool:
    return value is not field.default and (type(value) is not type(field.default) or value != field.default)


def _words(word: str, value: Any) -> list[str]:
    if value is True:
        return [word]
    if isinstance(value, Mapping):
        texts = {name: setting if isinstance(setting, str) else json.dumps(setting) for name, setting in value.items()}
        value = [f"{name}={text}" for name, text in texts.items()]
    values = value if isinstance(value, list | tuple) else [value]
    return [text for item in values for text in (word, str(item))]


def _fix_of(record: type[CommandOptions], name: str) -> str:
    field = record.model_fields.get(name)
    return option_of(field).help if field else "see the reference of the command line"


def parts_of(field: FieldInfo, kind: type[Any]) -> list[Any]:
    """Return what a field is annotated with, of a kind."""
    return [part for part in field.metadata if isinstance(part, kind)]


def option_of(field: FieldInfo) -> Option:
    """Return the option that a field is."""
    option: Option = parts_of(field, Option)[-1]
    return option


def parser_of(field: FieldInfo) -> BeforeValidator | None:
    """Return what makes a field's value of texts, and of what a function takes in its place."""
    return next(iter(parts_of(field, BeforeValidator)), None)


def fields_of(record: type[CommandOptions], side: Side) -> dict[str, FieldInfo]:
    """Return the fields that may stand on a side, in order."""
    return {name: field for name, field in record.model_fields.items() if option_of(field).only in (None, side)}
