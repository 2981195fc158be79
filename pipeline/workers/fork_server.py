"""A process that has a framework loaded and forks workers from itself, so that they need not load it again. Both sides.

Android and Chrome call such a process a zygote. A fork has only the thread that called it, and what other threads held
stays locked in it for ever. So this process loads modules and does nothing else, counts its threads before every fork,
and forks no more as soon as there are two. Then there is no fork (None), and the caller starts a process of its own.

Libraries read the environment while they are loaded, which is the same for all forks. A worker that needs other values
is not forked (isolation.py compares the two).
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .guard import is_readable
from .worker import serve

# The framework; then, while nobody asks for a fork, what its converters load when they are first called. Those are
# private names, which another version may lack: a module that is not found is not loaded ahead. More beside them, such
# as our own steps, costs a single conversion on two cores more than it saves.
NUMPY = "numpy"
LOADED = {
    "torch": (
        "torch", "torch._dynamo", "torch.export.pt2_archive._package", "torch.export._trace",
        "torch.onnx._internal.exporter._compat", "torch.onnx._internal.exporter._torchlib.ops",
        "onnxscript.function_libs.torch_lib.ops",
    ),
    "tensorflow": ("tensorflow", "onnx"),
    NUMPY: (NUMPY,),  # last, as all else needs it, too
}  # fmt: skip


def framework_of(requires: Sequence[str]) -> str:
    """Return the framework that a fork server should load for a step: "torch", "tensorflow", else NUMPY."""
    return next((name for name in LOADED if name in requires), NUMPY)


_LOADING_S = 60.0  # before its first fork
_IDLE_MS = 200
_MOST_BYTES = 1 << 18  # of a request
_NUMBER = struct.Struct("i")  # on the pipe of a fork: its pid, and later its exit code


class ForkServer:
    """The caller's side. Thread-safe: a request is one message, and its answers have a pipe of their own."""

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str], cwd: Path) -> None:
        self.environment = dict(environment)
        cwd.mkdir(parents=True, exist_ok=True)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        lifeline, ours = os.pipe()
        weakref.finalize(self, os.close, ours)
        numbers = [theirs.fileno(), lifeline]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "transload.pipeline.workers.fork_server", *map(str, numbers), *modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # where it fails, a worker of its own fails in the same way, and is heard
                stderr=subprocess.DEVNULL,
                cwd=cwd,
                env=self.environment,
                pass_fds=numbers,
                start_new_session=True,
            )
        os.close(lifeline)
        self._end = weakref.finalize(self, _end, self._control, self._process)

    @property
    def pid(self) -> int:
        """The process that forks."""
        return self._process.pid

    def close(self) -> None:
        """End the process. Its forks live on: each has a lifeline to the caller."""
        self._end()

    def fork(self, environment: Mapping[str, str], cwd: Path, ends: Sequence[int]) -> Forked | None:
        """Fork a worker with this environment in this folder.
        `ends` are its end of the connection, its end of the lifeline, and its log. Return None where the process is
        gone, has failed to load, or may not fork."""
        ours, theirs = os.pipe()
        request = json.dumps({"environment": dict(environment), "cwd": str(cwd)}).encode()
        try:
            socket.send_fds(self._control, [request], [*ends, theirs])
        except OSError:
            os.close(theirs)
            os.close(ours)
            return None
        os.close(theirs)
        if not (ready := is_readable(ours, _LOADING_S)):
            self.close()
        pid = os.read(ours, _NUMBER.size) if ready else b""
        if not pid:
            os.close(ours)
            return None
        return Forked(_NUMBER.unpack(pid)[0], ours)


def _end(control: socket.socket, process: subprocess.Popen[bytes]) -> None:
    control.close()
    process.kill()  # it may be in the midst of loading
    process.wait()


