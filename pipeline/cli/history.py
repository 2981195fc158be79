"""`transload history`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ...models.errors import BadRequest, Exit
from ..options import shared_options as shared
from ..options.option import CommandOptions, Option, Positional
from .output.render import finish

if TYPE_CHECKING:
    from ..commands.history import HistoryResult


class HistoryOptions(CommandOptions):
    """Show releases over time: drift, metric, latency, size and memory of each artifact, run by run.

    Folders that hold no finished run are skipped with a sentence. Times of unlike machines are never joined by a line.
    """

    runs: Annotated[
        tuple[str, ...],
        shared.texts(),
        Positional(starred=True),
        Option(
            metavar="[RUNS]...",
            several=True,
            help="Folders of runs, or a folder that holds runs. Without any: those that the store knows of.",
        ),
    ] = ()
    batch: Annotated[int, Option("--batch", "SIZE", "The batch size of latencies.", min=1)] = 1
    out: Annotated[Path | None, Option("--out", "FILE.html", "Write one page that draws them, and opens offline.")] = (
        None
    )
    store: Annotated[Path | None, Option("--store", "DIR", "Take the runs that this store knows of.")] = None
    mlflow: shared.MlflowUri = None
    experiment: shared.Experiment = None
    json_: shared.Json = False


def history(options: HistoryOptions) -> HistoryResult:
    """Read the runs in the order of time. Raises TransloadError."""
    from ..commands.history import history as read_history
    from ..plan.context import LocalSettings

    store = options.store
    if not options.runs and store is None and options.mlflow is None and options.experiment is None:
        store = LocalSettings().store
        if not store.is_dir():
            fix = "name folders under runs/, or runs/ itself; or --store, or --mlflow"
            raise BadRequest("no run is named", fix=fix)
    return read_history(
        list(map(Path, options.runs)), batch=options.batch, out=options.out, store=store, mlflow=options.mlflow,
        experiment=options.experiment,
    )  # fmt: skip


def command(options: HistoryOptions) -> None:
    """Print the runs, one after the other."""
    from ..show.history_text import history_lines

    done = history(options)
    written = ["", f"wrote {options.out}"] if options.out else []
    lines = [*history_lines(done.history, options.batch), *written]
    finish(done.document, lines, Exit.PASS, json=options.json_)
