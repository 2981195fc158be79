"""Sends back what it gets over the HTTP connection of `transload serve`. Prints the port.

It runs on the same uvloop and httptools as uvicorn's echo (echo_servers.py), whose process has nothing of ours loaded.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import uvloop

from transload.serving.server.http_connection import HttpConnection
from transload.serving.server.http_messages import DispatchMode, HttpReply, HttpRequest
from transload.serving.server.server_records import READ_TIMEOUT_S


class EchoApplication:
    """Answers each request with its own body, at once on the event loop, and counts nothing."""

    max_body_bytes = 1 << 28

    def begin(self, request: HttpRequest) -> None:
        """Count nothing."""

    def end(self, request: HttpRequest) -> None:
        """Count nothing."""

    def dispatch_mode(self, request: HttpRequest) -> DispatchMode:  # noqa: ARG002
        """Return that a request is answered at once."""
        return DispatchMode.LOOP

    def answer(self, request: HttpRequest) -> HttpReply:
        """Return the request's body."""
        return HttpReply(b"".join(request.parts))

    def begin_answer(self, request: HttpRequest, receiver: object) -> HttpReply:  # noqa: ARG002
        """Return the request's body: no model is asked."""
        return self.answer(request)

    def end_answer(self, request: HttpRequest, prediction: object, outcome: object) -> HttpReply:  # noqa: ARG002
        """Return the request's body."""
        return self.answer(request)


async def serve() -> None:
    """Print a free port of the loopback, and echo on it until the process is killed."""
    executor, connections = ThreadPoolExecutor(1), set[HttpConnection]()
    application = EchoApplication()
    server = await asyncio.get_running_loop().create_server(
        lambda: HttpConnection(application, executor, connections, READ_TIMEOUT_S), "127.0.0.1", 0
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
