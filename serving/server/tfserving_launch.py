"""Which TF Serving answers: one that runs already, the real binary, its container, or the embedded server.

There is no tensorflow_model_server in any package registry, so that the embedded server is what most machines have;
results say which one it was.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...models.artifact import Artifact, read_artifact
from ...models.errors import BadRequest, SessionLost, SessionTimeout, TransloadError
from .server_records import BinaryOptions

ServerKind = Literal["embedded", "binary", "remote"]

BINARY = "tensorflow_model_server"
BINARY_VARIABLE = "TRANSLOAD_TFSERVING_BIN"
IMAGE = "tensorflow/serving"
_POLL_S = 0.05
_STOP_S = 10.0
_ASK_S = 5.0
_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Remote:
    """A server that runs already. What it serves, and on which device, is its own affair."""

    grpc: str  # host:port
    rest: str | None = None

    server: ServerKind = "remote"


@dataclass(frozen=True, slots=True)
class Binary:
    """The real server, as a program or as its container image."""

    program: str
    container: bool = False  # then `program` is the container engine

    server: ServerKind = "binary"


@dataclass(frozen=True, slots=True)
class Embedded:
    """The server of ours (serving/server/), which the caller starts in a worker."""

    server: ServerKind = "embedded"


def find_tfserving(
    url: str | None,
    environ: Mapping[str, str],
    which: Callable[[str], str | None] = shutil.which,
    has_image: Callable[[str], bool] | None = None,
) -> Remote | Binary | Embedded:
    """Choose the server, the first of: `url` (--tfserving-url), TRANSLOAD_TFSERVING_BIN, the binary on PATH, the
    container image if an engine has it already, the embedded one.
    Raises BadRequest where a server was named and is not there."""
    if url is not None:
        return parse_url(url)
    if named := environ.get(BINARY_VARIABLE):
        if not (path := which(named)):
            raise BadRequest(f"{BINARY_VARIABLE}={named} is no program", fix="name the file, or unset it")
        return Binary(path)
    if path := which(BINARY):
        return Binary(path)
    engine = which("docker")
    if engine and (has_image or image_is_here)(engine):
        return Binary(engine, container=True)
    return Embedded()


def parse_url(text: str) -> Remote:
    """`HOST:GRPC_PORT[,REST]`, where REST is a port of the same host or HOST:PORT. Raises BadRequest."""
    grpc, comma, rest = text.partition(",")
    host, _, port = grpc.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or (comma and not rest.rpartition(":")[2].isdecimal()):
        raise BadRequest(
            f"--tfserving-url {text!r} is not of the form HOST:GRPC_PORT[,REST_PORT]",
            fix="write it as in 127.0.0.1:8500,8501",
        )
    if not comma:
        return Remote(grpc)
    return Remote(grpc, rest if ":" in rest else f"{host}:{rest}")


def image_is_here(engine: str) -> bool:
    """Whether a container engine answers and has the image. It is never pulled: a run does not go to the network."""
    try:
        listing = subprocess.run(
            [engine, "image", "inspect", IMAGE],
            check=False,
            capture_output=True,
            timeout=_ASK_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listing.returncode == 0


class RunningServer:
    """The real server over one artifact: started, and stopped by close()."""

    def __init__(self, process: subprocess.Popen[bytes], addresses: Mapping[str, str], log: Path | None) -> None:
        self._process = process
        self._addresses = dict(addresses)
        self._fix = f"read {log}" if log else "read its log"
        self.pid = process.pid

    def addresses(self) -> dict[str, str]:
        """`host:port` by protocol, "grpc" and "rest"."""
        return dict(self._addresses)

    def wait_until_ready(self, model: str, timeout_s: float) -> None:
        """Until GetModelStatus says that `model` is available.
        Raises SessionLost where the server ended, SessionTimeout where it is not ready in time."""
        from ..clients.grpc_link import GrpcLink
        from ..clients.tfserving_grpc_client import available

        address = self._addresses["grpc"]
        end = time.monotonic() + timeout_s
        last = "it did not listen"
        with contextlib.closing(GrpcLink(address, 1)) as link:
            while time.monotonic() < end:
                if (code := self._process.poll()) is not None:
                    raise SessionLost(f"TF Serving ended at its start (exit status {code})", fix=self._fix)
                try:
                    available(link, model)
                except TransloadError as error:
                    last = error.what
                    time.sleep(_POLL_S)
                else:
                    return
        raise SessionTimeout(f"TF Serving was not ready within {timeout_s:g} s: {last}", fix=self._fix)

    def close(self) -> None:
        """Stop it: politely, then not. Safe to call twice."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def start_tfserving(
    choice: Binary,
    artifact: Artifact,
    model: str,
    *,
    threads: int,
    scratch: Path,
    log: Path | None = None,
    timeout_s: float = 60,
) -> RunningServer:
    """Start the real server over a SavedModel artifact, under the name `model`, and wait until it answers.

    `scratch` is an empty folder for the layout that TF Serving asks for (MODEL/VERSION/), `log` takes all that it
    prints; without one it goes where this process prints. It listens where its own defaults say, on every interface.
    Raises SessionLost where it ends early, SessionTimeout, BadRequest where the program cannot be run."""
    ports = dict(zip(("grpc", "rest"), free_ports(2), strict=True))
    argv = command(choice, artifact, model, ports, threads, scratch)
    with contextlib.ExitStack() as opened:
        out = opened.enter_context(log.open("ab")) if log else None
        try:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        except OSError as error:
            raise BadRequest(f"{argv[0]} cannot be run: {error.strerror}", fix=f"mend {BINARY_VARIABLE}") from error
    running = RunningServer(process, {kind: f"127.0.0.1:{port}" for kind, port in ports.items()}, log)
    try:
        running.wait_until_ready(model, timeout_s)
    except BaseException:
        running.close()
        raise
    return running


