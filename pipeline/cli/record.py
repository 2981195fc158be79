"""`transload record`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...models.errors import TransloadError
from ..result.schema import Verdict
from . import option_values, options
from .output.render import finish, print_lines

if TYPE_CHECKING:
    from ..commands.record import RecordResult


def command(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A folder under runs/; without it, the newest one.")
    ] = None,
    *,
    mlflow: options.Mlflow = None,
    experiment: options.Experiment = None,
    name: options.ModelName = None,
    promote: options.Promote = None,
    force: Annotated[
        bool, typer.Option("--force", help="Move the alias though the run did not pass; tags say so.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Send a finished run to MLflow: figures, report, and a model for each verified artifact.

    What MLflow has of the run already is not sent again. A run that passed gets a version of a registered model for
    each artifact, and --promote then moves an alias to them; another run gets neither,
    unless --force says so.
    """
    from ..commands.record import record, record_lines
    from ..request import read_request
    from .report import RUNS, newest

    section = read_request(None, {"mlflow": option_values.mlflow_options(mlflow, experiment, name, promote)}).mlflow
    done = record(run or newest(RUNS), section, force=force)
    finish(done.document, record_lines(done), done.exit_code, json=json)


def print_record(sent: RecordResult | TransloadError | None, verdict: Verdict, *, json: bool) -> None:
    """Print what became of a run's record in MLflow, if one was requested.
    Raises its error where the run passed, whose exit status would else say that all is well."""
    if isinstance(sent, TransloadError):
        if verdict is Verdict.PASS:
            raise sent
        print(f"error: {sent}", file=sys.stderr)
    elif sent and not json:
        from ..commands.record import record_lines

        print_lines(["", *record_lines(sent)])
