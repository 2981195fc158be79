"""The Python function of a record: each of its fields as a keyword argument."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from .option import CommandOptions, Positional, Side, fields_of, option_of, parser_of, parts_of

_Options = TypeVar("_Options", bound=CommandOptions)
_Result = TypeVar("_Result")
_QUIET = "quiet"  # a function is, unless it is told otherwise; a command is not


def takes(
    record: type[_Options], *, single: tuple[str, str] | None = None, without: Collection[str] = ()
) -> Callable[[Callable[[_Options], _Result]], Callable[..., _Result]]:
    """Make a function of a record one of its fields, `without` some. `single`: a field that takes several, and the name
    of the only one that the function takes. It raises TypeError where an argument has no field, BadRequest where a
    value is none of its field's."""

    def make(act: Callable[[_Options], _Result]) -> Callable[..., _Result]:
        fields = {name: field for name, field in fields_of(record, Side.PYTHON).items() if name not in without}
        several, name_of_one = single or ("", "")
        parameters = [
            Parameter(name_of_one, Parameter.POSITIONAL_OR_KEYWORD, annotation=object)
            if name == several
            else _parameter(name, field)
            for name, field in fields.items()
        ]
        call = Signature(_in_order(parameters), return_annotation=signature(act).return_annotation)

        @wraps(act)
        def function(*arguments: Any, **keywords: Any) -> _Result:
            values = call.bind(*arguments, **keywords).arguments
            if name_of_one in values:
                values[several] = (values.pop(name_of_one),)
            return act(record.read({_QUIET: True, **values} if _QUIET in fields else values))

        named: Any = function
        named.__signature__ = call
        return function

    return make


def _in_order(parameters: Collection[Parameter]) -> list[Parameter]:
    """Return the parameters by kind, as Python wants them; among keywords their order stays."""
    return sorted(parameters, key=lambda parameter: parameter.kind)


def _parameter(name: str, field: FieldInfo) -> Parameter:
    default = Parameter.empty if field.default is PydanticUndefined else field.default
    places = parts_of(field, Positional)
    if places and places[0].starred:
        return Parameter(name, Parameter.VAR_POSITIONAL, annotation=accepted(field))
    is_first = places or option_of(field).word is None
    kind = Parameter.POSITIONAL_OR_KEYWORD if is_first else Parameter.KEYWORD_ONLY
    return Parameter(name, kind, default=True if name == _QUIET else default, annotation=accepted(field))


def accepted(field: FieldInfo) -> Any:
    """Return the type of what a function takes: of what its parser takes, where it has one."""
    parser = parser_of(field)
    kind = parser.json_schema_input_type if parser else PydanticUndefined
    plain = field.annotation if kind is PydanticUndefined else kind
    return str | plain if Path in (plain, *get_args(plain)) else plain
