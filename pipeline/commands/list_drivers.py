"""The processes that carry the models of a list over a large cluster: one alone can order only so many steps a second.

Each is a driver of Ray with its share of the cores. All of them share the node workers that the command has started.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count as numbers
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from ...models.errors import StepFailed, TransloadError
from ..cluster.executor_choice import ADDRESS_VARIABLE, CLIENT_SCHEME
from ..context import LocalSettings
from ..model_list.model_pool import ModelOutcome
from ..progress import Progress
from ..workers.engine import SCRATCH
from ..workers.shared_workers import SharedWorkers

_END_S = 60.0  # that a process has to end what it holds
_MOST_LOST = 2  # processes that may die over one model
_FIX = "look at the memory of this machine; the same command with --resume goes on"
Work: TypeAlias = Callable[[Progress, SharedWorkers], ModelOutcome]  # of a model; it can be pickled


@dataclass(frozen=True)
class DriverSetup:
    """The settings of a process, which are sent to it first."""

    local: LocalSettings  # its `jobs` are the workers on this machine that this process may start
    address: str | None  # of the cluster, as --executor names it
    driver: str  # the name of the command's first process, whose node workers the others use
    parts: int  # the number of processes that share the cores of the cluster
    at_once: int  # the number of models that it carries side by side
    folder: Path  # for its scratch files
    quiet: bool


@dataclass(frozen=True)
class ModelOrder:
    """An order to do a model. The number is in all that is sent about it."""

    number: int
    work: Work


@dataclass(frozen=True)
class StopOrder:
    """An order to end all steps, now."""


@dataclass(frozen=True)
class EndOrder:
    """An order to end, once the models that are under way are done."""


@dataclass(frozen=True)
class DriverFailure:
    """The reason why a process does no model: it cannot connect to the cluster."""

    error: TransloadError


@dataclass(frozen=True)
class ModelLine:
    """A line of a model's progress."""

    number: int
    text: str


@dataclass(frozen=True)
class ModelNote:
    """A sentence for the user; see Progress.note."""

    number: int
    text: str
    once: str


@dataclass(frozen=True)
class ModelReply:
    """The outcome of a model, or the error that was raised over it."""

    number: int
    result: ModelOutcome | BaseException


