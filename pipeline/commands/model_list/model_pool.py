"""Several models in flight: as many as there are jobs, each with its own steps, by the same workers.

Nothing that happens to one model ends the others, but a full disk, which no other model would survive either.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from ....models.errors import DiskFull, TransloadError
from ....models.library_messages import first_line
from ...progress.progress import Progress
from ...result.failure_kinds import FailureKind
from ...result.list_records import BUG_STATUS, ModelRow, RowFailure, RowState, TargetRow
from ...result.schema import Verdict
from ...workers.shared_workers import SharedWorkers
from .list_row import failure_of_error

_REPORT_BUG = "report it with the traceback in the log"
_BUG_LOG = "logs/bug.txt"


@dataclass(frozen=True)
class ModelOutcome:
    """What a command made of one model. `folder` and `report` are relative to the folder of the list."""

    verdict: Verdict
    exit_code: int
    folder: str | None
    report: str | None
    targets: tuple[TargetRow, ...]
    failures: tuple[RowFailure, ...]


@dataclass(frozen=True)
class ModelJob:
    """A row that is not done yet, and what does it."""

    row: ModelRow
    work: Callable[[Progress, SharedWorkers], ModelOutcome]


class ModelPool:
    """Does the jobs of a list. `record` gets each row as soon as it has come to an end."""

    def __init__(
        self, folder: Path, workers: SharedWorkers, progress: Progress, record: Callable[[ModelRow], None], *,
        fail_fast: bool,
    ) -> None:  # fmt: skip
        self._folder = folder
        self._workers = workers
        self._progress = progress
        self._record = record
        self._fail_fast = fail_fast
        self._stopping = threading.Event()
        self._has_stopped = False

    def do_all(self, jobs: Sequence[ModelJob], at_once: int) -> KeyboardInterrupt | None:
        """Do the jobs, `at_once` at a time. Return the interrupt that stopped them, if one did."""
        width = max((len(job.row.name) for job in jobs), default=0)
        with ThreadPoolExecutor(at_once) as pool, self._progress.stage("models", len(jobs)) as stage:
            pending = {pool.submit(self._do, job, self._progress.of(job.row.name, width)): job for job in jobs}
            passed = 0
            interrupt: KeyboardInterrupt | None = None
            while pending:
                try:
                    done = wait(pending, return_when=FIRST_COMPLETED).done
                except KeyboardInterrupt as stop:
                    if interrupt:  # the second one: the user does not want to wait for the workers to end
                        raise
                    interrupt = stop
                    self._stop(pending)
                    continue
                for future in done:
                    row = _row_of(future, pending.pop(future))
                    self._record(row)
                    self._progress.step(row.name)
                    passed += row.verdict is Verdict.PASS
                    if self._stopping.is_set():
                        self._stop(pending)
            stage.note = f"{passed} of {len(jobs)} pass"
        return interrupt

    def _ends_all(self, row: ModelRow) -> bool:
        return _has_full_disk(row) or (self._fail_fast and row.failed)

    def _stop(self, pending: dict[Future[ModelRow], ModelJob]) -> None:
        self._stopping.set()
        for future in pending:
            future.cancel()
        if not self._has_stopped:  # once: models that begin later are stopped as well, and a stop asks every node
            self._has_stopped = True
            self._workers.stop()

    def _do(self, job: ModelJob, progress: Progress) -> ModelRow:
        """Do one model, whatever happens to it."""
        if self._stopping.is_set():
            return job.row
        started = time.monotonic()
        try:
            outcome = job.work(progress, self._workers)
        except TransloadError as error:
            if self._stopping.is_set() and not isinstance(error, DiskFull):
                return replace(job.row, state=RowState.STOPPED, seconds=_since(started))
            progress.note(error.what)
            folder, failures = self._logs_of(job.row), (failure_of_error(error),)
            outcome = ModelOutcome(Verdict.FAIL, int(error.exit_code), folder, None, (), failures)
        except Exception as error:  # noqa: BLE001  (one model's bug must not lose the others)
            if self._stopping.is_set():
                return replace(job.row, state=RowState.STOPPED, seconds=_since(started))
            outcome = self._bug(job.row, error, progress)
        if self._stopping.is_set() and outcome.verdict is not Verdict.PASS and not _has_full_disk(outcome):
            # Its steps were ended, and that may be all that is wrong with it.
            return replace(job.row, state=RowState.STOPPED, seconds=_since(started))
        row = replace(job.row, state=RowState.DONE, seconds=_since(started), **vars(outcome))
        if self._ends_all(row):
            self._stopping.set()  # here, as the next model starts in this thread
        return row

    def _logs_of(self, row: ModelRow) -> str | None:
        """Return the folder of a model that failed early, where there are logs to read in it."""
        folder = self._folder / row.name
        return row.name if any(folder.glob("logs/*")) else None

    def _bug(self, row: ModelRow, error: Exception, progress: Progress) -> ModelOutcome:
        log = self._folder / row.name / _BUG_LOG
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(traceback.format_exception(error)))
        message = f"a bug in transload: {type(error).__name__}: {first_line(error)}"
        progress.note(message)
        failure = RowFailure(FailureKind.BUG, "load the model", message, _REPORT_BUG, log=_BUG_LOG)
        return ModelOutcome(Verdict.FAIL, BUG_STATUS, row.name, None, (), (failure,))


def _has_full_disk(result: ModelRow | ModelOutcome) -> bool:
    return any(failure.kind is FailureKind.DISK for failure in result.failures)


def _row_of(future: Future[ModelRow], job: ModelJob) -> ModelRow:
    return job.row if future.cancelled() else future.result()


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)
