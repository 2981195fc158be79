"""The command `record`, and that part of `run`: a finished run goes to MLflow."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import __version__
from ...models.errors import BadRequest, Exit, TransloadError
from ..extras.tracking.run_record import FinishedFolder, RecordedRun, record_run
from ..extras.tracking.tracking_server import connect, experiment_of, public_address
from ..options.request import MlflowSection
from ..result.compare.run_files import read_run
from ..result.run_folder import slug_of
from ..result.schema import SCHEMA, RunResult, Verdict
from ..show.card.card_records import read_card

_TIME_LETTERS = len("20260101-000000-")  # that a run's id begins with


@dataclass(frozen=True)
class RecordResult:
    """A run that MLflow has, and whether what was requested beside that was done."""

    record: RecordedRun
    verdict: Verdict
    promote: str | None
    run_status: int  # exit status of the run
    forced: bool = False  # the alias moved although the run did not pass

    @property
    def exit_code(self) -> int:
        """0, or that of the run where an alias should have moved to it and its verdict forbids that."""
        is_kept = self.promote and self.verdict is not Verdict.PASS and not self.forced
        return self.run_status if is_kept else Exit.PASS

    @property
    def document(self) -> dict[str, Any]:
        """What --json prints."""
        record = self.record
        models = [
            {
                "artifact": model.artifact, "model_id": model.model_id, "registered": model.registered,
                "version": model.version, "alias": model.alias, "uri": model.uri,
            }
            for model in record.models
        ]  # fmt: skip
        return {
            "schema": SCHEMA, "transload_version": __version__, "verdict": str(self.verdict),
            "forced": self.forced, "address": record.address, "experiment": record.experiment, "run": record.run_id,
            "page": record.page, "models": models, "notes": list(record.notes),
        }  # fmt: skip


def record(folder: Path, section: MlflowSection, *, force: bool = False) -> RecordResult:
    """Send the finished run in a folder to MLflow. `force`: the alias moves whatever the verdict.
    Raises BadRequest where that cannot be done; nothing of it then stays there."""
    if force and section.promote is None:
        raise BadRequest("--force moves an alias, and none is named", fix="name it, as in --promote champion")
    if section.uri is None:
        raise BadRequest("no address of MLflow is named", fix="give --mlflow http://HOST:PORT, or --mlflow env")
    return send_run(folder, read_run(folder), section, force=force)


def check_server(section: MlflowSection) -> None:
    """Raise BadRequest where the server of a record does not answer or refuses, before a run takes its time."""
    if section.uri is not None:
        with connect(section.uri):
            pass


def send_run(folder: Path, result: RunResult, section: MlflowSection, *, force: bool = False) -> RecordResult:
    """Send a finished run to MLflow. Raises BadRequest with the command that sends it again."""
    model = section.model or _model_of(folder, result)
    experiment = section.experiment or experiment_of(os.environ) or model
    try:
        with connect(str(section.uri)) as server:
            finished = FinishedFolder(folder, result, model)
            sent = record_run(server, finished, experiment=experiment, promote=section.promote, force=force)
    except TransloadError as error:
        fix = f"{error.fix}; then `{_again(folder, section)}{' --force' * force}` sends the run, which is whole"
        raise type(error)(error.what, fix=fix) from error
    is_forced = any(model.alias for model in sent.models) and result.verdict is not Verdict.PASS
    return RecordResult(sent, result.verdict, section.promote, result.exit_code, is_forced)


def record_lines(done: RecordResult) -> list[str]:
    """Lines for people: where the run is, its models, and why there are no versions, if so."""
    sent = done.record
    lines = [f"MLflow: {sent.page}"]
    lines += [f"  {model.artifact}: {model.uri}" for model in sent.models]
    lines += [f"  {note}" for note in sent.notes]
    if done.forced:
        lines.append(f"  {done.promote} was moved by --force: the verdict of the run is {done.verdict}")
    elif done.verdict is not Verdict.PASS:
        moved = f", and {done.promote} stays where it is" if done.promote else ""
        lines.append(f"  nothing is registered{moved}: the verdict of the run is {done.verdict}")
    return lines


def _model_of(folder: Path, result: RunResult) -> str:
    """Return the name of a run's model: by the card of an artifact, else as its folder is called."""
    for row in result.artifacts:
        card = read_card((folder / row.path).parent) if row.path else None
        if card is not None:
            return slug_of(Path(card.name.removeprefix("zoo:")).stem)
    return result.id[_TIME_LETTERS:] or result.id


def _again(folder: Path, section: MlflowSection) -> str:
    """Return the command that sends a run again, without the user and the password of an address."""
    options = {
        "--mlflow": public_address(section.uri or ""), "--experiment": section.experiment, "--name": section.model,
        "--promote": section.promote,
    }  # fmt: skip
    words = [word for option, value in options.items() if value for word in (option, value)]
    return shlex.join(["transload", "record", str(folder), *words])
