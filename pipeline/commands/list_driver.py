"""A process that carries models of a list over a cluster, as list_drivers.py tells it over a socket.

    python -m transload.pipeline.commands.list_driver FILE_DESCRIPTOR

It ends with its command: without it nobody wants what it does.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]  # not in the stubs

from ...models.errors import TransloadError
from ...models.foreign_errors import text_of
from ..cluster.ray_cluster import join
from ..progress import Progress
from ..workers.shared_workers import SharedWorkers
from .list_drivers import DriverFailure, DriverSetup, EndOrder, ModelLine, ModelNote, ModelOrder, ModelReply
from .workspace import shared_workers


class _LineStream(io.TextIOBase):
    """A stream of text that hands each line on."""

    def __init__(self, hand_on: Callable[[str], None]) -> None:
        self._hand_on = hand_on
        self._rest = ""

    def write(self, text: str) -> int:
        """Take text, and hand on the lines that it completes."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._hand_on(line)
        return len(text)


class _ModelProgress(Progress):
    """The progress of a model, handed on to the command: that shows it beside those of the other processes."""

    def __init__(self, number: int, send: Callable[[ModelLine | ModelNote], None], *, quiet: bool) -> None:
        stream = _LineStream(lambda text: send(ModelLine(number, text)))
        super().__init__(stream, quiet=quiet, reminds=False)  # type: ignore[arg-type]
        self._number, self._send = number, send

    def note(self, text: str, *, once: str = "") -> None:
        """See Progress."""
        self._send(ModelNote(self._number, text, once))


class ListDriver:
    """Does models, and says over the socket what became of them."""

    def __init__(self, connection: Connection, setup: DriverSetup) -> None:
        self._connection = connection
        self._setup = setup
        self._sending = threading.Lock()

    def serve(self) -> bool:
        """Do what comes; return whether the command has said that this is all, and is not just gone."""
        setup = self._setup
        with (
            shared_workers(setup.folder, setup.local, Progress(quiet=True)) as workers,
            ThreadPoolExecutor(setup.at_once) as pool,
        ):
            while True:
                try:
                    message = self._connection.recv()
                except (EOFError, OSError):
                    workers.stop()
                    pool.shutdown(wait=False, cancel_futures=True)
                    return False
                if isinstance(message, EndOrder):
                    return True
                if isinstance(message, ModelOrder):
                    pool.submit(self._do, message, workers)
                else:
                    workers.stop()

    def _do(self, order: ModelOrder, workers: SharedWorkers) -> None:
        progress = _ModelProgress(order.number, self._send, quiet=self._setup.quiet)
        try:
            self._send(ModelReply(order.number, order.work(progress, workers)))
        except BaseException as error:  # noqa: BLE001  (raised where the command waits for it)
            self._send(ModelReply(order.number, _sendable(error)))

    def _send(self, message: ModelLine | ModelNote | ModelReply) -> None:
        with self._sending, suppress(OSError):  # the command is gone: the main thread meets that, too
            self._connection.send(message)


def _sendable(error: BaseException) -> BaseException:
    """Return an error that can be pickled, with the traceback that it has here."""
    trace = error.__traceback__
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  (its own)
    except Exception:  # noqa: BLE001  (whatever its class does)
        error = RuntimeError(f"{type(error).__name__}: {text_of(error)}")
    return ExceptionWithTraceback(error, trace)  # type: ignore[no-any-return]


def main() -> int:
    """Serve the command at the other end of the socket."""
    connection = Connection(int(sys.argv[1]))
    setup = connection.recv()
    try:
        join(setup.address, setup.driver, setup.parts)
    except TransloadError as error:
        with suppress(OSError):
            connection.send(DriverFailure(error))
        os._exit(1)  # a thread of Ray may still wait for the cluster
    if not ListDriver(connection, setup).serve():
        os._exit(1)  # Ray's own threads would wait for a cluster that may have gone, too
    return 0


if __name__ == "__main__":
    sys.exit(main())
