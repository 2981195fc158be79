"""The files of bundles that are text with a few values in it: templates/ has a folder for each system, `start/` the
commands that start it, `bundle/` what every bundle has. {{ name }} stands for a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_FOLDER = Path(__file__).parent / "templates"
_VALUE = re.compile(r"\{\{ (\w+) \}\}")


def render(template: str, values: Mapping[str, object]) -> str:
    """Return the text of one template, as "start/docker.txt"."""
    return _VALUE.sub(lambda match: str(values[match[1]]), (_FOLDER / template).read_text())


def render_folder(folder: str, values: Mapping[str, object]) -> dict[str, str]:
    """Return the texts of all templates of a folder by their names; none where there is no such folder."""
    return {file.name: render(f"{folder}/{file.name}", values) for file in sorted((_FOLDER / folder).glob("*"))}