class ListDrivers:
    """The processes of a list; they live until the end of the block. Thread-safe."""

    def __init__(
        self, folder: Path, local: LocalSettings, address: str | None, count: int, at_once: int, *, quiet: bool
    ) -> None:
        """`count` processes with `at_once` models each, for a command that works in `folder`."""
        self._folder, self._local, self._address = folder, local, address
        self._count, self._at_once, self._quiet = count, at_once, quiet
        self._drivers: list[ListDriverHandle] = []
        self._numbers = numbers(1)
        self._choosing = threading.Lock()

    def __enter__(self) -> Self:
        """Start the processes: all of them, or none."""
        from ..cluster.ray_cluster import connect

        cluster = connect(self._address)
        environment = {**os.environ}
        # Without an address the cluster may be one that this process has started: its processes have to be told which.
        # Behind a client server the cluster's own addresses may not be reached.
        if self._address is None and not environment.get(ADDRESS_VARIABLE, "").startswith(CLIENT_SCHEME):
            environment[ADDRESS_VARIABLE] = cluster.head
        local = replace(self._local, jobs=max(1, self._local.jobs // self._count))
        try:
            for number in range(self._count):
                folder = self._folder / SCRATCH / f"driver-{number}"
                folder.mkdir(parents=True, exist_ok=True)
                driver = start_driver(environment)
                self._drivers.append(driver)
                driver.send(
                    DriverSetup(local, self._address, cluster.driver, self._count, self._at_once, folder, self._quiet)
                )
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes; at once, where the block has raised."""
        if kind is not None:
            self._kill()
            return
        for driver in self._drivers:
            driver.send(EndOrder())
        end_s = time.monotonic() + _END_S
        for driver in self._drivers:
            driver.wait(end_s - time.monotonic())

    def _kill(self) -> None:
        for driver in self._drivers:
            driver.kill()

    def work(self, work: Work) -> Work:
        """Return the work of having a model done by one of the processes."""
        return partial(self._do, work)

    def stop(self) -> None:
        """End the steps of all models, now. Does not wait for them."""
        for driver in self._drivers:
            driver.send(StopOrder())

    def _do(self, work: Work, progress: Progress, _workers: SharedWorkers) -> ModelOutcome:
        lost = 0
        while lost < _MOST_LOST:
            driver, reply = self._hand_out(work, progress)
            answer = reply.result()
            if answer is None:
                if driver.failure is None:  # else it has not begun the model
                    lost += 1
                    progress.note("the process that did it has died")
            elif isinstance(answer.result, BaseException):
                raise answer.result
            else:
                return answer.result
        raise StepFailed(f"{lost} processes of transload died over the model", fix=_FIX)

    def _hand_out(self, work: Work, progress: Progress) -> tuple[ListDriverHandle, Future[ModelReply | None]]:
        """Give a model to the process that has the fewest. Raises TransloadError where all processes are gone."""
        with self._choosing:
            drivers = [driver for driver in self._drivers if not driver.is_gone]
            if drivers:
                driver = min(drivers, key=lambda driver: driver.models)
                return driver, driver.do(ModelOrder(next(self._numbers), work), progress)
        for driver in self._drivers:
            if driver.failure:
                raise driver.failure
        raise StepFailed(f"all {len(self._drivers)} processes of the list have died", fix=_FIX)


def start_driver(environment: Mapping[str, str]) -> ListDriverHandle:
    """Start a process, which waits for its DriverSetup."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "transload.pipeline.commands.list_driver", str(theirs.fileno())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment, pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C reaches us alone
        )  # fmt: skip
        return ListDriverHandle(process, Connection(ours.detach()))


class ListDriverHandle:
    """A process, as the command sees it. Thread-safe."""

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection) -> None:
        self._process = process
        self._connection = connection
        self._sending = threading.Lock()
        self._waiting: dict[int, tuple[Future[ModelReply | None], Progress]] = {}
        self.is_gone = False
        self.failure: TransloadError | None = None  # the reason why it ended before its first model
        threading.Thread(target=self._receive, name="list-driver", daemon=True).start()

    @property
    def models(self) -> int:
        """How many models are under way here."""
        return len(self._waiting)

    def do(self, order: ModelOrder, progress: Progress) -> Future[ModelReply | None]:
        """Send a model; the reply is None where the process dies first."""
        future: Future[ModelReply | None] = Future()
        self._waiting[order.number] = future, progress
        self.send(order)
        if self.is_gone:
            self._lose_all()
        return future

    def send(self, message: DriverSetup | ModelOrder | StopOrder | EndOrder) -> None:
        """Send a message, unless the process is gone."""
        with self._sending, suppress(OSError):
            self._connection.send(message)

    def wait(self, seconds: float) -> None:
        """Wait for so long until the process has ended; kill it after that."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()

    def _receive(self) -> None:
        try:
            with suppress(EOFError, OSError):
                while True:
                    self._take(self._connection.recv())
        finally:  # whatever was raised: those that wait must not wait for ever
            self.is_gone = True
            self._lose_all()
            with self._sending:
                self._connection.close()  # the process reads the end of the socket, and ends if it still runs

    def _take(self, message: DriverFailure | ModelLine | ModelNote | ModelReply) -> None:
        if isinstance(message, DriverFailure):
            self.failure = message.error
        elif isinstance(message, ModelReply):
            self._waiting.pop(message.number)[0].set_result(message)
        else:
            progress = self._waiting[message.number][1]
            with suppress(OSError, ValueError):  # the terminal is gone; what the command says next meets that, too
                if isinstance(message, ModelLine):
                    progress.line(message.text)
                else:
                    progress.note(message.text, once=message.once)

    def _lose_all(self) -> None:
        while self._waiting:
            with suppress(KeyError):
                self._waiting.popitem()[1][0].set_result(None)
