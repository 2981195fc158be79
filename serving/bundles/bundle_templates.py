"""The files of bundles that are text: of templates/ those of a system, with values for {{ name }}; of standalone/ code.

templates/ has a folder for each system, SYSTEM.archive for what lies in its archive, `start/` for the commands that
start it, and `bundle/` for what every bundle has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

CHECK, RUNTIME = "endpoint_check", "artifact_runtime"  # of standalone/
_FOLDER = Path(__file__).parent
_VALUE = re.compile(r"\{\{ (\w+) \}\}")


def render(template: str, values: Mapping[str, object]) -> str:
    """Return the text of one template, as "start/docker.txt"."""
    return _VALUE.sub(lambda match: str(values[match[1]]), (_FOLDER / "templates" / template).read_text())


def render_folder(folder: str, values: Mapping[str, object]) -> dict[str, str]:
    """Return the texts of all templates of a folder by their paths in it; none where there is no such folder."""
    place = _FOLDER / "templates" / folder
    names = sorted(file.relative_to(place).as_posix() for file in place.rglob("*") if file.is_file())
    return {name: render(f"{folder}/{name}", values) for name in names}


def standalone(module: str) -> str:
    """Return the text of a module of standalone/."""
    return (_FOLDER / "standalone" / f"{module}.py").read_text()
