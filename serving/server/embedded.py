"""The embedded server: a repository of models behind two listeners, gRPC and HTTP.

Where latency is measured, it holds one artifact in its own process (`open_server`), a worker's. `transload serve` holds
each version in a process of its own.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.artifact import read_artifact
from ...models.errors import ToolMissing
from ...models.extensible_table import load_entry
from ..endpoint_security import OPEN, EndpointSecurity
from ..runtimes.runtime_table import RUNTIMES
from ..runtimes.tuning_space import RuntimeSettings, Value
from ..session import other_sessions_of
from .listener_address import address_of
from .repository.model_repository import Repository, hold_session
from .repository.served_version import OpenedSession
from .repository.session_channel import SessionHost
from .server_records import EmbeddedOptions

if TYPE_CHECKING:
    from .http_server import HttpServer
    from .tfserving_grpc import GrpcServer

_GRACE_S = 5.0  # for requests under way
_WATCH_GRACE_S = 0.2  # after a drain nothing is under way but streams that watch the health


class EmbeddedServer:
    """A repository and its two listeners."""

    def __init__(self, repository: Repository, grpc_server: GrpcServer, rest: HttpServer, host: str) -> None:
        self._repository = repository
        self._grpc = grpc_server
        self._rest = rest
        ports = {"grpc": grpc_server.port, "rest": rest.port}
        self._addresses = {protocol: address_of(host, port, protocol) for protocol, port in ports.items()}
        self._closed = False

    def addresses(self) -> dict[str, str]:
        """`host:port` or `unix:PATH` by protocol, "grpc" and "rest"."""
        return dict(self._addresses)

    def tell_ready(self) -> None:
        """Bring the health pages of gRPC up to date. Those of HTTP look for themselves."""
        self._grpc.tell_ready(is_ready=self._repository.is_available)

    def drain(self, limit_s: float) -> None:
        """Turn unready, then refuse new requests, answer those that are under way, and close.
        grpc.Server.stop alone cancels requests that it has read and not yet handed to a thread."""
        self._grpc.turn_unready()
        self._repository.admission.drain(limit_s)
        self.close(_WATCH_GRACE_S if self._repository.admission.is_idle else _GRACE_S)

    def close(self, grace_s: float = _GRACE_S) -> None:
        """Stop the listeners and let go of the models; requests under way get a few seconds. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        stopped = self._grpc.stop(grace_s)
        self._rest.close()
        stopped.wait()
        self._repository.close()


def listen(
    repository: Repository, host: str, grpc_port: int, rest_port: int, security: EndpointSecurity = OPEN
) -> EmbeddedServer:
    """Start both listeners; port 0 takes a free one. The repository is closed with the server.
    Raises BadRequest where a port is taken, ToolMissing where a library is missing."""
    security = replace(security, host=host)
    with ExitStack() as undo:
        try:
            from . import http_server, tfserving_grpc

            rest = http_server.HttpServer(repository, host, rest_port, security=security)
            undo.callback(rest.close)
            grpc_server = tfserving_grpc.GrpcServer(repository, host, grpc_port, security=security)
        except ModuleNotFoundError as error:
            raise ToolMissing(f"the server needs {error.name}", fix="transload doctor") from error
        undo.pop_all()
    return EmbeddedServer(repository, grpc_server, rest, host)


def open_server(**document: Any) -> EmbeddedServer:
    """Serve an artifact by EmbeddedOptions as JSON, in this process; the server answers when this returns.
    Raises BadRequest where the artifact cannot be opened or a port is taken, ToolMissing where a library is missing."""
    options = EmbeddedOptions.from_json(document)
    opened = open_artifact(Path(options.folder), options.device, options.threads, options.runtime, options.settings)
    repository = hold_session(options.name, opened.session, opened.runtime, options.max_body_bytes)
    with ExitStack() as undo:
        undo.callback(repository.close)
        server = listen(repository, options.host, options.grpc_port, options.rest_port)
        undo.pop_all()
    return server


def open_artifact(
    folder: Path, device: str, threads: int, runtime: str | None = None, settings: Mapping[str, Value] | None = None
) -> OpenedSession:
    """Open an artifact in the runtime of its format, or what is in the folder in `runtime`, with that runtime's
    `settings`. Raises what that raises."""
    if runtime is None:
        runtime = read_artifact(folder).target.format.spec.runtime
    chosen = RuntimeSettings(runtime, settings or {})
    open_session = load_entry(RUNTIMES[runtime].entry)
    return OpenedSession(open_session(folder, device, chosen.threads(threads), **chosen.keywords), runtime)


def open_host(
    *, folder: str, device: str, threads: int, line: int, settings: Mapping[str, Value] | None = None
) -> SessionHost:
    """Open an artifact in this process, a worker's, and answer the connections that come by the socket `line`.
    Raises as the runtime."""
    session = open_artifact(Path(folder), device, threads, settings=settings).session
    return SessionHost(session, socket.socket(fileno=line), other_sessions_of(session))
