"""A job: it reads input folders, writes one output folder, and returns facts.

Training, capturing, converting, answering and validating all have this form, so that one engine can cache, isolate,
time and repeat them, here or on another machine. Options and facts cross the process border as JSON; each entry has
a JsonRecord for both beside it, which either side reads them with.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeAlias, Union, get_args, get_origin, get_type_hints

from .errors import StepFailed
from .library_messages import first_line

WALLED = "TRANSLOAD_WALLED"  # set in the environment of a worker that the kernel holds


@dataclass(frozen=True, slots=True)
class Job:
    """The arguments of a step, which runs in a process of its own with a private scratch folder as its cwd."""

    inputs: Mapping[str, Path]  # folders, by the name that the step knows them by; read only
    out: Path  # an empty folder: what lies in it afterwards is the step's result
    options: Mapping[str, Any] = field(default_factory=dict)  # JSON values
    services: Mapping[str, str] = field(default_factory=dict)  # addresses of servers; they differ from run to run
    checkpoints: Path | None = None  # outlives a kill: where a long step keeps its state
    toolchain: Mapping[str, str] = field(
        default_factory=dict
    )  # the versions of its libraries, by module, as its key has them
    answer_s: float | None = None  # in which the model has to be opened and to answer once (drift/call_time_limit.py)


Work: TypeAlias = Callable[[Job], Mapping[str, Any]]  # the facts returned are JSON values


@dataclass(frozen=True, kw_only=True)
class JsonRecord:
    """Base of the options and the facts of a job: a frozen dataclass that is a JSON object at the process border.
    Fields are JSON values, tuples, mappings, classes with `to_json` and `from_json`, or records again. A field that
    has its default value is left out of the JSON; null stands for the default, too."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the record of a JSON object. Raises ValueError that names a key which is unknown or missing."""
        names = [own.name for own in fields(cls)]
        if unknown := sorted(document.keys() - set(names)):
            raise ValueError(f"{cls.__name__} has no {', '.join(unknown)}; it has {', '.join(names)}")
        return cls.part_of(document)

    @classmethod
    def part_of(cls, document: Mapping[str, Any]) -> Self:
        """Return the record of a JSON object that may have further keys, as the facts of a third party's step.
        Raises ValueError that names a key which is missing."""
        required = [own.name for own in fields(cls) if _default_of(own) is MISSING]
        if missing := [name for name in required if name not in document]:
            raise ValueError(f"{cls.__name__} lacks {', '.join(missing)}")
        kinds = _kinds_of(cls)  # type: ignore[arg-type]  # mypy asks whether instances are hashable
        read = {own.name: document[own.name] for own in fields(cls) if own.name in document}
        values = {name: value for name, value in read.items() if value is not None or name in required}
        return cls(**{name: _decoded(kinds[name], value) for name, value in values.items()})

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the record."""
        values = [(own, getattr(self, own.name)) for own in fields(self)]
        return {own.name: _encoded(value) for own, value in values if value != _default_of(own)}


@dataclass(frozen=True, kw_only=True)
class Facts(JsonRecord):
    """Base of the facts of a job."""

    peak_rss_bytes: int = 0  # of the worker and all that it started; the engine adds it

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """See JsonRecord. Raises StepFailed."""
        with forged_as_failure(cls.__name__):
            return super().from_json(document)

    @classmethod
    def part_of(cls, document: Mapping[str, Any]) -> Self:
        """See JsonRecord. Raises StepFailed, as the code of a model, which can forge facts, is at fault."""
        with forged_as_failure(cls.__name__):
            return super().part_of(document)


@contextmanager
def forged_as_failure(name: str) -> Iterator[None]:
    """Turn the errors of reading what a worker said into StepFailed."""
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise StepFailed(
            f"a step answered with something that is no {name}: {first_line(error, 200, nothing='no message')}",
            fix="take no models of strangers, or report the step",
        ) from error


@cache
def _kinds_of(cls: type) -> Mapping[str, Any]:
    """Return the types of a class's fields. Cached: a list of models reads hundreds of records a second."""
    return get_type_hints(cls)


def _default_of(own: Field[Any]) -> object:
    """Return the default value of a field, or MISSING."""
    return own.default if own.default_factory is MISSING else own.default_factory()


def _encoded(value: object) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: _encoded(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_encoded(item) for item in value]
    return value


def _decoded(kind: Any, value: Any) -> Any:
    """Return a JSON value as the type of a field."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        inner = [argument for argument in arguments if argument is not types.NoneType]
        return None if value is None else _decoded(inner[0], value) if len(inner) == 1 else value
    if origin is tuple:
        items = arguments[:1] * len(value) if arguments[-1] is ... else arguments
        return tuple(_decoded(item, part) for item, part in zip(items, value, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {name: _decoded(arguments[1], item) for name, item in value.items()}
    if hasattr(kind, "from_json"):
        return kind.from_json(value)
    allowed = (int, float) if kind is float else (kind,)
    fits = isinstance(value, str) if kind is str else type(value) in allowed  # an enum of texts is one; True no number
    if kind in (str, bool, int, float) and not fits:
        raise ValueError(f"{value!r:.100} is no {kind.__name__}")
    return value
