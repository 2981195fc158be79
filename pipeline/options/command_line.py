"""The command line of a record: each of its fields as a parameter of typer."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from inspect import Parameter, Signature
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args

import typer
from pydantic.fields import FieldInfo

from .option import CommandOptions, Option, Side, fields_of, option_of, parser_of

_Options = TypeVar("_Options", bound=CommandOptions)


def line_function(record: type[_Options], act: Callable[[_Options], None]) -> Callable[..., None]:
    """Return `act` as typer takes it: a function of the record's fields, whose docstring is the record's."""

    def function(**words: Any) -> None:
        switched = {name: not value for name, value in words.items() if _is_switched_off(fields[name])}
        act(record.read({name: value for name, value in (words | switched).items() if value not in (None, [])}))

    fields = fields_of(record, Side.LINE)
    parameters = [_parameter(name, field) for name, field in fields.items()]
    named: Any = function  # typer reads what follows
    named.__signature__ = Signature(parameters)
    named.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    named.__doc__, named.__name__ = record.__doc__, act.__name__
    return function


def _is_switched_off(field: FieldInfo) -> bool:
    """Whether a field is on unless its option is there: --no-bench."""
    return field.default is True


def _parameter(name: str, field: FieldInfo) -> Parameter:
    option, default = option_of(field), field.default
    if field.is_required():
        default = Parameter.empty
    elif _is_switched_off(field):
        default = False
    kind = list[str] if option.several else _kind(field)
    if default in (None, ()):
        kind, default = kind | None, None
    annotation = Annotated[kind, _typer_option(option)]  # type: ignore[valid-type]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _kind(field: FieldInfo) -> Any:
    """Return what a word is read as: what the field is, or a text of which its parser makes that."""
    plain = [kind for kind in get_args(field.annotation) if kind is not NoneType] or [field.annotation]
    is_choice = isinstance(plain[0], type) and issubclass(plain[0], Enum | bool)
    return plain[0] if is_choice or parser_of(field) is None else str


def _typer_option(option: Option) -> Any:
    common: dict[str, Any] = {
        "metavar": option.metavar, "help": option.help, "min": option.min, "max": option.max,
        "autocompletion": option.complete,
    }  # fmt: skip
    if option.word is None:
        return typer.Argument(**common)
    return typer.Option(option.word, *([option.short] if option.short else []), **common)
