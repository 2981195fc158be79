"""The command `serve`: the embedded server in a worker, and this process in the foreground until a signal ends it.

It needs no store and no run folder: in a container both may be read-only.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def serve(
    artifact: Path,
    ready: Callable[[dict[str, str], str], None],
    *,
    name: str = "model",
    host: str = "127.0.0.1",
    grpc_port: int = 8500,
    rest_port: int = 8501,
    device: str = "auto",
    threads: int = 1,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> None:
    """Serve the artifact in a folder until SIGINT or SIGTERM.
    As soon as requests are answered, `ready` is called with the addresses by protocol ("grpc", "rest"), and with the
    runtime and the device as text.
    Raises BadRequest where the artifact cannot be opened or a port is taken, StepFailed where the worker dies."""
    if not re.fullmatch(r"[\w.-]+", name):
        raise BadRequest(f"the name {name!r} fits no URL", fix="name it with letters, digits, '-', '_' and '.'")
    device = resolve_device(read_request(None, {"device": device}).device)
    folder = _folder(artifact)
    runtime = _check_libraries(folder)
    with _stop_on_signals() as stop, TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as folder_name:
        scratch, memory_bytes = Path(folder_name), psutil.virtual_memory().total
        limits = Limits(memory_bytes=memory_bytes, threads=threads, device=device, loopback=True, spin=True)
        with Worker(Spawn(scratch / "log", scratch / "cwd", limits)) as worker:
            worker.work(_CHECK, {"inputs": {"artifact": str(folder)}, "out": str(scratch), "options": {}})
            options = EmbeddedOptions(
                folder=str(folder), name=name, device=device, threads=threads, host=host, grpc_port=grpc_port,
                rest_port=rest_port, max_body_bytes=max_body_bytes,
            )  # fmt: skip
            worker.open(_SERVER, options.to_json())
            ready(worker.ask("addresses"), f"{runtime}, {device}")
            _watch(worker, stop, scratch / "log")


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
    require_libraries("the server", ("grpc", "tensorflow_serving", "starlette", "uvicorn", "uvloop", "httptools"))
    if form is Format.ONNX:
        require_libraries("the check of an ONNX artifact", ("onnx",))
    return DEFAULT_RUNTIME[form]


def _watch(worker: Worker, stop: threading.Event, log: Path) -> None:
    """Wait until `stop` is set. Raises StepFailed where the worker is gone; its log is kept."""
    try:
        while not stop.wait(_POLL_S):
            worker.ask("addresses")
    except StepFailed as error:
        handle, kept = mkstemp(prefix=_PREFIX, suffix=".log")
        os.close(handle)
        shutil.copyfile(log, kept)
        raise StepFailed(f"the server stopped: {error.what}", fix=f"read {kept}, and start it again") from error


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
