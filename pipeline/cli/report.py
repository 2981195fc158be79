"""`transload report`: the report of a finished run, made again from its run.json."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ...models.errors import BadRequest
from ...models.signature import Array
from ..bench.latency_rows import read_series
from ..result.run_folder import links
from ..result.schema import RunResult, read_result
from .options import Json
from .render import print_lines

RUNS = Path("runs")


class Form(StrEnum):
    """What to make."""

    TERMINAL = "terminal"
    HTML = "html"
    MD = "md"


def command(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A folder under runs/; without it, the newest one.")
    ] = None,
    form: Annotated[
        Form, typer.Option("--format", help="terminal prints; html and md write the run's report.html or report.md.")
    ] = Form.TERMINAL,
    json: Json = False,
) -> None:
    """Write the report of a finished run again.

    From run.json and the raw samples beside it: nothing is measured, and nothing of the numbers changes.
    """
    folder = run or newest(RUNS)
    result = read_result(folder / "run.json")
    if json or form is Form.TERMINAL:
        print_run(folder, result, json=json)
    else:
        print_lines([f"wrote {_write(folder, result, form)}"])


def newest(runs: Path) -> Path:
    """Return the newest finished run: a run's name begins with its time. Raises BadRequest where there is none."""
    folders = sorted(path.parent for path in runs.glob("*/run.json"))
    if not folders:
        raise BadRequest(
            f"no finished run lies under {runs}/", fix="name the folder of a run, or do one: transload run"
        )
    return folders[-1]


def print_run(folder: Path, result: RunResult, *, json: bool) -> None:
    """Print the result of a run on stdout: the document alone, or the table with the verdict last."""
    from rich.console import Console

    from ..report.terminal import print_result

    if json:
        sys.stdout.write((folder / "run.json").read_text())
        return
    logs, _ = links(folder, result)
    page = folder / "report.html"
    print_result(result, Console(), logs=logs, report=str(page) if page.is_file() else None)


def _write(folder: Path, result: RunResult, form: Form) -> Path:
    from ..report.html_page import write_html
    from ..report.markdown import write_markdown

    logs, repeat = links(folder, result)
    path = folder / f"report.{form}"
    if form is Form.HTML:
        write_html(result, _samples(folder), path, logs=logs, repeat=repeat)
    else:
        write_markdown(result, path, logs=logs)
    return path


def _samples(folder: Path) -> dict[tuple[str, str, int], Array]:
    """All samples of each row, in order; none where the run did not measure."""
    path = folder / "latency.npz"
    series = read_series(path) if path.is_file() else []
    return {(*entry.pair, entry.batch): entry.samples_s for entry in series}
