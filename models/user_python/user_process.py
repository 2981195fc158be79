"""A user's own interpreter as a child process, which runs the package `inside`. Worker only.

It stands between the walls of the worker that starts it, and ends with it. What it is sent and answers are frames
(inside/frames.py); its prints are in the worker's log.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest, StepFailed
from .inside.conversation import TENSORFLOW
from .inside.frames import BrokenFrame, read_frame, write_frame
from .interpreter import UserPython
from .remote_errors import remote_failure

if TYPE_CHECKING:
    import torch

_START = Path(__file__).parent / "inside" / "start.py"
_NOT_PASSED = ("PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONSAFEPATH", "PYTHONHOME", "TRANSLOAD_WORKER")
_GRACE_S = 5
_WITH_LOADER = 2  # programs: an interpreter, and the loader that the kernel starts for it
_WITH_ARGV0 = (2, 33)  # the first glibc whose loader passes a program's name on


class UserProcess:
    """The process that holds a model of another interpreter."""

    def __init__(self, python: UserPython, threads: int = 1, *, onednn: bool = True) -> None:
        """Start the interpreter and let it import the framework. Raises BadRequest where it cannot do either."""
        self.python = python
        ours, theirs = os.pipe(), os.pipe()  # requests, replies
        try:
            self._process = subprocess.Popen(
                [*_program(python), "-B", str(_START), python.framework, str(ours[0]), str(theirs[1])],
                stdin=subprocess.DEVNULL, env=environment_of(python), pass_fds=(ours[0], theirs[1]),
            )  # fmt: skip
        except OSError as error:
            for end in (*ours, *theirs):
                os.close(end)
            raise start_error(python.path, error) from error
        os.close(ours[0])
        os.close(theirs[1])
        self._requests, self._replies = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")
        try:
            self.ask("hello", stage=f"importing {python.framework}", threads=threads, onednn=onednn)
        except BaseException:
            self.close()
            raise

    def ask(
        self, do: str, tensors: Sequence[torch.Tensor] = (), *, stage: str, call: bool = False, **request: Any
    ) -> tuple[Any, list[torch.Tensor]]:
        """Send a request and return the value and the tensors of its reply. `stage` says what it does, for errors.
        Raises BadRequest for an error of the user's code; for one in a `call` the error itself, with their traceback
        in its message. Raises StepFailed where the process has ended, or answers nonsense."""
        try:
            write_frame(self._requests, {"do": do, **request}, tensors)
            frame = read_frame(self._replies)
        except (BrokenFrame, OSError) as error:
            raise self._ended(stage, str(error)) from error
        if frame is None:
            raise self._ended(stage, "")
        message, answers = frame
        if "error" in message:
            raise remote_failure(message["error"], stage, self.python, call=call)
        _note_reads(message)
        return message.get("value"), answers

    def close(self) -> None:
        """End the process. Safe to call twice."""
        with contextlib.suppress(OSError):
            self._requests.close()  # the other side reads its end, and leaves
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._replies.close()

    def _ended(self, stage: str, reason: str) -> StepFailed:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        code = self._process.poll()
        if code is None:
            how = f"answered with something that is no reply ({reason or 'nothing'})"
        elif code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        else:
            how = f"ended without an answer (exit status {code})"
        return StepFailed(
            f"{self.python.path} {how} while {stage}", fix=f"try that with {self.python.path} alone; the log has more"
        )


def _program(python: UserPython) -> list[str]:
    """Return the words that start the interpreter.
    TensorFlow 2.15 reads /proc/self/cmdline where its program is called python, and aborts where it may not: the walls
    of a worker close /proc to what it starts. Where the dynamic loader is the program, it does not."""
    glibc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    version = tuple(int(part) for part in (glibc or "").rpartition(" ")[2].split(".") if part.isdecimal())
    if python.framework != TENSORFLOW or len(python.programs) < _WITH_LOADER or version < _WITH_ARGV0:
        return [python.path]
    program, loader = python.programs[:2]
    return [loader, "--argv0", python.path, program]


def environment_of(python: UserPython) -> dict[str, str]:
    """Return the environment of the process: the worker's, and nothing of our own modules."""
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED}
    paths = {"PYTHONPATH": os.pathsep.join(python.pythonpath)} if python.pythonpath else {}
    base = {"PYTHONUSERBASE": python.user_base} if python.user_base else {}  # HOME is the worker's own folder
    search = os.pathsep.join([str(Path(python.path).parent), kept.get("PATH", os.defpath)])
    return {**kept, **paths, **base, "PATH": search, "PYTHONDONTWRITEBYTECODE": "1"}


def start_error(path: str, error: OSError) -> BadRequest:
    """Return the error for an interpreter that cannot be started."""
    if isinstance(error, PermissionError):
        fix = "name a Python that you may run; where the kernel has no Landlock, give --trust (transload doctor)"
    else:
        fix = "name a Python that runs here, as in --python .venv/bin/python"
    return BadRequest(f"{path} cannot be started: {os.strerror(error.errno or 0)}", fix=fix)


def _note_reads(message: Mapping[str, Any]) -> None:
    """Let this worker's own record of files (pipeline/workers/worker.py) know what the other interpreter has read."""
    for path in message.get("read", ()):
        if isinstance(path, str):
            sys.audit("open", path, "r", os.O_RDONLY)
