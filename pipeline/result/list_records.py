"""The record of a list of models: models.json. Every page and table of the list is made from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from ...models.errors import BadRequest, Exit
from ...models.untrusted_files import read_plain
from .failure_kinds import FailureKind
from .schema import Status, Verdict

BUG_STATUS = 70  # of docs/exit-codes.md
_WORST_FIRST = (BUG_STATUS, Exit.USAGE, Exit.TOOLCHAIN, Exit.FAIL, Exit.INCONCLUSIVE, Exit.PASS)


class ListCommand(StrEnum):
    """What was done with each model."""

    CONVERT = "convert"
    VALIDATE = "validate"
    RUN = "run"


class RowState(StrEnum):
    """How far a model has come."""

    DONE = "done"
    STOPPED = "stopped"
    NOT_STARTED = "not started"


@dataclass(frozen=True)
class TargetRow:
    """A target of a model, or a copy in a runtime. Paths are relative to the model's folder."""

    target: str
    status: Status
    runtime: str | None  # None: of `convert`, where the format's own runtime answers
    route: tuple[str, ...]
    sqnr_db: float | None  # the least of all probes; null where nothing differs, or nothing answered
    max_abs: float | None
    note: str  # one sentence: how it was verified, or why it was not
    path: str | None = None
    log: str | None = None


@dataclass(frozen=True)
class RowFailure:
    """Why a model, or one of its targets, failed. Paths are relative to the model's folder."""

    kind: FailureKind
    step: str
    message: str
    fix: str
    target: str | None = None  # null: the model as a whole
    operator: str | None = None  # at which it fails, where that was found
    log: str | None = None
    script: str | None = None  # that repeats it at its smallest
    rule: str | None = None  # the release rule that is not kept; null: it is no rule's


@dataclass(frozen=True)
class ModelRow:
    """A model of the list, and what became of it."""

    name: str
    source: str
    device: str | None
    state: RowState
    request: str  # the digest of everything that was requested of it
    verdict: Verdict | None = None  # null: it is not done
    exit_code: int | None = None
    seconds: float = 0.0
    folder: str | None = None  # relative to that of the list
    report: str | None = None  # likewise
    targets: tuple[TargetRow, ...] = ()
    failures: tuple[RowFailure, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether it is done and has failed; what is inconclusive has not."""
        return self.state is RowState.DONE and self.verdict is Verdict.FAIL


@dataclass(frozen=True)
class FailurePlace:
    """A model that failed for a cause, and its target, log and script; paths are relative to the list's folder."""

    model: str
    target: str | None
    log: str | None
    script: str | None


@dataclass(frozen=True)
class FailureCause:
    """One cause of failures, with every place where it was met."""

    kind: FailureKind
    step: str
    operator: str | None
    message: str  # of the first place
    fix: str
    models: int
    places: tuple[FailurePlace, ...]


@dataclass(frozen=True)
class ListResult:
    """The results of a list of models: models.json, schema 1."""

    schema: Literal[1]
    transload_version: str
    command: ListCommand
    verdict: Verdict
    exit_code: int
    started_at: str
    seconds: float
    models: tuple[ModelRow, ...]
    causes: tuple[FailureCause, ...]

    @property
    def left(self) -> tuple[ModelRow, ...]:
        """The models that are not done."""
        return tuple(row for row in self.models if row.state is not RowState.DONE)


def decide_list(rows: Iterable[ModelRow]) -> tuple[Verdict, int]:
    """Return the worst verdict of a list and its exit status: a bug, then what could not be taken, no route left, wrong
    answers, too little evidence. What is not done is no evidence."""
    kept = tuple(rows)
    done = [row for row in kept if row.exit_code is not None]
    worst = min((row.exit_code or 0 for row in done), key=_WORST_FIRST.index, default=int(Exit.INCONCLUSIVE))
    if worst == Exit.PASS and len(done) < len(kept):
        worst = int(Exit.INCONCLUSIVE)
    return {0: Verdict.PASS, 3: Verdict.INCONCLUSIVE}.get(worst, Verdict.FAIL), int(worst)


@cache
def _adapter_of(record: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(record)


def list_json(result: ListResult) -> bytes:
    """Return models.json."""
    return _adapter_of(ListResult).dump_json(result, indent=1) + b"\n"


def model_json(row: ModelRow) -> bytes:
    """Return the record of one model, model.json."""
    return _adapter_of(ModelRow).dump_json(row, indent=1) + b"\n"


def read_model_row(path: Path) -> ModelRow | None:
    """Return the record of a model, or None where there is none, or one of another version of transload."""
    try:
        row: ModelRow = _adapter_of(ModelRow).validate_json(read_plain(path))
    except (OSError, BadRequest, ValidationError):
        return None
    return row
