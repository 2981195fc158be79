"""The embedded server: one artifact behind TF Serving's gRPC and REST. It runs in a worker process of its own, because
a runtime may abort; the caller sees to that."""

from __future__ import annotations

from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.artifact import read_artifact
from ...models.errors import ToolMissing
from ..runtimes.runtime_table import RUNTIMES
from .access_log import AccessLog
from .served_model import ServedModel
from .server_records import EmbeddedOptions, url_host

if TYPE_CHECKING:
    from .tfserving_grpc import GrpcServer
    from .tfserving_rest import RestServer

_GRACE_S = 5.0  # for requests under way
_WATCH_GRACE_S = 0.2  # after a drain nothing is under way but streams that watch the health


class EmbeddedServer:
    """A served model and its two listeners."""

    def __init__(self, model: ServedModel, grpc_server: GrpcServer, rest: RestServer, host: str) -> None:
        self._model = model
        self._grpc = grpc_server
        self._rest = rest
        self._addresses = {"grpc": f"{url_host(host)}:{grpc_server.port}", "rest": f"{url_host(host)}:{rest.port}"}
        self._closed = False

    def addresses(self) -> dict[str, str]:
        """`host:port` by protocol, "grpc" and "rest"."""
        return dict(self._addresses)

    @property
    def device(self) -> str:
        """Where the model runs, as its runtime read it back."""
        return self._model.device

    def drain(self, limit_s: float) -> None:
        """Turn unready, then refuse new requests, answer those that are under way, and close.
        grpc.Server.stop alone cancels requests that it has read and not yet handed to a thread."""
        self._grpc.turn_unready()
        self._model.admission.drain(limit_s)
        self.close(_WATCH_GRACE_S if self._model.admission.is_idle else _GRACE_S)

    def close(self, grace_s: float = _GRACE_S) -> None:
        """Stop the listeners and let go of the model; requests under way get a few seconds. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        stopped = self._grpc.stop(grace_s)
        self._rest.close()
        stopped.wait()
        self._model.close()


def open_server(**document: Any) -> EmbeddedServer:
    """Serve an artifact by EmbeddedOptions as JSON; the server answers when this returns.
    Raises BadRequest where the artifact cannot be opened or a port is taken, ToolMissing where a library is missing."""
    options = EmbeddedOptions.from_json(document)
    folder = Path(options.folder)
    form = read_artifact(folder).target.format
    runtime = next(runtime for runtime in RUNTIMES.values() if form in runtime.takes and not runtime.served)
    module, _, entry = runtime.entry.partition(":")
    session = getattr(import_module(module), entry)(folder, options.device, options.threads)
    log = None if options.access_log is None else AccessLog(options.access_log)
    model = ServedModel(options.name, session, options.max_body_bytes, runtime.name, log)
    with ExitStack() as undo:
        undo.callback(model.close)
        try:
            from . import tfserving_grpc, tfserving_rest

            rest = tfserving_rest.RestServer(model, options.host, options.rest_port)
            undo.callback(rest.close)
            grpc_server = tfserving_grpc.GrpcServer(model, options.host, options.grpc_port)
        except ModuleNotFoundError as error:
            raise ToolMissing(f"the server needs {error.name}", fix="transload doctor") from error
        undo.pop_all()
    return EmbeddedServer(model, grpc_server, rest, options.host)
