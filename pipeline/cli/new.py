"""`transload new NAME`: a recipe of the user's own, one file that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...models.zoo.template import Task, write_recipe
from .output.render import print_lines


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the recipe is called, as in pump-faults.")],
    task: Annotated[Task, typer.Option("--task", help="What the model does.")] = Task.CLASSIFICATION,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to put it in.")] = Path(),
) -> None:
    """Write a recipe of your own to start from.

    The file runs as it is, on data that a library carries; put your net and your data in.
    An existing file is not touched.
    """
    written = write_recipe(name, out, task)
    print_lines([f"wrote {written}", f"try it: transload run {written}"])
