"""Connections that do not send their request are closed, in both protocols, and large headers are refused."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from transload.serving.server import tfserving_grpc
from transload.serving.server.http_server import HttpServer
from transload.serving.server.repository.model_repository import hold_session

PATH = "/v1/models/m"
HALF = [
    b"",
    b"GET /v1/models/m HTTP/1.1\r\nHost: localhost\r\nX-Half: ",
    b"POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{",
]


@pytest.fixture
def rest(one) -> Iterator[HttpServer]:
    server = HttpServer(hold_session("m", one.session), "127.0.0.1", 0, read_timeout_s=0.5)
    yield server
    server.close()


def are_closed(links: list[socket.socket]) -> bool:
    for link in links:
        link.settimeout(60)
        try:
            while link.recv(65536):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
    return True


def test_300_half_open_connections_are_closed_and_others_are_served(
    rest: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        links = [stack.enter_context(socket.create_connection(("127.0.0.1", rest.port))) for _ in range(300)]
        for at, link in enumerate(links):
            link.sendall(HALF[at % len(HALF)])
        kept = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=60)
        stack.callback(kept.close)
        kept.request("GET", PATH)
        assert kept.getresponse().read()
        socket_of_kept = kept.sock
        assert are_closed(links)
        time.sleep(1)  # longer than the time-out: between requests another, longer one counts
        kept.request("GET", PATH)
        assert kept.getresponse().status == 200
        assert kept.sock is socket_of_kept
    assert caplog.records == []


def test_a_header_that_comes_in_drips_is_closed_too(rest: HttpServer) -> None:
    """Each drip is within the time-out, the whole header is not."""
    with socket.create_connection(("127.0.0.1", rest.port)) as link, pytest.raises(OSError):  # noqa: PT011
        link.sendall(b"GET /v1/models/m HTTP/1.1\r\n")
        for _ in range(100):
            time.sleep(0.1)
            link.sendall(b"X: y\r\n")


def test_a_body_that_comes_in_drips_is_closed_too(one: Any) -> None:
    """Each drip is within the time-out of a pause, the whole body takes more than six of it."""
    server = HttpServer(hold_session("m", one.session), "127.0.0.1", 0, read_timeout_s=0.2)
    with socket.create_connection(("127.0.0.1", server.port)) as link, pytest.raises(OSError):  # noqa: PT011
        link.sendall(b"POST /v1/models/m:predict HTTP/1.1\r\nContent-Length: 999\r\n\r\n")
        for _ in range(200):
            time.sleep(0.1)
            link.sendall(b" ")
    server.close()


def test_a_body_may_come_in_pieces(rest: HttpServer) -> None:
    body = b'{"instances": [[1, 2]]}'
    with socket.create_connection(("127.0.0.1", rest.port), 60) as link:
        link.sendall(b"POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body))
        for at in range(0, len(body), 4):
            time.sleep(0.15)
            link.sendall(body[at : at + 4])
        assert link.recv(65536).startswith(b"HTTP/1.1 200 OK")


def test_a_model_slower_than_the_time_out_answers(rest: HttpServer, one) -> None:
    one.session.act = lambda: time.sleep(1.2)
    link = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=60)
    link.request("POST", f"{PATH}:predict", b'{"instances": [[1, 2]]}')
    assert link.getresponse().status == 200
    link.close()


@pytest.mark.parametrize("size", [17 << 10, 1 << 20])
@pytest.mark.parametrize("end", [b"\r\n\r\n", b""], ids=["whole", "half"])
def test_a_header_above_16_kb_is_431(one, size: int, end: bytes) -> None:
    host, _, port = one.addresses["rest"].partition(":")
    with socket.create_connection((host, int(port)), 60) as link:
        link.sendall(b"GET /v1/models/m HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"x" * size + end)
        reply = http.client.HTTPResponse(link)
        reply.begin()
        assert (reply.status, json.loads(reply.read())) == (
            431,
            {"error": "the header of a request has at most 16384 bytes"},
        )
        assert are_closed([link])


def test_many_small_fields_count_together_and_the_next_header_anew(one) -> None:
    link = http.client.HTTPConnection(one.addresses["rest"], timeout=60)
    for _ in range(3):
        link.request("GET", PATH, headers={f"X-{at}": "x" * 900 for at in range(15)})
        reply = link.getresponse()
        reply.read()
        assert reply.status == 200
    link.request("GET", PATH, headers={f"X-{at}": "x" * 900 for at in range(20)})
    assert link.getresponse().status == 431
    link.close()


def test_half_open_connections_of_grpc_are_closed(one) -> None:
    server = tfserving_grpc.GrpcServer(hold_session("m", one.session), "127.0.0.1", 0, read_timeout_s=0.5)
    with ExitStack() as stack:
        links = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(300)]
        for link in links[::2]:
            link.sendall(b"PRI * HTTP/2.0\r\n")
        assert are_closed(links)
    server.stop(1).wait()
