"""Names of the models of a list: each is a folder of its results, so that each is there once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path

from ...models.errors import BadRequest
from ..options.toml_file import line_of

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
RESERVED = ("models.json", "report.md", "index.html")  # of the folder that holds those of the models
_SCHEMES = ("zoo", "torchvision", "timm", "hf")


def check_names(path: Path, text: str, entries: Sequence[tuple[str | None, str]]) -> list[str]:
    """Return the name of each model of the file; `entries` are names, where they have one, and sources.
    A name that is left out follows the source, and equal ones of these get numbers.
    Raises BadRequest where two models were given one name, or a name can be no folder."""
    own_names = [name for name, _ in entries if name is not None]
    names: list[str] = []
    for at, (name, source) in enumerate(entries):
        if name is None:
            plain = plain_name(source)
            numbered = (f"{plain}-{number}" for number in count(2))
            names.append(next(text for text in chain([plain], numbered) if text not in (*names, *own_names)))
            continue
        line = line_of(text, ("model", at, "name"))
        where = f"{path}, line {line}" if line else str(path)
        if not _NAME.fullmatch(name) or name in RESERVED:
            fix = "use letters, digits, dots, dashes and underscores; it names a folder"
            raise BadRequest(f"{where}: {name[:100]!r} is no name for a model", fix=fix)
        if own_names.index(name) != sum(other is not None for other, _ in entries[:at]):
            raise BadRequest(f"{where}: two models are called {name!r}", fix="give each a name of its own")
        names.append(name)
    return names


def plain_name(source: str) -> str:
    """Return a folder name for a model, as digits-cnn of zoo:digits-cnn or net-Net of sub/net.py:Net."""
    place, colon, name = source.rpartition(":")
    if not colon or "/" in name or "\\" in name:  # the colon is no separator before an object, or belongs to a drive
        place, name = source, ""
    stem = "" if place in _SCHEMES else Path(place).name
    stem = re.sub(r"\.(py|onnx|pt2|pt|pth|tflite|keras|toml)$", "", stem)
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(filter(None, (stem, name)))).strip("-.") or "model"
    return f"{plain}-model" if plain in RESERVED else plain


def name_of_row(name: str, device: str | None) -> str:
    """Return the name of a model on one of several devices, as digits-cnn@cuda-1."""
    return f"{name}@{device.replace(':', '-')}" if device else name