def open_binary(**document: Any) -> RunningServer:
    """Start the real server in a worker by BinaryOptions as JSON: its files in the worker's folder, its output in the
    worker's log. Raises what `start_tfserving` raises."""
    options = BinaryOptions.from_json(document)
    scratch = Path(tempfile.mkdtemp(prefix="tfserving-", dir=Path.cwd()))
    binary, artifact = Binary(options.program, options.container), read_artifact(Path(options.folder))
    return start_tfserving(binary, artifact, options.name, threads=options.threads, scratch=scratch)


def command(  # noqa: PLR0917  (each is a word of the command line)
    choice: Binary, artifact: Artifact, model: str, ports: Mapping[str, int], threads: int, scratch: Path
) -> list[str]:
    """Build the command line, with the folder that it names made in `scratch`."""
    flags = [
        f"--model_name={model}",
        f"--tensorflow_intra_op_parallelism={threads}",
        "--tensorflow_inter_op_parallelism=1",
    ]
    if choice.container:
        return [
            choice.program, "run", "--rm", "--init", "--pull=never",
            "-p", f"127.0.0.1:{ports['grpc']}:8500", "-p", f"127.0.0.1:{ports['rest']}:8501",
            "-v", f"{artifact.path.resolve()}:/models/{model}/{_VERSION}:ro", "-e", f"MODEL_NAME={model}",
            IMAGE, *flags,
        ]  # fmt: skip
    base = scratch / model
    base.mkdir(parents=True)
    try:
        (base / _VERSION).symlink_to(artifact.path.resolve(), target_is_directory=True)
    except OSError:  # a file system without links
        shutil.copytree(artifact.path, base / _VERSION)
    return [
        choice.program,
        f"--port={ports['grpc']}",
        f"--rest_api_port={ports['rest']}",
        f"--model_base_path={base.resolve()}",
        *flags,
    ]


def free_ports(count: int) -> list[int]:
    """Find so many different ports of 127.0.0.1 on which nobody listens: TF Serving cannot be asked which it took."""
    with contextlib.ExitStack() as probes:
        listeners = [probes.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]
