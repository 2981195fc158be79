"""`transload history`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...models.errors import Exit
from . import options
from .output.render import finish


def command(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUNS]...",
            help="Folders of runs, or a folder that holds runs. Without any: those that the store knows of.",
        ),
    ] = None,
    *,
    batch: Annotated[int, typer.Option("--batch", min=1, metavar="SIZE", help="The batch size of latencies.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.html", help="Write one page that draws them, and opens offline."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option("--store", metavar="DIR", help="Take the runs that this store knows of."),
    ] = None,
    mlflow: options.Mlflow = None,
    experiment: options.Experiment = None,
    json: options.Json = False,
) -> None:
    """Show releases over time: drift, metric, latency, size and memory of each artifact, run by run.

    Folders that hold no finished run are skipped with a sentence. Times of unlike machines are never joined by a line.
    """
    from ..api import history
    from ..show.history_text import history_lines

    places = runs or []
    done = history(*places, store=store, mlflow=mlflow, experiment=experiment, batch=batch, out=out)
    written = ["", f"wrote {out}"] if out else []
    finish(done.document, [*history_lines(done.history, batch), *written], Exit.PASS, json=json)