class Forked:
    """A worker that was forked. Its parent, the fork server, says on a pipe how it ended. That it has ended the kernel
    tells at once: the fork server may be loading something."""

    def __init__(self, pid: int, told: int) -> None:
        self.pid = pid
        self._told = told
        weakref.finalize(self, os.close, told)
        self._process: int | None = None
        self._code: int | None = None
        self._lock = threading.Lock()
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self._process = os.pidfd_open(pid)
            weakref.finalize(self, os.close, self._process)

    def ended(self, seconds: float = 0) -> bool:
        """Return whether it has ended, or ends within this time."""
        return self._process is None or is_readable(self._process, seconds)

    def code(self) -> int:
        """Return the exit code of a process that has ended, or minus its signal."""
        with self._lock:
            if self._code is None:
                code = os.read(self._told, _NUMBER.size) if is_readable(self._told, _LOADING_S) else b""
                # Without a word the fork server is gone as well.
                self._code = int(_NUMBER.unpack(code)[0]) if code else -signal.SIGKILL
            return self._code


def main(argv: list[str]) -> None:
    """Load the first module, and fork until the caller is gone."""
    os.close(os.pidfd_open(os.getpid()))  # an old kernel has none: better to end here than after the first fork
    control, lifeline = socket.socket(fileno=int(argv[0])), int(argv[1])
    # SIGIO when the caller's end closes ends this process in the midst of loading, too; a thread it may not have.
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)
    if is_readable(lifeline):
        os._exit(0)  # it has closed already
    importlib.import_module(argv[2])
    _serve(control, lifeline, argv[3:])


def _serve(control: socket.socket, lifeline: int, later: list[str]) -> None:
    """Answer requests, pass on how forks ended, and load the rest while there is neither.
    A request that comes meanwhile waits for one module, which its worker would mostly load itself."""
    forks: dict[int, tuple[int, int]] = {}  # by the descriptor of the process: its pid, and the pipe to its keeper
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        ready = poll.poll(_IDLE_MS if later else None)
        if not ready:
            with contextlib.suppress(Exception):
                importlib.import_module(later.pop(0))
        for descriptor, _ in ready:
            if descriptor in forks:
                poll.unregister(descriptor)
                _reap(descriptor, *forks.pop(descriptor))
                continue
            text, ends, _, _ = socket.recv_fds(control, _MOST_BYTES, 4, socket.MSG_CMSG_CLOEXEC)
            if not text:
                os._exit(0)
            not_its_own = [control.fileno(), lifeline, *forks, *(report for _, report in forks.values())]
            started = _fork(json.loads(text), ends, not_its_own)
            if started is not None:
                forks[started[0]] = started[1:]
                poll.register(started[0], select.POLLIN)


def _fork(request: Mapping[str, Any], ends: Sequence[int], not_its_own: Sequence[int]) -> tuple[int, int, int] | None:
    """Return a fork's descriptor, its pid and the pipe to its keeper; None where there is another thread.
    A pipe that closes without a word tells the keeper so. A fork must not hold the descriptors `not_its_own`."""
    *own, report = ends
    pid = 0
    if len(os.listdir("/proc/self/task")) == 1:  # noqa: PTH208
        gc.freeze()  # else the fork's first collection would touch, and so copy, every object
        pid = os.fork()
        if not pid:
            _become_worker(request, own, [report, *not_its_own])
    for descriptor in own:
        os.close(descriptor)
    if not pid:
        os.close(report)
        return None
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)  # before its keeper knows it, who would else signal a group that is not there yet
        os.write(report, _NUMBER.pack(pid))
    return os.pidfd_open(pid), pid, report


def _become_worker(request: Mapping[str, Any], own: Sequence[int], not_its_own: Sequence[int]) -> None:
    """Make the fork a worker, as if it had just been started. Does not return."""
    try:
        connection, lifeline, log = own
        os.setpgid(0, 0)
        for output in (1, 2):
            os.dup2(log, output)
        for descriptor in (log, *not_its_own):
            os.close(descriptor)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environment"])
        tempfile.tempdir = None  # TensorFlow asks for it while it is loaded
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed()  # else all forks would draw the same numbers
        serve(connection, lifeline)
    finally:
        os._exit(1)


def _reap(descriptor: int, pid: int, report: int) -> None:
    os.close(descriptor)
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):
        os.write(report, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os.close(report)


if __name__ == "__main__":
    main(sys.argv[1:])
