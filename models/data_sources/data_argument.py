"""What `--data` names: `PLACE` or `PLACE?OPTION=VALUE&OPTION=VALUE`. It is parsed before any of it is read.

samples.npz                                             arrays by input name, and labels
photos/?resize=256&crop=224&range=0..1                  images, in a folder for each label or without labels
table.csv?label=target    table.parquet                 columns
data.py:loader    package.module:make                   a torch Dataset, a DataLoader, or anything that can be iterated
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from ..errors import BadRequest
from ..store import digest_of, digest_of_json
from ..untrusted_files import check_plain
from .source_options import ImageOptions, Resample, TableOptions

ACCEPTED = "FILE.npz, a folder of images, FILE.csv, FILE.parquet or FILE.py:NAME (docs/data.md)"
_SHOWN = 200  # characters of an argument that a sentence repeats
_OF_THE_KERNEL = ("/proc", "/sys")  # hundreds of thousands of entries, which change while they are listed
_T = TypeVar("_T")


class DataKind(StrEnum):
    """A form of data, which decides how it is read."""

    ARRAYS = "arrays"
    IMAGES = "images"
    TABLE = "table"
    CODE = "code"


_SUFFIXES = {
    ".npz": DataKind.ARRAYS, ".csv": DataKind.TABLE, ".tsv": DataKind.TABLE, ".parquet": DataKind.TABLE,
}  # fmt: skip


@dataclass(frozen=True)
class DataArgument:
    """The value of `--data`."""

    kind: DataKind
    place: str  # a path, or the reference to a Python object
    samples: int | None = None  # no more than the first of them
    images: ImageOptions = field(default_factory=ImageOptions)
    table: TableOptions = field(default_factory=TableOptions)


def parse_data(text: str, root: str | None = None) -> DataArgument:
    """Parse the value of `--data`; a relative path starts at `root`.
    Raises BadRequest where the form, an option or a value is unknown, or where there is no such file."""
    try:
        place, options = _split(text, root)
        kind = _kind_of(place, root)
    except OSError as error:  # of a name that no file system takes
        raise BadRequest(
            f"the data {text[:_SHOWN]!r} cannot be looked for: {error.strerror}", fix=f"name {ACCEPTED}"
        ) from error
    values = _Values(text, kind, options)
    argument = DataArgument(
        kind,
        place if kind is DataKind.CODE else str(_path(place, root)),
        values.take("samples", _count, "a number of samples, as in samples=1000"),
        _image_options(values) if kind is DataKind.IMAGES else ImageOptions(),
        _table_options(values) if kind is DataKind.TABLE else TableOptions(),
    )
    values.refuse_unknown()
    return argument


def absolute_data(text: str | None) -> str | None:
    """Return the value of `--data` with its path from the root of the file system; the name of a module as it is."""
    head = re.split(r"[:?]", text or "")[0]
    return str(Path(text).absolute()) if text and (head.endswith(".py") or Path(head).exists()) else text


def source_digest(kind: DataKind, place: str) -> str:
    """Return the digest of a file, or of the names, sizes and times of the files in a folder of images.
    Code has none: the executor knows what it imports and what it has read. Raises BadRequest where the file is none
    that can be read (untrusted_files.py)."""
    path = Path(place)
    if kind is DataKind.CODE:
        return ""
    check_plain(path)
    if kind is not DataKind.IMAGES:
        return digest_of(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return digest_of_json([[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files])


def _split(text: str, root: str | None) -> tuple[str, dict[str, str]]:
    """Return the place and the options by name; a file whose own name has a `?` is a place alone."""
    place, mark, query = text.partition("?")
    if not mark or _path(text, root).exists():
        return text, {}
    options: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, equals, value = part.partition("=")
        if not equals or not value or name in options:
            problem = "stands there twice" if name in options else "is not of the form OPTION=VALUE"
            raise BadRequest(
                f"the data {text!r}: {part!r} {problem}", fix="write it as in 'photos/?resize=256&crop=224'"
            )
        options[name] = value
    return place, options


def _path(place: str, root: str | None) -> Path:
    return (Path(root or "") / place).absolute()


def _kind_of(place: str, root: str | None) -> DataKind:
    path = _path(place, root)
    suffix = path.suffix.lower()
    if path.is_dir():
        if any(path.resolve().is_relative_to(folder) for folder in _OF_THE_KERNEL):
            raise BadRequest(f"{place} is a folder of the kernel, and holds no data", fix=f"name {ACCEPTED}")
        return DataKind.IMAGES
    if path.is_file() and suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if suffix == ".py" or ".py:" in place or (":" in place and not path.exists()):
        return _code(place)
    if path.is_file():
        raise BadRequest(f"{place} is no data of a kind that is known", fix=f"name {ACCEPTED}")
    raise BadRequest(f"no such file: {place}", fix=f"check --data; it names {ACCEPTED}")


def _code(place: str) -> DataKind:
    if ":" not in place:
        raise BadRequest(f"{place} is code, and nothing in it is named", fix=f"name what gives samples: {place}:NAME")
    return DataKind.CODE


class _Values:
    """The options of an argument, each of which is taken once."""

    def __init__(self, text: str, kind: DataKind, options: Mapping[str, str]) -> None:
        self._text, self._kind, self._options = text, kind, options
        self._known: list[str] = []

    def take(self, name: str, parse: Callable[[str], _T], expected: str) -> _T | None:
        """Return the parsed value of an option, or None where it is left out."""
        self._known.append(name)
        if name not in self._options:
            return None
        try:
            return parse(self._options[name])
        except ValueError as error:
            message = f"the data {self._text!r}: {name}={self._options[name]} is not {expected.partition(',')[0]}"
            raise BadRequest(message, fix=f"write {expected}") from error

    def refuse_unknown(self) -> None:
        """Raise BadRequest where an option is none of those that were taken."""
        unknown = [name for name in self._options if name not in self._known]
        if unknown:
            near = get_close_matches(unknown[0], self._known, n=1)
            fix = f"did you mean {near[0]}?" if near else f"use one of {', '.join(self._known)}"
            message = f"the data {self._text!r}: {self._kind} have no option {unknown[0]!r}"
            raise BadRequest(message.replace("table have", "a table has").replace("code have", "code has"), fix=fix)


def _image_options(values: _Values) -> ImageOptions:
    parsed: dict[str, Any] = {
        "input": values.take("input", str, "the name of an input"),
        "size": values.take("size", _size, "a size, as in size=224 or size=224x320 (height x width)"),
        "resize": values.take("resize", _count, "a size, as in resize=256 (of the shorter side)"),
        "crop": values.take("crop", _size, "a size, as in crop=224 or crop=224x320 (height x width)"),
        "resample": values.take("resample", Resample, f"a filter, one of {', '.join(Resample)}"),
        "range": values.take("range", _range, "a range, as in range=0..1, range=-1..1 or range=0..255"),
        "mean": values.take("mean", _numbers, "numbers, as in mean=0.485,0.456,0.406"),
        "std": values.take("std", _numbers, "numbers other than 0, as in std=0.229,0.224,0.225"),
        "order": values.take("order", _word("rgb", "bgr"), "an order of colours, order=rgb or order=bgr"),
        "layout": values.take("layout", _word("chw", "hwc"), "a layout, layout=chw or layout=hwc"),
    }
    return ImageOptions(**{name: value for name, value in parsed.items() if value is not None})


def _table_options(values: _Values) -> TableOptions:
    parsed: dict[str, Any] = {
        "label": values.take("label", str, "the name of a column"),
        "columns": values.take("columns", lambda text: tuple(text.split(",")), "names of columns"),
        "sep": values.take("sep", _separator, "one character, as in sep=; or sep=tab"),
    }
    return TableOptions(**{name: value for name, value in parsed.items() if value is not None})


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(text)
    return int(text)


def _size(text: str) -> tuple[int, int]:
    height, _, width = text.partition("x")
    return _count(height), _count(width or height)


def _numbers(text: str) -> tuple[float, ...]:
    numbers = tuple(float(part) for part in text.split(","))
    if not all(abs(number) < float("inf") for number in numbers):
        raise ValueError(text)
    return numbers


def _range(text: str) -> tuple[float, float]:
    match = re.fullmatch(r"(-?[\d.]+?)\.\.(-?[\d.]+)", text)
    if not match:
        raise ValueError(text)
    return float(match[1]), float(match[2])


def _word(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return parse


def _separator(text: str) -> str:
    text = "\t" if text == "tab" else text
    if len(text) != 1:
        raise ValueError(text)
    return text
