"""`transload record`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ...models.errors import TransloadError
from ..options import shared_options as shared
from ..options.option import CommandOptions, Key, Option
from ..result.schema import Verdict
from .output.render import finish, print_lines

if TYPE_CHECKING:
    from ..commands.record import RecordResult


class RecordOptions(CommandOptions):
    """Send a finished run to MLflow: figures, report, and a model for each verified artifact.

    What MLflow has of the run already is not sent again. A run that passed gets a version of a registered model for
    each artifact, and --promote then moves an alias to them; another run gets neither,
    unless --force says so.
    """

    run: Annotated[Path | None, Option(metavar="[RUN]", help="A folder under runs/; without it, the newest one.")] = (
        None
    )
    mlflow: shared.MlflowUri = None
    experiment: shared.Experiment = None
    name: Annotated[
        str | None,
        Key("mlflow.model"),
        Option("--name", "NAME", "Registered models are called NAME-TARGET; without it by the model."),
    ] = None
    promote: shared.Promote = None
    force: Annotated[bool, Option("--force", help="Move the alias though the run did not pass; tags say so.")] = False
    json_: shared.Json = False


def record(options: RecordOptions) -> RecordResult:
    """Send the run. Raises TransloadError."""
    from ..commands.record import record as send
    from ..options.request import read_request
    from .report import RUNS, newest

    section = read_request(None, options.sections()).mlflow
    return send(options.run or newest(RUNS), section, force=options.force)


def command(options: RecordOptions) -> None:
    """Send a run to MLflow, and print its address there."""
    from ..commands.record import record_lines

    done = record(options)
    finish(done.document, record_lines(done), done.exit_code, json=options.json_)


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
