"""Which process runs what, and how it ended: the only module that starts workers.

A worker gets a private folder as its cwd, a scrubbed environment, limits, its stdout and stderr in a log, the user's
root last on sys.path, and walls (walls/). However it ends, the caller gets a value or one error.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...models.errors import ERRORS, NoAnswer, StepFailed, StepOutOfMemory, StepTimeout
from ...models.extensible_table import package_folders
from .compiler import CXX, find_compiler
from .fork_server import LOADED, Forked, ForkServer
from .guard import descendants, resident_bytes

_POLL_S = 0.05  # of the memory watch: an allocation that outruns it meets the kernel's own limit
_MOST_PROCESSES, _GRACE_S = 256, 5  # of a worker and all that it starts; beyond the time limit, before the alarm
_FILE_PER_MEMORY = 2  # the largest file that a worker may write, relative to its memory
_MOST_REPLY_BYTES = 64 << 20
_MOST_TEXT = 4000  # characters of a sentence
_PRIVATE = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "TRANSLOAD_WORKER")  # of each worker
_AUTHORITIES, _GPUS = "SSL_CERT_FILE", "CUDA_VISIBLE_DEVICES"
_FOR_SERVERS = ("TRANSLOAD_TOKEN", _AUTHORITIES)  # of workers that talk to a server which the user named
_KEPT = ("LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "TRANSLOAD_TFSERVING_BIN")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a worker may use."""

    seconds: float = 600.0  # for one request
    answer_s: float | None = None  # of it, for each answer of the model that the job asks
    memory_bytes: int = 16 << 30  # resident, of the worker and all that it starts
    threads: int = 1
    device: str = "cpu"
    visible_gpus: str = ""  # of the node's GPUs those that Ray has lent to the step, as in "0,3"
    loopback: bool = False  # may talk to 127.0.0.1
    host: str | None = None  # and to this one: a server that the user named
    walled: bool = True  # the kernel holds it to its files and starts no program for it (walls/)
    compiles: bool = False  # may start the system's C++ compiler, and nothing else (compiler.py)
    starts: tuple[str, ...] = ()  # programs that it may start: another Python, which a user's model lives in
    spin: bool = False  # idle OpenMP threads spin, as where a model is served; else they sleep, and leave the cores


@dataclass(slots=True)
class Spawn:
    """How a worker is started."""

    log: Path
    cwd: Path
    limits: Limits = field(default_factory=Limits)
    sys_path: tuple[str, ...] = ()  # the user's root, which goes last, behind the folders of packages with rows
    reads: tuple[str, ...] = ()  # what it may read beside `sys_path`, the libraries and its own folder
    writes: tuple[str, ...] = ()  # what it may write beside its own folder
    not_recorded: tuple[str, ...] = ()  # folders whose files are no input of a step that runs the user's code
    repeat: str | None = None  # the command that repeats the step, for the sentence
    python: str = ""  # another interpreter than ours, to which transload is lent
    fork_server: ForkServer | None = None  # forks the worker, where the fork is what a process of its own would be
    passes: tuple[int, ...] = ()  # descriptors of ours that a process of its own has, too, under the same numbers

    def __post_init__(self) -> None:
        self.sys_path = (*package_folders(), *self.sys_path)


