"""What the words of options become: lists, targets, sizes, durations and settings. Each refuses with a fix.

Lists are written with commas, or with the option several times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ...models.errors import BadRequest
from ...models.formats import Target, parse_target
from ...models.signature import TensorSpec, parse_input
from ...serving.runtimes.runtime_table import RUNTIMES
from ..result import release_limits
from ..result.load_cases import LoadEngine

Words: TypeAlias = str | Sequence[object] | None  # a text with commas, texts of that kind, or values; None: not told


def split(values: Words) -> tuple[str, ...]:
    """Return the words of an option that takes a list: `--to a,b --to c` is a, b, c.
    Raises BadRequest where the option is there and names nothing: that is not the same as leaving it out."""
    texts = (values,) if isinstance(values, str) else tuple(values or ())
    words = tuple(word for text in texts for part in str(text).split(",") if (word := part.strip()))
    if texts and not words:
        raise BadRequest("an option that takes a list was given an empty one", fix="name something, or leave it out")
    return words


def parse_targets(values: Words) -> tuple[Target, ...]:
    """`--to`, each target once, in order. Raises BadRequest."""
    return tuple(dict.fromkeys(parse_target(word) for word in split(values)))


def parse_runtimes(values: Words) -> tuple[str, ...]:
    """`--runtime`, each once, in order. Raises BadRequest with the names that are known."""
    for word in split(values):
        if word not in RUNTIMES:
            raise BadRequest(f"unknown runtime {word!r}", fix=f"use one of {', '.join(RUNTIMES)}")
    return tuple(dict.fromkeys(split(values)))


def parse_batches(values: Words) -> tuple[int, ...]:
    """`--batch`, each size once, in order. Raises BadRequest."""
    for word in split(values):
        if not word.isdecimal() or len(word) > _MOST_DIGITS or int(word) < 1:
            raise BadRequest(f"{word[:80]!r} is no batch size", fix="use whole numbers from 1, as in --batch 1,8")
    return tuple(dict.fromkeys(int(word) for word in split(values)))


def parse_load_engines(values: Words) -> tuple[str, ...]:
    """`--load-engine`, each once, in order. Raises BadRequest."""
    for word in split(values):
        if word not in set(LoadEngine):
            raise BadRequest(f"unknown load engine {word!r}", fix=f"use {' or '.join(LoadEngine)}")
    return tuple(dict.fromkeys(split(values)))


_MOST_DIGITS = 18  # of a batch size: an int64
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h)?")
_SECONDS = {None: 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(value: str | float) -> float:
    """Seconds of a time as in "60s", "5m", "1h", "10ms", "250us" or "90". Raises BadRequest."""
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip())
    if not match:
        raise BadRequest(f"{value!r} is no time", fix="write it as in 60s, 5m or 10ms")
    return float(match[1]) * _SECONDS[match[2]]


def parse_latency(value: str | float) -> float:
    """Seconds of a latency as in "10ms", "0.5s" or "250us". Raises BadRequest."""
    return release_limits.parse_latency(value) if isinstance(value, str) else value


def parse_share(value: str | float) -> float:
    """A share as in "2%" or "0.02", above 0 and below 1. Raises BadRequest."""
    if not isinstance(value, str):
        return value
    try:
        share = float(value.strip().removesuffix("%")) / (100 if value.strip().endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise BadRequest(f"{value!r} is no share between 0 and 1", fix="write it as in 2% or 0.02")
    return share


_PYTHON = {"True": True, "False": False, "None": None}  # not JSON, and never meant as text
_SETTING = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


def parse_settings(values: Mapping[str, Any] | Sequence[str]) -> dict[str, Any]:
    """`--set`, by name: JSON where it is JSON, True, False and None as Python has them, else text.
    Raises BadRequest."""
    if isinstance(values, Mapping):
        return dict(values)
    settings: dict[str, Any] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not _SETTING.fullmatch(name.strip()):
            raise BadRequest(f"--set {value!r} is not of the form NAME=VALUE", fix="write it as in --set depth=50")
        if name.strip() in settings:
            raise BadRequest(f"--set names {name.strip()!r} twice", fix="give every setting once")
        settings[name.strip()] = _setting(text.strip())
    return settings


def _setting(text: str) -> Any:
    if text in _PYTHON:
        return _PYTHON[text]
    try:
        return json.loads(text, parse_constant=str)  # NaN and Infinity are none of JSON's
    except (ValueError, RecursionError):
        return text


def parse_inputs(values: str | TensorSpec | Sequence[str | TensorSpec]) -> tuple[TensorSpec, ...]:
    """`--input`, in order: the model's own. Commas belong to the dims here. Raises BadRequest."""
    listed = (values,) if isinstance(values, str | TensorSpec) else values
    specs = tuple(spec if isinstance(spec, TensorSpec) else parse_input(spec) for spec in listed)
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise BadRequest(f"--input names {name!r} twice", fix="give every input once")
    return specs
