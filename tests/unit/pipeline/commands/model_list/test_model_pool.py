"""Several models in flight: one that fails, hangs or meets a bug does not keep the others, unless that is asked for."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from transload.models.errors import BadRequest, DiskFull, StepFailed
from transload.pipeline.commands.model_list.model_pool import ModelJob, ModelOutcome, ModelPool
from transload.pipeline.progress.progress import Progress
from transload.pipeline.result.failure_kinds import FailureKind
from transload.pipeline.result.list_records import ModelRow, RowState
from transload.pipeline.result.schema import Verdict
from transload.pipeline.workers.shared_workers import SharedWorkers
from transload.pipeline.workers.worker_slots import WorkerSlots

from .list_samples import row, target

Work = Callable[[Progress, SharedWorkers], ModelOutcome]


def passing(progress: Progress, workers: SharedWorkers) -> ModelOutcome:
    return ModelOutcome(Verdict.PASS, 0, "folder", None, (target(),), ())


def raising(error: Exception):
    def work(progress: Progress, workers: SharedWorkers) -> ModelOutcome:
        raise error

    return work


def do(
    folder: Path, works: dict[str, Work], *, fail_fast: bool = False, at_once: int = 1, slots: WorkerSlots | None = None
) -> dict[str, ModelRow]:
    rows: dict[str, ModelRow] = {}
    workers, progress = SharedWorkers(slots or WorkerSlots(1)), Progress(io.StringIO(), quiet=True)
    pool = ModelPool(folder, workers, progress, lambda row: rows.__setitem__(row.name, row), fail_fast=fail_fast)
    jobs = [ModelJob(row(name, state=RowState.NOT_STARTED), work) for name, work in works.items()]
    assert pool.do_all(jobs, at_once) is None
    return rows


def test_what_happens_to_one_model_is_in_its_row(tmp_path: Path) -> None:
    rows = do(tmp_path, {
        "bad": raising(BadRequest("no such file", fix="look")), "died": raising(StepFailed("died", fix="log")),
        "bug": raising(KeyError("oops")), "good": passing,
    })  # fmt: skip
    assert {name: (row.exit_code, row.verdict) for name, row in rows.items()} == {
        "bad": (2, Verdict.FAIL), "died": (4, Verdict.FAIL), "bug": (70, Verdict.FAIL), "good": (0, Verdict.PASS),
    }  # fmt: skip
    assert [rows[name].failures[0].kind for name in ("bad", "died", "bug")] == [
        FailureKind.INPUT, FailureKind.TOOL, FailureKind.BUG,
    ]  # fmt: skip
    assert "KeyError: 'oops'" in (tmp_path / "bug" / "logs" / "bug.txt").read_text()


def test_fail_fast_and_a_full_disk_leave_the_rest_not_started(tmp_path: Path) -> None:
    for error, fail_fast in (
        (BadRequest("no", fix="look"), True),
        (DiskFull("the disk is full", fix="free some"), False),
    ):
        rows = do(tmp_path, {"a": passing, "b": raising(error), "c": passing}, fail_fast=fail_fast)
        assert [rows[name].state for name in "abc"] == [RowState.DONE, RowState.DONE, RowState.NOT_STARTED]


@pytest.mark.parametrize(
    ("verdict", "state"), [(None, RowState.STOPPED), (Verdict.FAIL, RowState.STOPPED), (Verdict.PASS, RowState.DONE)]
)
def test_a_model_that_is_under_way_when_another_fails_is_stopped_unless_it_passes(
    tmp_path: Path, verdict: Verdict | None, state: RowState
) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def slow(progress: Progress, workers: SharedWorkers) -> ModelOutcome:
        workers.slots.on_stop(stopped.set)
        begun.set()
        assert stopped.wait(20)
        if verdict:  # the error is one of its targets'
            return ModelOutcome(verdict, verdict is Verdict.FAIL, "folder", None, (), ())
        raise StepFailed("the run was stopped", fix="again")

    def failing(progress: Progress, workers: SharedWorkers) -> ModelOutcome:
        assert begun.wait(20)
        raise BadRequest("no", fix="look")

    rows = do(tmp_path, {"slow": slow, "bad": failing, "late": passing}, fail_fast=True, at_once=2)
    assert rows["slow"].state is state
    assert (rows["bad"].state, rows["bad"].exit_code) == (RowState.DONE, 2)
    assert rows["late"].state is RowState.NOT_STARTED


def test_the_steps_of_all_models_are_stopped_once_however_many_end_after_that(tmp_path: Path) -> None:
    slots, begun, stopped, stops = WorkerSlots(1), threading.Barrier(4), threading.Event(), []

    def count() -> None:
        stops.append(1)
        stopped.set()

    def slow(progress: Progress, workers: SharedWorkers) -> ModelOutcome:
        begun.wait(20)
        assert stopped.wait(20)
        raise StepFailed("the run was stopped", fix="again")

    def failing(progress: Progress, workers: SharedWorkers) -> ModelOutcome:
        begun.wait(20)
        raise BadRequest("no", fix="look")

    slots.on_stop(count)
    works: dict[str, Work] = {"bad": failing, "a": slow, "b": slow, "c": slow}
    rows = do(tmp_path, works, fail_fast=True, at_once=4, slots=slots)
    assert [rows[name].state for name in "abc"] == [RowState.STOPPED] * 3
    assert len(stops) == 1
