"""A process that carries models of a list over a cluster. list_drivers.py starts it, and sends the models to a socket.

    python -m transload.pipeline.commands.list_driver FILE_DESCRIPTOR

It ends where its command has gone: nobody waits for the models any more.
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
    """A text stream that hands each line, once it is complete, to a function."""

    def __init__(self, take_line: Callable[[str], None]) -> None:
        self._take_line = take_line
        self._rest = ""

    def write(self, text: str) -> int:
        """Write text, and hand on the lines that are complete now."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._take_line(line)
        return len(text)


class _ModelProgress(Progress):
    """The progress of a model as messages to the command, which shows it beside those of the other processes."""

    def __init__(self, number: int, send: Callable[[ModelLine | ModelNote], None], *, quiet: bool) -> None:
        stream = _LineStream(lambda text: send(ModelLine(number, text)))
        super().__init__(stream, quiet=quiet, reminds=False)  # type: ignore[arg-type]
        self._number, self._send = number, send

    def note(self, text: str, *, once: str = "") -> None:
        """Send a sentence; the command knows which ones it has shown once (Progress.note)."""
        self._send(ModelNote(self._number, text, once))


class ListDriver:
    """The models of a process: it does those that are sent to it, and sends their outcomes back."""

    def __init__(self, connection: Connection, setup: DriverSetup) -> None:
        self._connection = connection
        self._setup = setup
        self._sending = threading.Lock()

    def serve(self) -> bool:
        """Do the models that are sent. Return True once the command ends them, and False where it has gone."""
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
        with self._sending, suppress(OSError):  # the command has gone, which the main thread sees as well
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
    """Connect to the cluster, and serve the command at the other end of the socket."""
    connection = Connection(int(sys.argv[1]))
    try:
        setup = connection.recv()
    except (EOFError, OSError):  # the command has gone
        return 1
    try:
        join(setup.address, setup.driver, setup.parts)
    except TransloadError as error:
        with suppress(OSError):
            connection.send(DriverFailure(error))
        os._exit(1)  # not sys.exit: a thread of Ray that waits for the cluster would keep the process
    if not ListDriver(connection, setup).serve():
        os._exit(1)  # likewise: the cluster may have gone with the command
    return 0


if __name__ == "__main__":
    sys.exit(main())
