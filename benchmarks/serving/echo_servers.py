"""Servers that send back what they get: python echo_servers.py grpc|asgi. Prints the port.

What the libraries themselves cost: grpc's synchronous server with eight threads, uvicorn with uvloop and httptools. The
settings are those that cost least.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def serve_grpc() -> None:
    """Serve one method that returns its request."""
    import grpc

    handler = grpc.unary_unary_rpc_method_handler(lambda data, context: data)  # noqa: ARG005
    server = grpc.server(ThreadPoolExecutor(8), options=(("grpc.so_reuseport", 0),))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo.Echo", {"Echo": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ARG001
    """Send the body of a request back."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def serve_asgi() -> None:
    """Serve `echo` on uvicorn."""
    import socket

    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(
        echo, loop="uvloop", http="httptools", ws="none", lifespan="off", interface="asgi3", access_log=False,
        proxy_headers=False, server_header=False, log_level="warning",
    )  # fmt: skip
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    {"grpc": serve_grpc, "asgi": serve_asgi}[sys.argv[1]]()
