"""The guard of a worker: the process that forks it, and ends all that it started when it or the parent is gone.

A program that forks twice leaves its session, its group and its parent. The kernel gives such orphans to the nearest
ancestor that asks for them (PR_SET_CHILD_SUBREAPER), which is the guard: whatever a worker started is below it. The
guard stands outside of the worker's walls, runs nobody's code, and ends with the parent, however that dies.

What the worker prints comes through the guard, which holds the log to its size.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import struct
import time
from collections.abc import Iterable, Iterator
from typing import NoReturn

LOG_BYTES = 16 << 20  # of what a worker prints, the first and the last half are kept

_DIE_WITH_PARENT, _TAKE_ORPHANS = 1, 36  # of prctl
_PAUSE_S = 0.002
_CHUNK_BYTES = 1 << 16  # what a pipe holds
_WISH = struct.Struct("ii")  # of a worker: a process, and a signal for it
_MOST_WISHES = 16  # at a time: the lifeline is looked at between
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_OUTPUTS = (1, 2)  # stdout and stderr; the guard's own are the log
_PRCTL = ctypes.CDLL(None, use_errno=True).prctl


def fork_below_guard(connection: int, lifeline: int) -> int:
    """Fork. Return in the new process, which is the worker; this one becomes its guard.
    The guard ends when the worker has ended, with its exit status, or when the parent closes the pipe `lifeline`. Then
    nothing that the worker started is left. `connection` is the worker's alone. Return the pipe on which the worker
    asks the guard for signals."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _PRCTL(_TAKE_ORPHANS, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an ignored one would bury the worker without its status
    printed, output = os.pipe()
    wishes, wished = os.pipe()
    guard = os.getpid()
    worker = os.fork()
    if worker:
        for descriptor in (connection, output):
            os.close(descriptor)
        _guard(worker, lifeline, wishes, CappedLog(printed, _OUTPUTS[0]))
    for descriptor in _OUTPUTS:
        os.dup2(output, descriptor)
    for descriptor in (lifeline, printed, output, wishes):
        os.close(descriptor)
    _PRCTL(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != guard:
        os._exit(1)  # it was gone before
    return wished


def send_by_guard(wished: int) -> None:
    """Let `os.kill` of this process and its forks ask the guard, which signals what is below it and nobody else."""
    kill, worker = os.kill, os.getpid()

    def ask(pid: int, number: int, /) -> None:
        if pid == worker or not number:  # which only asks
            kill(pid, number)
        else:
            os.write(wished, _WISH.pack(pid, number))

    os.kill = ask


def descendants(pid: int) -> Iterator[int]:
    """Yield all that a process started, as /proc has it: parents before their children, in the order of their start."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            for child in read_kernel_file(f"/proc/{pid}/task/{task}/children").split():
                yield int(child)
                yield from descendants(int(child))
    except (OSError, ValueError):
        return  # it ended while we looked


def read_kernel_file(path: str) -> bytes:
    """Read a small file of /proc. Workers are watched all the time; a Path read as text takes four times as long."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, _CHUNK_BYTES)
    finally:
        os.close(descriptor)


def is_readable(descriptor: int, seconds: float = 0) -> bool:
    """Wait up to `seconds`; return whether a descriptor has data to read, or its other end is closed."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class CappedLog:
    """Copies a pipe to a file: the first and the last half of LOG_BYTES, and how much was cut between."""

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self._target = target
        self._room = LOG_BYTES // 2
        self._tail = bytearray()
        self._cut_bytes = 0
        os.set_blocking(source, False)

    def copy(self) -> bool:
        """Copy what there is to read at once. Return False where nobody can write any more."""
        try:
            chunk = os.read(self.source, _CHUNK_BYTES)
        except BlockingIOError:
            return True
        head, rest = chunk[: self._room], chunk[self._room :]
        self._room -= len(head)
        self._write(head)
        self._tail += rest
        if len(self._tail) > LOG_BYTES:  # not at every chunk: it moves the rest
            self._cut_tail()
        return bool(chunk)

    def close(self) -> None:
        """Copy what is left, where nobody writes any more, and write the last part."""
        while is_readable(self.source) and self.copy():
            pass
        self._cut_tail()
        if self._cut_bytes:
            half = f"{LOG_BYTES // 2:,}"
            self._write(
                f"\n[{self._cut_bytes:,} bytes are cut: of a log the first and the last {half} are kept]\n".encode()
            )
        self._write(self._tail)

    def _cut_tail(self) -> None:
        over = max(0, len(self._tail) - LOG_BYTES // 2)
        self._cut_bytes += over
        del self._tail[:over]

    def _write(self, text: bytes | bytearray) -> None:
        rest = memoryview(text)
        with contextlib.suppress(OSError):  # a full disk must not stop the worker, whose own files it stops
            while rest:
                rest = rest[os.write(self._target, rest) :]


def _guard(worker: int, lifeline: int, wishes: int, log: CappedLog) -> NoReturn:
    """Copy the log until the worker ends or the lifeline closes, end all descendants, and end as the worker did."""
    wakes, signalled = os.pipe2(os.O_NONBLOCK)
    signal.set_wakeup_fd(signalled)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    for descriptor in (lifeline, log.source, wakes, wishes):
        poll.register(descriptor, select.POLLIN)
    status, more = _bury(worker, None)
    ready: set[int] = set()
    while status is None and lifeline not in ready:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if log.source in ready and not log.copy():
            poll.unregister(log.source)
        if wishes in ready:
            _grant(os.read(wishes, _MOST_WISHES * _WISH.size))
        if wakes in ready:
            os.read(wakes, _CHUNK_BYTES)
            status, more = _bury(worker, None)
    while more:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_S)
        status, more = _bury(worker, status)
    log.close()
    code = os.waitstatus_to_exitcode(status or 0)
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no other disposition
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(abs(code))


def _grant(text: bytes) -> None:
    """Send the signals that a worker wishes to what is below the guard."""
    below = set(descendants(os.getpid()))
    for pid, number in _WISH.iter_unpack(text[: len(text) // _WISH.size * _WISH.size]):
        if pid in below:
            with contextlib.suppress(OSError):
                os.kill(pid, number)


def _bury(worker: int, status: int | None) -> tuple[int | None, bool]:
    """Bury the children that have ended. Return the worker's exit status, as far as it is known, and whether there
    are other children."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, ended = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return status, True
            if pid == worker:
                status = ended
    return status, False


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the bytes of main memory that these processes hold; one that has ended holds none."""
    total = 0
    for member in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            total += int(read_kernel_file(f"/proc/{member}/statm").split()[1]) * _PAGE_BYTES
    return total
