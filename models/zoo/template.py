"""`transload new NAME`: a recipe of the user's own to start from, which runs as it is, for one of several tasks."""

from __future__ import annotations

import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from string import Template

from ..errors import BadRequest

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


class Task(StrEnum):
    """What a recipe's model does. Each has a template beside this module, whose data a library carries."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"
    SEGMENTATION = "segmentation"
    TEXT = "text"
    TABULAR = "tabular"


def write_recipe(name: str, folder: Path, task: Task = Task.CLASSIFICATION) -> Path:
    """Write a recipe called `name` into `folder` and return the path of its file. Replaces nothing.
    Raises BadRequest where the name is not allowed, or the file is there already."""
    if not _NAME.fullmatch(name):
        raise BadRequest(
            f"a recipe cannot be called {name!r}",
            fix="use small letters, digits and single hyphens, with a letter first, as in my-model",
        )
    path = folder / f"{name.replace('-', '_')}.py"
    text = (files(__package__) / f"template_{task}.py.txt").read_text(encoding="utf-8")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(Template(text).substitute(name=name, file=path.name))
    except FileExistsError as error:
        raise BadRequest(f"{path} is there already", fix="choose another name, or move that file away") from error
    except FileNotFoundError as error:
        raise BadRequest(f"no such folder: {folder}", fix="make it, or name another") from error
    return path
