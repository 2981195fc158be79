"""The processes of a list: what they are told, what comes back, and what happens where one dies."""

from __future__ import annotations

import io
import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from transload.models.errors import BadRequest, StepFailed
from transload.pipeline.commands import list_driver, list_drivers
from transload.pipeline.commands.list_driver import ListDriver
from transload.pipeline.commands.list_drivers import (
    DriverFailure,
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

    def __init__(self) -> None:
        self.killed = False

    def wait(self, _seconds: float | None = None) -> None:
        return None

    def kill(self) -> None:
        self.killed = True


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


def test_a_process_ends_without_a_traceback_where_its_command_has_gone_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    monkeypatch.setattr(sys, "argv", ["list_driver", str(theirs.detach())])
    assert list_driver.main() == 1


def test_a_model_whose_process_dies_is_done_by_another_one(pair: Pair, tmp_path: Path) -> None:
    dead, theirs, _ = new_handle()
    drivers = drivers_of(tmp_path, dead, pair.handle)
    threading.Timer(0.3, theirs.close).start()  # with the model under way
    stream = io.StringIO()
    assert (carry(drivers, stream=stream).folder, dead.is_gone) == ("good", True)
    assert stream.getvalue().startswith("net  note: the process that did it has died\n")
    assert carry(drivers).folder == "good"


def new_handle() -> tuple[ListDriverHandle, Connection, FakeProcess]:
    """Return a handle, the other end of its socket, and the process that is not there."""
    ours, theirs = socket.socketpair()
    process = FakeProcess()
    return ListDriverHandle(process, Connection(ours.detach())), Connection(theirs.detach()), process  # type: ignore[arg-type]


def drivers_of(folder: Path, *handles: ListDriverHandle) -> ListDrivers:
    drivers = ListDrivers(folder, LocalSettings(), None, len(handles), 4, quiet=True)
    drivers._drivers = [*handles]
    return drivers


def carry(drivers: ListDrivers, name: str = "good", stream: io.StringIO | None = None) -> ModelOutcome:
    progress = Progress(stream or io.StringIO()).of("net")
    return drivers.work(Work(name))(progress, SharedWorkers(WorkerSlots(1)))


def test_without_a_process_a_model_fails_with_one_sentence(tmp_path: Path) -> None:
    handle, theirs, _ = new_handle()
    theirs.close()
    drivers = drivers_of(tmp_path, handle)
    for _ in range(2):  # that it is gone may be known before the model or not
        with pytest.raises(StepFailed, match="all 1 processes of the list have died"):
            carry(drivers)


def test_a_model_over_which_two_processes_die_is_given_to_no_third_one(tmp_path: Path) -> None:
    ends = [new_handle() for _ in range(3)]
    drivers = drivers_of(tmp_path, *(handle for handle, _, _ in ends))

    def die(theirs: Connection) -> None:
        theirs.recv()
        theirs.close()

    threads = [threading.Thread(target=die, args=(theirs,)) for _, theirs, _ in ends[:2]]
    for thread in threads:
        thread.start()
    with pytest.raises(StepFailed, match="2 processes of transload died over the model"):
        carry(drivers)
    assert not ends[2][0].is_gone
    ends[2][1].close()


def test_a_process_that_cannot_connect_costs_a_model_nothing(pair: Pair, tmp_path: Path) -> None:
    ends = [new_handle() for _ in range(3)]
    drivers = drivers_of(tmp_path, *(handle for handle, _, _ in ends), pair.handle)

    def refuse(theirs: Connection) -> None:
        theirs.recv()
        theirs.send(DriverFailure(BadRequest("the cluster does not answer", fix="check it")))
        theirs.close()

    for _, theirs, _ in ends:
        threading.Thread(target=refuse, args=(theirs,), daemon=True).start()
    assert carry(drivers).folder == "good"
    pair.handle.is_gone = True
    with pytest.raises(BadRequest, match="the cluster does not answer"):
        carry(drivers)
    pair.handle.is_gone = False


def test_a_message_that_cannot_be_read_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _arguments: shown.set())
    handle, theirs, _ = new_handle()
    reply = handle.do(ModelOrder(1, Work("good")), Progress(io.StringIO()))
    theirs.send_bytes(b"no pickle")
    assert reply.result(20) is None
    assert shown.wait(20)
    assert handle.is_gone
    with pytest.raises(EOFError):
        while True:
            theirs.recv()  # a process that reads this ends


def test_a_terminal_that_is_gone_does_not_end_the_models(pair: Pair) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    assert pair.do("good", stream=Gone()).folder == "good"
    assert not pair.handle.is_gone


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that this process is connected to; nothing listens at its address."""
    facts = SimpleNamespace(driver="driver", head="127.0.0.1:9")
    monkeypatch.setattr("transload.pipeline.cluster.ray_cluster.connect", lambda _address: facts)


@pytest.mark.usefixtures("cluster")
def test_processes_that_were_started_end_where_one_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, theirs, process = new_handle()
    handles = iter([handle])

    def start(_environment: object) -> ListDriverHandle:
        if started := next(handles, None):
            return started
        raise OSError("no more processes")

    monkeypatch.setattr(list_drivers, "start_driver", start)
    with pytest.raises(OSError, match="no more"), ListDrivers(tmp_path, LocalSettings(), None, 2, 4, quiet=True):
        pass
    assert process.killed
    theirs.close()


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("variable", "expected"),
    [("", "127.0.0.1:9"), ("auto", "127.0.0.1:9"), ("ray://head:10001", "ray://head:10001")],
)
def test_processes_connect_as_the_command_does(
    variable: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, theirs, process = new_handle()
    environments: list[Mapping[str, str]] = []

    def start(environment: Mapping[str, str]) -> ListDriverHandle:
        environments.append(environment)
        return handle

    monkeypatch.setenv("RAY_ADDRESS", variable)
    monkeypatch.setattr(list_drivers, "start_driver", start)
    with ListDrivers(tmp_path, LocalSettings(jobs=8), None, 1, 4, quiet=True):
        assert theirs.recv().address is None
    assert [environment["RAY_ADDRESS"] for environment in environments] == [expected]
    assert isinstance(theirs.recv(), EndOrder)
    assert not process.killed
    theirs.close()


@pytest.mark.usefixtures("cluster")
def test_processes_share_the_workers_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for count, jobs in ((3, 2), (16, 1)):
        ends = [new_handle() for _ in range(count)]
        handles = iter([handle for handle, _, _ in ends])
        monkeypatch.setattr(list_drivers, "start_driver", lambda _environment, handles=handles: next(handles))
        with ListDrivers(tmp_path, LocalSettings(jobs=8), None, count, 4, quiet=True):
            assert [theirs.recv().local.jobs for _, theirs, _ in ends] == [jobs] * count
        for _, theirs, _ in ends:
            theirs.close()


@pytest.mark.usefixtures("cluster")
def test_real_processes_that_cannot_connect_end_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with (
        ListDrivers(tmp_path, LocalSettings(), None, 1, 4, quiet=True) as drivers,
        pytest.raises(BadRequest, match=r"needs ray|does not answer"),
    ):
        carry(drivers)
    assert capfd.readouterr().err == ""
