"""TOML files of the user: read, and refused with the line of what is wrong and the fix."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from ...models.errors import BadRequest
from ...models.untrusted_files import check_plain

_MOST_BYTES = 1 << 20  # of a file

_Place = tuple[str | int, ...]  # of a key: names of tables, and the number of one in an array of tables


def read_toml(path: Path, kind: str, page: str) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file and what it says. `kind`: what it should be, as in "pipeline file"; `page` tells
    how it is written. Raises BadRequest where it is none."""
    check_plain(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(path)
        text = path.read_text()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or f"it is not text of up to {_MOST_BYTES >> 20} MB"
        raise BadRequest(f"{path} cannot be read: {why}", fix=f"name a {kind} ({page})") from error
    try:
        return text, tomllib.loads(text)
    except RecursionError as error:
        raise BadRequest(f"{path} is nested too deeply", fix=f"write it as {page} does") from error
    except ValueError as error:  # also a number of more digits than Python reads
        raise BadRequest(f"{path} is not TOML: {error}", fix="mend that line") from error


def refused_key(
    path: Path | None, text: str, error: ValidationError, model: type[BaseModel], *, page: str,
    hidden: Sequence[str] = (),
) -> BadRequest:  # fmt: skip
    """Return the error for the first wrong key or value of a document that should have been a `model`, with its line.
    `hidden` are fields of the model that no file may hold."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if not isinstance(part, int)]
    where = ".".join(place)
    line = line_of(text, tuple(first["loc"]))
    file = f"{path or 'the request'}{f', line {line}' if line else ''}"
    if first["type"] == "extra_forbidden":
        known = [name for name in _known_keys(model, place[:-1]) if name not in hidden]
        near = get_close_matches(place[-1], known, n=1)
        fix = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(known)}"
        return BadRequest(f"{file}: unknown key {where!r}", fix=fix)
    message = first["msg"].removeprefix("Value error, ")
    statement, _, fix = message.partition("; ")
    is_table = isinstance(first["input"], Mapping)  # which no reader needs to see again
    value = "" if is_table or repr(first["input"]) in statement else f", got {first['input']!r}"
    fix = fix or f"{page} lists what is taken"
    return BadRequest(f"{file}: {where}: {statement}{value}"[:500], fix=fix)


def _known_keys(model: type[BaseModel], section: Sequence[str]) -> list[str]:
    """Return the keys that a section of a document may hold."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if not section:
        return list(fields)
    inner = next(_models_in(fields[section[0]].annotation), None) if section[0] in fields else None
    return _known_keys(inner, section[1:]) if inner else []


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation holds, as in `tuple[Entry, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def line_of_key(text: str, place: _Place) -> int | None:
    """Return the line of a key; None where the text does not have it."""
    return _lines(text)[0].get(place)


def line_of(text: str, place: _Place) -> int | None:
    """Return the line of a key, or of the part of its place that the text names; None where it names no part."""
    lines, counts = _lines(text)
    kept = tuple(part for at, part in enumerate(place) if isinstance(part, str) or place[at - 1] in counts)
    return next((lines[kept[:end]] for end in range(len(kept), 0, -1) if kept[:end] in lines), None)


def line_of_item(text: str, first: int, item: str) -> int:
    """Return the line of an item in the list that begins at line `first`; `first` where it is not written there."""
    for number, line in enumerate(text.splitlines()[first - 1 :], first):
        if re.search(rf"""["']{re.escape(item)}["']""", line):
            return number
        if "]" in line:
            break
    return first


def _lines(text: str) -> tuple[dict[_Place, int], dict[str, int]]:
    """Return the line of each table and key, and how many tables each array of tables has."""
    lines: dict[_Place, int] = {}
    counts: dict[str, int] = {}
    section: _Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[([\w.\-\s]+)\]\]", line):
            name = header[1].strip()
            section = (name, counts.setdefault(name, 0))
            counts[name] += 1
            lines.setdefault(section, number)
        elif header := re.match(r"\s*\[([\w.\-\s]+)\]", line):
            parts = [part.strip() for part in header[1].split(".")]
            in_array = parts[0] in counts
            section = (parts[0], counts[parts[0]] - 1, *parts[1:]) if in_array else tuple(parts)
            lines.setdefault(section, number)
        elif key := re.match(r"\s*[\"']?([\w\-]+)[\"']?\s*=", line):
            lines.setdefault((*section, key[1]), number)
    return lines, counts
