"""The processes of a list: what they are told, what comes back, and what happens where one dies."""

from __future__ import annotations

import io
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from transload.models.errors import BadRequest, StepFailed
from transload.pipeline.commands.list_driver import ListDriver
from transload.pipeline.commands.list_drivers import (
    DriverSetup,
    EndOrder,
    ListDriverHandle,
    ListDrivers,
    ModelOrder,
    StopOrder,
)
from transload.pipeline.context import LocalSettings
from transload.pipeline.model_list.model_pool import ModelOutcome
from transload.pipeline.progress import Progress
from transload.pipeline.result.schema import Verdict
from transload.pipeline.workers.shared_workers import SharedWorkers
from transload.pipeline.workers.worker_slots import WorkerSlots


@dataclass(frozen=True)
class Work:
    """A model that says its name, does as the name says, and passes."""

    name: str

    def __call__(self, progress: Progress, workers: SharedWorkers) -> ModelOutcome:
        progress.note(f"{self.name} is here", once="said once")
        with progress.stage("convert") as stage:
            stage.note = "done"
        if self.name == "refused":
            raise BadRequest("no such file", fix="name another")
        if self.name == "buggy":
            raise Unpicklable(lambda: None)
        if self.name == "unsendable":
            return ModelOutcome(Verdict.PASS, 0, self.name, None, (lambda: None,), ())  # type: ignore[arg-type]
        if self.name == "long":
            stopped = threading.Event()
            workers.slots.on_stop(stopped.set)
            assert stopped.wait(20)
        return ModelOutcome(Verdict.PASS, 0, self.name, None, (), ())


class Unpicklable(Exception):
    """A bug whose error cannot be sent."""


class FakeProcess:
    """A process that has ended once it is waited for."""

    def wait(self, _seconds: float) -> None:
        return None


@dataclass
class Pair:
    """A command and its process, which is a thread here."""

    handle: ListDriverHandle
    theirs: Connection
    ended: list[bool]
    thread: threading.Thread

    def do(self, name: str, number: int = 1, stream: io.StringIO | None = None) -> Any:
        """Return what became of a model."""
        progress = Progress(stream or io.StringIO()).of("net")
        reply = self.handle.do(ModelOrder(number, Work(name)), progress).result(20)
        return reply and reply.result


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    setup = DriverSetup(LocalSettings(store=tmp_path / "store"), None, "driver", 1, 4, tmp_path, quiet=False)
    connection, ended = Connection(theirs.detach()), []
    driver = ListDriver(connection, setup)
    thread = threading.Thread(target=lambda: ended.append(driver.serve()), daemon=True)
    thread.start()
    handle = ListDriverHandle(FakeProcess(), Connection(ours.detach()))  # type: ignore[arg-type]
    yield Pair(handle, connection, ended, thread)
    handle.send(EndOrder())
    thread.join(20)


def test_a_model_is_done_and_its_lines_come_back_with_its_name(pair: Pair) -> None:
    stream = io.StringIO()
    assert pair.do("good", stream=stream) == ModelOutcome(Verdict.PASS, 0, "good", None, (), ())
    note, stage = stream.getvalue().splitlines()
    assert note == "net  note: good is here"
    assert stage.startswith("net  convert")
    assert stage.endswith("done")


def test_a_sentence_that_is_said_once_is_said_once_for_all_processes(pair: Pair) -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    for number in (1, 2):
        pair.handle.do(ModelOrder(number, Work("good")), progress.of("net")).result(20)
    assert stream.getvalue().count("is here") == 1


def test_an_error_is_raised_where_the_command_waits_whether_it_can_be_pickled_or_not(pair: Pair) -> None:
    refused = pair.do("refused")
    assert isinstance(refused, BadRequest)
    assert (refused.what, refused.fix) == ("no such file", "name another")
    buggy = pair.do("buggy", 2)
    assert isinstance(buggy, RuntimeError)
    assert "Unpicklable" in str(buggy)
    assert "__call__" in str(buggy.__cause__)  # the traceback of the process
    assert "pickle" in str(pair.do("unsendable", 3))
    assert pair.do("good", 4).folder == "good"


def test_a_stop_ends_the_steps_of_all_models(pair: Pair) -> None:
    reply = pair.handle.do(ModelOrder(1, Work("long")), Progress(io.StringIO()))
    pair.handle.send(StopOrder())
    assert reply.result(20) is not None


def test_an_end_waits_for_what_is_under_way(pair: Pair) -> None:
    pair.handle.send(EndOrder())
    pair.thread.join(20)
    assert pair.ended == [True]


def test_a_process_ends_with_its_command(pair: Pair) -> None:
    with socket.socket(fileno=os.dup(pair.handle._connection.fileno())) as ours:
        ours.shutdown(socket.SHUT_RDWR)
    pair.thread.join(20)
    assert pair.ended == [False]


def test_a_model_whose_process_dies_is_done_by_another_one(pair: Pair, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    dead = ListDriverHandle(FakeProcess(), Connection(ours.detach()))  # type: ignore[arg-type]
    drivers = ListDrivers(tmp_path, LocalSettings(), None, 2, 4, quiet=True)
    drivers._drivers = [dead, pair.handle]
    threading.Timer(0.3, theirs.close).start()  # with the model under way
    do = drivers.work(Work("good"))
    outcome = do(Progress(io.StringIO()), SharedWorkers(WorkerSlots(1)))
    assert (outcome.folder, dead.is_gone) == ("good", True)
    assert do(Progress(io.StringIO()), SharedWorkers(WorkerSlots(1))).folder == "good"


def test_without_a_process_a_model_fails_with_one_sentence(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    drivers = ListDrivers(tmp_path, LocalSettings(), None, 1, 4, quiet=True)
    drivers._drivers = [ListDriverHandle(FakeProcess(), Connection(ours.detach()))]  # type: ignore[arg-type]
    with pytest.raises(StepFailed, match="2 processes of transload died over the model"):
        drivers.work(Work("good"))(Progress(io.StringIO()), SharedWorkers(WorkerSlots(1)))