class _Started(subprocess.Popen[bytes]):
    """A worker's process that was started, with the methods of one that was forked."""

    def ended(self, seconds: float = 0) -> bool:
        """Return whether it has ended, or ends within this time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(timeout=seconds)
        return self.poll() is not None

    def code(self) -> int:
        """Return the exit code of a process that has ended, or minus its signal."""
        return self.wait()


class Worker:
    """A process that does jobs or holds one opened object. Use it as a context manager.
    `on_end` is called in another thread when the process has ended."""

    def __init__(self, spawn: Spawn, on_end: Callable[[], None] = lambda: None) -> None:
        self._spawn = spawn
        self._on_end = on_end
        self._killed: str | None = None
        self._out_of_memory = False
        self._closed = False
        self.peak_rss_bytes = 0
        self.read: tuple[Path, ...] = ()  # the files outside of the store that the last request made it read
        ours, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        self._lock = threading.Lock()  # of the lifeline
        spawn.cwd.mkdir(parents=True, exist_ok=True)
        with spawn.log.open("ab") as log, theirs:
            ends = (theirs.fileno(), lifeline, log.fileno())
            self._process = _forked(spawn, ends) or _started(spawn, ends)
        os.close(lifeline)
        self._socket = ours
        self._stream = ours.makefile("rb")
        self._sent = ""  # the id of the last request, which its reply repeats
        threading.Thread(target=self._watch, name=f"watch-{self._process.pid}", daemon=True).start()

    def work(self, entry: str, job: Mapping[str, object]) -> dict[str, Any]:
        """Do one job (models.job.Job as JSON values) and return its facts."""
        value = self._request({"do": "work", "entry": entry, "job": job})
        if not isinstance(value, dict):
            raise self._failed(f"{entry} returned {type(value).__name__} instead of facts")
        return value

    def open(self, entry: str, options: Mapping[str, object]) -> None:
        """Open the object that `ask` calls."""
        self._request({"do": "open", "entry": entry, "options": options})

    def ask(self, method: str, **options: object) -> Any:
        """Call a method of the opened object."""
        return self._request({"do": "ask", "method": method, "options": options})

    def send_open(self, entry: str, options: Mapping[str, object]) -> None:
        """Open without waiting, so that several workers load side by side; `receive` takes the reply."""
        self._send({"do": "open", "entry": entry, "options": options})

    def receive(self) -> Any:
        """Return the reply to what was sent.
        Raises the error that the worker met; StepFailed where it died, hung, or answered nonsense."""
        limit_s = self._spawn.limits.seconds
        try:
            reply = self._read_reply(limit_s)
        except TimeoutError:
            reason = f"gave no answer in {limit_s:g} s"
            self.kill(reason)
            failure = StepTimeout if self._killed == reason else StepFailed
            raise self._failed(self.describe_exit(), failure=failure) from None
        except (OSError, ValueError, RecursionError):
            reply = None
        match reply:  # a model's code can write to the socket, too: what is none of these is no reply
            case {"id": self._sent, "value": value, "read": [*read]} if all(isinstance(path, str) for path in read):
                self.read = tuple(map(Path, read))
                return value
            case {"id": self._sent, "error": {"kind": str(kind), "what": str(what), "fix": str(fix)}}:
                raise self._error({"kind": kind, "what": what[:_MOST_TEXT], "fix": fix[:_MOST_TEXT]})
        how = self.describe_exit()
        failure = NoAnswer if self._was_too_slow else StepOutOfMemory if self._out_of_memory else StepFailed
        raise self._failed(how, failure=failure)

    def _read_reply(self, seconds: float) -> Any:
        """Return the next line as JSON, None where there is none. Raises TimeoutError, OSError; ValueError and
        RecursionError for what is no JSON."""
        end = time.monotonic() + seconds
        line = bytearray()
        while not line.endswith(b"\n"):
            self._socket.settimeout(max(_POLL_S, end - time.monotonic()))
            ready = self._stream.peek()  # what is there, or comes by one read: `readline` waits for each drip
            part = self._stream.read(ready.find(b"\n") + 1 or len(ready))
            if not part or len(line) > _MOST_REPLY_BYTES:
                return None
            if time.monotonic() > end:
                raise TimeoutError
            line += part
        return json.loads(line)

    def close(self) -> None:
        """End the worker; what it held is let go."""
        for stream in (self._stream, self._socket):
            with contextlib.suppress(OSError):
                stream.close()
        self._process.ended(_GRACE_S)
        self.kill("was closed")
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is not None:
            self.kill("was stopped")
        self.close()

    @property
    def pid(self) -> int:
        """The worker's process; its guard's, where there is no worker yet, or no more."""
        return next(descendants(self._process.pid), self._process.pid)

    @property
    def pids(self) -> list[int]:
        """The processes of the worker and of all that it started."""
        return list(descendants(self._process.pid))

    @property
    def rss_bytes(self) -> int:
        """The resident memory of the worker and of all that it started."""
        return resident_bytes(self.pids)

    def _request(self, request: Mapping[str, object]) -> Any:
        self._send(request)
        return self.receive()

    def _send(self, request: Mapping[str, object]) -> None:
        try:
            self._sent = secrets.token_hex(8)
            self._socket.settimeout(self._spawn.limits.seconds)
            self._socket.sendall(json.dumps({"id": self._sent, **request}).encode() + b"\n")
        except (OSError, ValueError):
            raise self._failed(self.describe_exit()) from None

    def _error(self, record: Mapping[str, str]) -> Exception:
        if record["kind"] in ERRORS:
            return ERRORS[record["kind"]](record["what"], fix=record["fix"])
        failure = StepOutOfMemory if record["kind"] == "exhausted" else StepFailed
        return self._failed(record["what"], decided=record["kind"] == "foreign", failure=failure)

    def _failed(self, how: str, *, decided: bool = False, failure: type[StepFailed] = StepFailed) -> StepFailed:
        again = f", or repeat it alone: {self._spawn.repeat}" if self._spawn.repeat else ""
        return failure(how, fix=f"read {self._spawn.log}{again}", decided=decided)

    def describe_exit(self) -> str:
        """Return how the process ended. One that has not is ended."""
        ended = self._process.ended(_GRACE_S)
        if self._killed:
            return f"the worker {self._killed}"
        if not ended:
            self.kill("answered with something that is no reply")
            return f"the worker {self._killed}"
        code = self._process.code()
        if self._was_too_slow:
            return "the model did not answer in its time"
        if code < 0:
            return f"the worker was killed by {signal.Signals(-code).name}"
        return f"the worker ended without an answer (exit status {code})"

    @property
    def _was_too_slow(self) -> bool:
        """Whether the process has ended because its model gave no answer in time (drift/call_time_limit.py)."""
        if self._killed or not self._spawn.limits.answer_s or not self._process.ended():
            return False
        return self._process.code() == -signal.SIGALRM

    def kill(self, why: str) -> None:
        """End the worker and all that it started: its guard does when the lifeline closes."""
        if self._closed:
            return
        if not self._process.ended():
            self._killed = self._killed or why
        with self._lock:
            if self._lifeline >= 0:
                os.close(self._lifeline)
                self._lifeline = -1
        if not self._process.ended(_GRACE_S):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.ended(_GRACE_S)

    def _watch(self) -> None:
        """Hold the limits of memory and processes, and remember the peak."""
        limit = self._spawn.limits.memory_bytes
        while not self._process.ended():
            pids = self.pids
            used = resident_bytes(pids)
            self.peak_rss_bytes = max(self.peak_rss_bytes, used)
            if used > limit:
                self._out_of_memory = True
                self.kill(f"used more memory than its limit of {limit / 1e9:.3g} GB")
                break
            if len(pids) > _MOST_PROCESSES:
                self.kill(f"started more processes than its limit of {_MOST_PROCESSES}")
                break
            time.sleep(_POLL_S)
        self._on_end()


def start_fork_server(framework: str, limits: Limits, cwd: Path) -> ForkServer:
    """Start a process that forks workers with these limits, with a framework of LOADED."""
    return ForkServer(LOADED[framework], _environment(Spawn(Path(os.devnull), cwd, limits)), cwd)


def _forked(spawn: Spawn, ends: tuple[int, int, int]) -> Forked | None:
    """Fork a worker, where a fork server has loaded its libraries in the environment that the worker needs."""
    if spawn.fork_server is None or spawn.passes:
        return None
    wanted = _environment(spawn)
    there = {**spawn.fork_server.environment, **{name: wanted[name] for name in _PRIVATE}}
    return spawn.fork_server.fork(wanted, spawn.cwd, ends) if wanted == there else None


def _started(spawn: Spawn, ends: tuple[int, int, int]) -> _Started:
    """Start a worker in a process of its own."""
    connection, lifeline, log = ends
    python = spawn.python or sys.executable
    return _Started(
        [python, "-P", "-m", "transload.pipeline.workers.worker", str(connection), str(lifeline)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=spawn.cwd,
        env=_environment(spawn),
        pass_fds=(connection, lifeline, *spawn.passes),
        start_new_session=True,  # Ctrl-C reaches us alone
    )


def run_alone(entry: str, job: Mapping[str, object], spawn: Spawn) -> dict[str, Any]:
    """Do one job in a process of its own."""
    with Worker(spawn) as worker:
        return worker.work(entry, job)


def repeat_command(file: Path) -> str:
    """Return the command that does the job of a repeat file once more."""
    return shlex.join([sys.executable, "-P", "-m", "transload.pipeline.workers.rerun_step", str(file)])


def _environment(spawn: Spawn) -> dict[str, str]:
    limits, cwd = spawn.limits, spawn.cwd.absolute()  # the worker's own folder when it reads this
    gpus, servers = (_GPUS,) if limits.device.startswith("cuda") else (), _FOR_SERVERS if limits.host else ()
    kept = (*_KEPT, *gpus, *servers)
    setup = {
        "loopback": limits.loopback,
        "host": limits.host,
        "sys_path": list(spawn.sys_path),
        "not_recorded": list(spawn.not_recorded),
        "file_bytes": _FILE_PER_MEMORY * limits.memory_bytes,
        "alarm_s": int(limits.seconds + _GRACE_S),
        "walls": _walls(spawn) if limits.walled else None,
    }
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        # No framework strays to a GPU from a worker for the CPU.
        **({_GPUS: limits.visible_gpus} if limits.visible_gpus or _GPUS not in kept else {}),
        **(_transload_path(cwd) if spawn.python else _python_path()),
        # onnx2tf runs `onnxsim` by its bare name: the environment's own programs come first.
        "PATH": os.pathsep.join([str(Path(spawn.python or sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "HOME": str(cwd),
        "TMPDIR": str(cwd),
        "XDG_CACHE_HOME": str(cwd / ".cache"),
        "PYTHONHASHSEED": "0",  # sets in the converters' code must not reorder a graph
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "HF_HUB_OFFLINE": "1",
        # Names are asked by TCP, for a worker has no other sockets.
        **({"RES_OPTIONS": "use-vc", "GRPC_DNS_RESOLVER": "native"} if limits.host else {}),
        # Spinning made training beside others 3 times slower.
        **({} if limits.spin else {"OMP_WAIT_POLICY": "PASSIVE"}),
        **({CXX: compiler.path} if limits.compiles and (compiler := find_compiler()) else {}),
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(limits.threads)),
        "OPENBLAS_NUM_THREADS": "1",  # numpy's; they would start with the import, and no step waits for a product of it
        "TRANSLOAD_WORKER": json.dumps(setup),
    }


def _walls(spawn: Spawn) -> dict[str, Any]:
    """Return the arguments of walls.sandbox.raise_walls."""
    limits = spawn.limits
    authorities = [os.environ[_AUTHORITIES]] if limits.host and os.environ.get(_AUTHORITIES) else []
    return {
        "reads": [*spawn.sys_path, *spawn.reads, *authorities],
        "writes": list(spawn.writes),
        "tcp": limits.loopback,
        "gpu": limits.device.startswith("cuda"),
        "starts": [*limits.starts, *(compiler.programs if limits.compiles and (compiler := find_compiler()) else ())],
    }


def _python_path() -> dict[str, str]:
    """Return the PYTHONPATH by which transload was found, if by one (a checkout that is not installed)."""
    folders = map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    worker = Path("transload", "pipeline", "workers", "worker.py")
    parent = next((folder for folder in folders if (folder / worker).is_file()), None)
    return {"PYTHONPATH": str(parent.absolute())} if parent else {}


def _transload_path(cwd: Path) -> dict[str, str]:
    """Return a PYTHONPATH with transload alone: our other libraries would clash with another interpreter's."""
    folder = cwd / ".python_path"
    folder.mkdir(exist_ok=True)
    link = folder / "transload"
    if not link.is_symlink():
        link.symlink_to(Path(__file__).resolve().parents[2], target_is_directory=True)
    return {"PYTHONPATH": str(folder.absolute())}
