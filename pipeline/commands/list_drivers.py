"""The processes that carry the models of a list over a large cluster: one alone can order only so many steps a second.

Each is a driver of Ray with its share of the cores. All of them share the node workers that the command has started.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count as numbers
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from ...models.errors import StepFailed
from ..context import LocalSettings
from ..model_list.model_pool import ModelOutcome
from ..progress import Progress
from ..workers.engine import SCRATCH
from ..workers.shared_workers import SharedWorkers

_END_S = 60.0  # that a process has to end what it holds
_MOST_LOST = 2  # processes that may die over one model
_ADDRESS_VARIABLE = "RAY_ADDRESS"
Work: TypeAlias = Callable[[Progress, SharedWorkers], ModelOutcome]  # it is pickled


@dataclass(frozen=True)
class DriverSetup:
    """What a process is told first."""

    local: LocalSettings
    address: str | None  # of the cluster, as --executor names it
    driver: str  # whose node workers it shares
    parts: int  # processes that share the cores
    at_once: int  # models
    folder: Path  # for its scratch files
    quiet: bool


@dataclass(frozen=True)
class ModelOrder:
    """A model that a process is to do."""

    number: int
    work: Work


@dataclass(frozen=True)
class StopOrder:
    """The process is to end all its steps, now."""


@dataclass(frozen=True)
class EndOrder:
    """There is no further model."""


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
    """What became of a model, or what was raised over it."""

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
        """Start the processes."""
        from ..cluster.ray_cluster import connect

        cluster = connect(self._address)
        environment = {**os.environ}
        if self._address is None:  # this machine's cluster may be one that this process has started
            environment[_ADDRESS_VARIABLE] = cluster.head
        for number in range(self._count):
            folder = self._folder / SCRATCH / f"driver-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            setup = DriverSetup(
                self._local, self._address, cluster.driver, self._count, self._at_once, folder, self._quiet
            )
            self._drivers.append(start_driver(setup, environment))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes; at once, where the block has raised."""
        for driver in self._drivers:
            driver.end(None if kind is None else 0.0)
        for driver in self._drivers:
            driver.end(_END_S)

    def work(self, work: Work) -> Work:
        """Return what has a model done by one of the processes."""
        return partial(self._do, work)

    def stop(self) -> None:
        """End the steps of all models, now. Does not wait for them."""
        for driver in self._drivers:
            driver.send(StopOrder())

    def _do(self, work: Work, progress: Progress, _workers: SharedWorkers) -> ModelOutcome:
        for _ in range(_MOST_LOST):
            with self._choosing:
                driver = min(self._drivers, key=lambda driver: (driver.is_gone, driver.models))
                reply = driver.do(ModelOrder(next(self._numbers), work), progress)
            answer = reply.result()
            if answer is not None:
                if isinstance(answer.result, BaseException):
                    raise answer.result
                return answer.result
        fix = "look at the memory of this machine; the same command with --resume goes on"
        raise StepFailed(f"{_MOST_LOST} processes of transload died over the model", fix=fix)


def start_driver(setup: DriverSetup, environment: Mapping[str, str]) -> ListDriverHandle:
    """Start a process."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "transload.pipeline.commands.list_driver", str(theirs.fileno())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment, pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C reaches us alone
        )  # fmt: skip
    handle = ListDriverHandle(process, Connection(ours.detach()))
    handle.send(setup)
    return handle


class ListDriverHandle:
    """A process, as the command sees it. Thread-safe."""

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection) -> None:
        self._process = process
        self._connection = connection
        self._sending = threading.Lock()
        self._waiting: dict[int, tuple[Future[ModelReply | None], Progress]] = {}
        self.is_gone = False
        threading.Thread(target=self._receive, name="list-driver", daemon=True).start()

    @property
    def models(self) -> int:
        """How many models are under way here."""
        return len(self._waiting)

    def do(self, order: ModelOrder, progress: Progress) -> Future[ModelReply | None]:
        """Have a model done; None is the reply of a process that died."""
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

    def end(self, seconds: float | None) -> None:
        """Let the process end, and wait for it for so long; None: not at all. Kill it after that."""
        self.send(EndOrder())
        if seconds is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _receive(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                message = self._connection.recv()
                if isinstance(message, ModelLine):
                    self._waiting[message.number][1].line(message.text)
                elif isinstance(message, ModelNote):
                    self._waiting[message.number][1].note(message.text, once=message.once)
                else:
                    self._waiting.pop(message.number)[0].set_result(message)
        self.is_gone = True
        self._lose_all()

    def _lose_all(self) -> None:
        while self._waiting:
            with suppress(KeyError):
                self._waiting.popitem()[1][0].set_result(None)
