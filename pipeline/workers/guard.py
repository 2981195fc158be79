"""The guard of a worker: the process that forks it, and ends all that it started when it or the parent is gone.

A program that forks twice leaves its session, its group and its parent. The kernel gives such orphans to the nearest
ancestor that asks for them (PR_SET_CHILD_SUBREAPER), which is the guard: whatever a worker started is below it. The
guard stands outside of the worker's walls, runs nobody's code, and ends with the parent, however that dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

_DIE_WITH_PARENT, _TAKE_ORPHANS = 1, 36  # of prctl
_EVENTS = (signal.SIGCHLD, signal.SIGIO)
_PAUSE_S = 0.002
_PRCTL = ctypes.CDLL(None, use_errno=True).prctl


def fork_below_guard(connection: int, lifeline: int) -> None:
    """Fork. Return in the new process, which is the worker; this one becomes its guard.
    The guard ends when the worker has ended, with its exit status, or when the parent closes the pipe `lifeline`. Then
    nothing that the worker started is left. `connection` is the worker's alone."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _PRCTL(_TAKE_ORPHANS, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an ignored one would bury the worker without its status
    signal.pthread_sigmask(signal.SIG_BLOCK, _EVENTS)
    guard = os.getpid()
    worker = os.fork()
    if worker:
        os.close(connection)
        _guard(worker, lifeline)
    os.close(lifeline)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _EVENTS)
    _PRCTL(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != guard:
        os._exit(1)  # it was gone before


def descendants(pid: int) -> Iterator[int]:
    """Yield all that a process started, as /proc has it: parents before their children, in the order of their start."""
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from descendants(int(child))
    except (OSError, ValueError):
        return  # it ended while we looked


def _guard(worker: int, lifeline: int) -> NoReturn:
    """Wait for the end of the worker or of the lifeline, end all descendants, and end as the worker did."""
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)  # SIGIO when the parent's end closes
    status, more = _bury(worker, None)
    while status is None and not is_readable(lifeline):
        signal.sigwait(_EVENTS)
        status, more = _bury(worker, None)
    while more:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_S)
        status, more = _bury(worker, status)
    code = os.waitstatus_to_exitcode(status or 0)
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no other disposition
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(abs(code))


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


def is_readable(descriptor: int, seconds: float = 0) -> bool:
    """Return whether there is something to read, or the other side is gone, within this time."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
