"""The command `serve`: the embedded server in a worker, and this process in the foreground until a signal ends it.

A worker that dies is started again on the same ports. The command needs no store and no run folder: in a container both
may be read-only.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp
from types import FrameType

import psutil

from ...models.artifact import read_artifact
from ...models.errors import BadRequest, StepFailed
from ...models.formats import Format
from ...serving.server.server_records import MAX_BODY_BYTES, EmbeddedOptions
from ..drift.sessions import DEFAULT_RUNTIME
from ..intake.loaded_model import require_libraries, require_runtime
from ..intake.model_argument import ModelKind, kind_of
from ..request import read_request
from ..workers.devices import resolve_device
from ..workers.isolation import Limits, Spawn, Worker

_CHECK = "transload.converters.intake.take_in:check_artifact"
_SERVER = "transload.serving.server.embedded:open_server"
_PREFIX = "transload-serve-"  # of what it leaves in the system's folder for temporary files
_POLL_S = 0.5  # between two checks that the worker lives
_DRAIN_S = 25.0  # for requests under way at a signal; Kubernetes kills after 30
_MOST_DEATHS = 3
_WITHIN_S = 60.0


def serve(
    artifact: Path,
    ready: Callable[[dict[str, str], str], None],
    warn: Callable[[str], None],
    *,
    name: str = "model",
    host: str = "127.0.0.1",
    grpc_port: int = 8500,
    rest_port: int = 8501,
    device: str = "auto",
    threads: int = 1,
    max_body_bytes: int = MAX_BODY_BYTES,
    access_log: str | None = None,
) -> None:
    """Serve the artifact in a folder until SIGINT or SIGTERM.
    As soon as requests are answered, `ready` is called with the addresses by protocol ("grpc", "rest"), and with the
    runtime and the device as text. `warn` takes a sentence when the worker dies, and when it answers again.
    Raises BadRequest where the artifact cannot be opened or a port is taken, StepFailed where the worker dies before it
    answers, or too often."""
    if not re.fullmatch(r"[\w.-]+", name):
        raise BadRequest(f"the name {name!r} fits no URL", fix="name it with letters, digits, '-', '_' and '.'")
    device = resolve_device(read_request(None, {"device": device}).device)
    folder = _folder(artifact)
    runtime = _check_libraries(folder)
    options = EmbeddedOptions(
        folder=str(folder), name=name, device=device, threads=threads, host=host, grpc_port=grpc_port,
        rest_port=rest_port, max_body_bytes=max_body_bytes, access_log=_log_file(access_log),
    )  # fmt: skip
    with _stop_on_signals() as stop, TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as folder_name:
        scratch, memory_bytes = Path(folder_name), psutil.virtual_memory().total
        limits = Limits(memory_bytes=memory_bytes, threads=threads, device=device, loopback=True, spin=True)
        spawn = Spawn(scratch / "log", scratch / "cwd", limits)
        with _kept_log(spawn.log):
            _Server(spawn, options, lambda addresses: ready(addresses, f"{runtime}, {device}"), warn).run(stop)


class DeathLimit:
    """The deaths of the last minute, and when there are too many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times: deque[float] = deque(maxlen=_MOST_DEATHS)

    def is_reached_by_another(self) -> bool:
        """Count a death; return whether it is the third within a minute."""
        self._times.append(self._clock())
        return len(self._times) == _MOST_DEATHS and self._times[-1] - self._times[0] <= _WITHIN_S


def _log_file(name: str | None) -> str | None:
    """Return the file of the access log for the worker, which has another folder and another stderr."""
    if name == "-":
        return f"/proc/{os.getpid()}/fd/2"
    return None if name is None else str(Path(name).absolute())


def _folder(artifact: Path) -> Path:
    if not artifact.exists():
        raise BadRequest(f"no such folder: {artifact}", fix="check the path")
    if kind_of(str(artifact)) is not ModelKind.ARTIFACT:
        raise BadRequest(
            f"{artifact} is no artifact's folder",
            fix=f"convert it first: transload convert {artifact} --to onnx --out DIR, and serve DIR/onnx",
        )
    return artifact.resolve()


def _check_libraries(folder: Path) -> str:
    """Return the runtime of the artifact.
    Raises BadRequest where there is none, ToolMissing where it or the server is not installed."""
    form = read_artifact(folder).target.format
    if form not in DEFAULT_RUNTIME:
        raise BadRequest(f"no runtime takes {form}", fix=f"serve an artifact of {', '.join(DEFAULT_RUNTIME)}")
    require_runtime(DEFAULT_RUNTIME[form])
    libraries = ("grpc", "grpc_health", "grpc_reflection", "tensorflow_serving", "starlette", "uvicorn", "uvloop")
    require_libraries("the server", (*libraries, "httptools"))
    if form is Format.ONNX:
        require_libraries("the check of an ONNX artifact", ("onnx",))
    return DEFAULT_RUNTIME[form]


class _Server:
    """A server that is started again when its worker dies."""

    def __init__(
        self,
        spawn: Spawn,
        options: EmbeddedOptions,
        ready: Callable[[dict[str, str]], None],
        warn: Callable[[str], None],
    ) -> None:
        self._spawn, self._options, self._ready, self._warn = spawn, options, ready, warn
        self._answered = False
        self._deaths = DeathLimit()

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set. Raises StepFailed as `serve` does."""
        while not stop.is_set():
            start = time.monotonic()
            try:
                with Worker(self._spawn) as worker:
                    self._open(worker, start)
                    while not stop.wait(_POLL_S):
                        worker.ask("addresses")
                    worker.ask("drain", limit_s=_DRAIN_S)
                    return
            except StepFailed as error:
                if not self._answered or stop.is_set():
                    raise
                if self._deaths.is_reached_by_another():
                    text = f"the server died {_MOST_DEATHS} times within {_WITHIN_S:g} s and is not started again"
                    raise StepFailed(f"{text}: {error.what}", fix=error.fix) from error
                self._warn(f"the server died and is started again: {error.what}; log: {self._spawn.log}")

    def _open(self, worker: Worker, start: float) -> None:
        """Open the server, the artifact checked before its first start, and say so."""
        options = self._options
        if not self._answered:
            folder = self._spawn.cwd.parent
            worker.work(_CHECK, {"inputs": {"artifact": options.folder}, "out": str(folder), "options": {}})
        worker.open(_SERVER, options.to_json())
        addresses = worker.ask("addresses")
        if self._answered:
            self._warn(f"the server answers again, after {time.monotonic() - start:.1f} s")
            return
        self._ready(addresses)
        grpc_port, rest_port = (int(addresses[protocol].rpartition(":")[2]) for protocol in ("grpc", "rest"))
        self._options = replace(options, grpc_port=grpc_port, rest_port=rest_port)  # clients look for it there
        self._answered = True


@contextmanager
def _kept_log(log: Path) -> Iterator[None]:
    """Copy the worker's log to a file that stays, where the block raises StepFailed, and name that file instead."""
    try:
        yield
    except StepFailed as error:
        handle, kept = mkstemp(prefix=_PREFIX, suffix=".log")
        os.close(handle)
        shutil.copyfile(log, kept)
        raise StepFailed(error.what, fix=f"read {kept}, and start the server again") from error


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set, in place of ending this process."""
    stop = threading.Event()

    def set_stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        stop.set()

    former = {number: signal.signal(number, set_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
