"""`transload new NAME`: a recipe of the user's own, one file that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ...models.zoo.template import Task, write_recipe
from ..options.option import CommandOptions, Option
from .output.render import print_lines


class NewOptions(CommandOptions):
    """Write a recipe of your own to start from.

    The file runs as it is, on data that a library carries; put your net and your data in.
    An existing file is not touched.
    """

    name: Annotated[str, Option(metavar="NAME", help="What the recipe is called, as in pump-faults.")]
    task: Annotated[Task, Option("--task", help="What the model does.")] = Task.CLASSIFICATION
    out: Annotated[Path, Option("--out", "DIR", "The folder to put it in.")] = Path()


def command(options: NewOptions) -> None:
    """Write the recipe, and print how to try it."""
    written = write_recipe(options.name, options.out, options.task)
    print_lines([f"wrote {written}", f"try it: transload run {written}"])
