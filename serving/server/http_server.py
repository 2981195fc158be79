"""The HTTP listener: connections on uvloop, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from ..endpoint_security import OPEN, UNIX, EndpointSecurity
from .http_app import HttpApplication
from .http_connection import HttpConnection
from .listener_address import listen_on, remove_socket
from .repository.model_repository import Repository
from .repository.served_version import MOST_WAITING
from .server_records import READ_TIMEOUT_S

_WORKERS = MOST_WAITING + 8  # started as they are needed; all but a few may wait for the model
_BACKLOG = 2048
_GRACE_S = 5.0  # for requests under way
_POLL_S = 0.01


class HttpServer:
    """An HTTP server that is answering when it is made. Raises BadRequest where the port is taken."""

    def __init__(
        self,
        repository: Repository,
        host: str,
        port: int,
        read_timeout_s: float = READ_TIMEOUT_S,
        security: EndpointSecurity = OPEN,
    ) -> None:
        import uvloop

        self._socket = listen_on(host, port, "rest")
        self._host = host
        self.port: int = 0 if host.startswith(UNIX) else self._socket.getsockname()[1]
        self._application = HttpApplication(repository, security)
        self._tls = security.context
        self._executor = ThreadPoolExecutor(_WORKERS, thread_name_prefix="http")
        self._connections: set[HttpConnection] = set()
        self._read_timeout_s = read_timeout_s
        self._loop = uvloop.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer what has been asked, then stop. Safe to call twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(2 * _GRACE_S)
            remove_socket(self._host, "rest")  # gRPC removes its own
        self._executor.shutdown(wait=False)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        def connect() -> HttpConnection:
            return HttpConnection(self._application, self._executor, self._connections, self._read_timeout_s)

        handshake_s = None if self._tls is None else self._read_timeout_s
        create_server = self._loop.create_unix_server if self._host.startswith(UNIX) else self._loop.create_server
        server = await create_server(
            connect, sock=self._socket, backlog=_BACKLOG, ssl=self._tls, ssl_handshake_timeout=handshake_s
        )
        await self._stop.wait()
        server.close()
        for connection in [*self._connections]:
            connection.shut_down()
        end = time.monotonic() + _GRACE_S
        while self._connections and time.monotonic() < end:
            await asyncio.sleep(_POLL_S)
        for connection in [*self._connections]:
            connection.abort()
        await asyncio.sleep(0)
