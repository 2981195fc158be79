"""One HTTP connection: the order of replies, what is said of broken requests, and clients that do not read."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
import pytest

from transload.serving.server import http_connection
from transload.serving.server.http_connection import HttpConnection
from transload.serving.server.http_messages import DispatchMode, HttpReply, HttpRequest
from transload.serving.server.http_server import HttpServer
from transload.serving.server.repository.model_repository import hold_session

BODY = b'{"instances": [[1, 2]]}'


def predict(body: bytes = BODY, fields: bytes = b"") -> bytes:
    head = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\n%bContent-Length: %d\r\n\r\n" % (
        fields,
        len(body),
    )
    return head + body


def connect(served: Any) -> socket.socket:
    host, _, port = served.addresses["rest"].partition(":")
    return socket.create_connection((host, int(port)), 60)


def read_replies(link: socket.socket, count: int) -> list[tuple[int, bytes]]:
    file = link.makefile("rb")
    replies = []
    for _ in range(count):
        status = int(file.readline().split()[1])
        length = 0
        while line := file.readline().strip():
            name, _, value = line.partition(b": ")
            length = int(value) if name == b"content-length" else length
        replies.append((status, file.read(length)))
    return replies


@pytest.mark.parametrize("delay_s", [0.0, 0.02], ids=["on-the-loop", "in-a-thread"])
def test_requests_sent_at_once_are_answered_in_their_order(one: Any, delay_s: float) -> None:
    one.session.act = lambda: time.sleep(delay_s)
    bodies = [json.dumps({"instances": [[at, at]]}).encode() for at in range(20)]
    with connect(one) as link:
        link.sendall(b"".join(predict(body) for body in bodies) + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        replies = read_replies(link, 21)
    assert [status for status, _ in replies] == [200] * 21
    assert [json.loads(body)["predictions"] for _, body in replies[:20]] == [[[2.0 * at] * 2] for at in range(20)]
    assert replies[20][1] == b'{"status":"ok"}'
    assert one.session.most_inside == 1


def test_a_client_that_asks_whether_to_go_on_is_told_so(one: Any) -> None:
    data = predict(fields=b"Expect: 100-continue\r\n")
    with connect(one) as link:
        link.sendall(data[: -len(BODY)])
        assert link.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        link.sendall(BODY)
        assert read_replies(link, 1) == [(200, b'{"predictions":[[2.0,4.0]]}')]


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["tls", "length", "smuggled", "target"],
)
def test_what_is_no_http_is_400_and_the_connection_ends(one: Any, data: bytes) -> None:
    with connect(one) as link:
        link.sendall(data)
        assert read_replies(link, 1) == [(400, b'{"error":"the request is no HTTP"}')]
        assert link.recv(1) == b""
    assert one.session.runs == 0


@pytest.mark.parametrize(
    "request_line", [b"GET /healthz HTTP/1.0\r\n", b"GET /healthz HTTP/1.1\r\nConnection: close\r\n"]
)
def test_a_client_that_wants_one_reply_gets_it_and_the_end(one: Any, request_line: bytes) -> None:
    with connect(one) as link:
        link.sendall(request_line + b"Host: localhost\r\n\r\n")
        reply = b"".join(iter(lambda: link.recv(4096), b""))
    assert b"\r\nconnection: close\r\n" in reply
    assert reply.endswith(b'\r\n\r\n{"status":"ok"}')


def test_head_has_the_length_and_no_body(one: Any) -> None:
    link = http.client.HTTPConnection(one.addresses["rest"], timeout=60)
    for _ in range(2):
        link.request("HEAD", "/healthz")
        reply = link.getresponse()
        assert (reply.status, reply.headers["content-length"], reply.read()) == (200, "15", b"")
    link.close()


def test_a_target_may_be_quoted_absolute_and_have_a_query(one: Any) -> None:
    for target in ("/v1/models/%6D?x=1", f"http://{one.addresses['rest']}/v1/models/m"):
        link = http.client.HTTPConnection(one.addresses["rest"], timeout=60)
        link.request("GET", target)
        assert link.getresponse().status == 200
        link.close()


def test_a_busy_server_says_when_to_ask_again(one: Any) -> None:
    one.repository.admission._is_accepting = False
    link = http.client.HTTPConnection(one.addresses["rest"], timeout=60)
    link.request("GET", "/v1/models/m")
    reply = link.getresponse()
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert json.loads(reply.read()) == {"error": "the server is shutting down"}
    link.close()


def test_a_fault_of_the_server_is_500_without_a_trace_and_it_goes_on(one: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("secret")

    with monkeypatch.context() as patch:
        patch.setattr(one.repository.metrics, "page", fail)
        with connect(one) as link:
            link.sendall(b"GET /monitoring/prometheus/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" + predict())
            replies = read_replies(link, 2)
    assert replies == [(500, b'{"error":"internal error"}'), (200, b'{"predictions":[[2.0,4.0]]}')]


def test_a_client_that_does_not_read_is_closed_and_takes_little_memory(one: Any) -> None:
    repository = hold_session("m", one.session)
    server = HttpServer(repository, "127.0.0.1", 0, read_timeout_s=0.3)
    data = predict(json.dumps({"instances": np.ones((1500, 2)).tolist()}).encode())
    with socket.create_connection(("127.0.0.1", server.port), 10) as link, pytest.raises(ConnectionError):
        for _ in range(100_000):
            link.sendall(data)
    assert one.session.runs < 5000
    server.close()


class SeenRequests:
    """An application that keeps what it was asked."""

    max_body_bytes = 40

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def begin(self, request: HttpRequest) -> None:
        pass

    def dispatch_mode(self, request: HttpRequest) -> DispatchMode:
        return DispatchMode.LOOP

    def answer(self, request: HttpRequest) -> HttpReply:
        return HttpReply(b"long" if request.is_too_long else b"".join(request.parts))

    def begin_answer(self, request: HttpRequest, receiver: object) -> HttpReply:
        return self.answer(request)

    def end_answer(self, request: HttpRequest, prediction: object, outcome: object) -> HttpReply:
        return self.answer(request)

    def end(self, request: HttpRequest) -> None:
        body = b"".join(request.parts)
        self.seen.append((request.method, request.path, request.headers, request.is_last, request.is_too_long, body))


class FakeTransport:
    """A transport that keeps what was written."""

    def __init__(self) -> None:
        self.sent = b""
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    resume_reading = abort = pause_reading


def random_request(random: Random) -> bytes:
    """Return a request as clients send them, and as they do not, out of few headers and bodies."""
    body = random.choice([b"", b"[1]", b"[22]", b"a\r\n\r\nb", b"POST /a HTTP/1.1\r\n\r\n", b"x" * 50])
    fields = random.choice([b"", b"", b"", b"Host: a\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n"])
    line = random.choice(
        [b"POST /a HTTP/1.1\r\n", b"POST /a HTTP/1.1\r\n", b"\r\nGET /b HTTP/1.1\r\n", b"POST /c HTTP/1.0\r\n"]
    )
    if random.random() < 0.1:
        return (
            line + fields + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body) or 1, body or b"1")
        )
    if random.random() < 0.1:
        return b"\r\n\r\n"  # an empty line or two may come between requests
    if random.random() < 0.05:
        return line + fields + b"Content-Length: %d\r\nContent-Length: 3\r\n\r\n" % len(body) + body
    length = b"Content-Length: %d\r\n" % len(body) if body or random.random() < 0.5 else b""
    return line + fields + length + b"\r\n" + body


def answers_to(pieces: list[bytes]) -> tuple[list[tuple[Any, ...]], bytes, bool]:
    """Return the requests that a connection reads in what comes piece by piece, what it sends, and whether it ends."""

    async def run() -> tuple[list[tuple[Any, ...]], bytes, bool]:
        application, transport = SeenRequests(), FakeTransport()
        connection = HttpConnection(application, ThreadPoolExecutor(1), set(), 30.0)
        connection.connection_made(transport)  # type: ignore[arg-type]
        for piece in pieces:
            connection.data_received(piece)
        connection.connection_lost(None)
        return application.seen, transport.sent, connection._is_ending

    return asyncio.run(run())


def test_a_header_that_is_known_is_read_as_one_that_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_date_line", lambda: b"")
    known: dict[bytes, Any] = {}
    for seed in range(300):
        random = Random(seed)  # noqa: S311
        stream = [random_request(random) for _ in range(random.randint(1, 8))]
        if random.random() < 0.4:  # in other pieces than requests
            data = b"".join(stream)
            ends = [at + 4 for at in range(len(data)) if data.startswith(b"\r\n\r\n", at)]
            cuts = sorted(random.choice([*ends, random.randint(0, len(data))]) for _ in range(random.randint(0, 6)))
            stream = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if start < end]
        monkeypatch.setattr(http_connection, "_known", known)
        quick = answers_to(stream)
        monkeypatch.setattr(http_connection, "_known", {})
        monkeypatch.setattr(http_connection, "_MOST_KNOWN_BYTES", 0)
        assert quick == answers_to(stream), (seed, stream)
        monkeypatch.undo()
        monkeypatch.setattr(http_connection, "_date_line", lambda: b"")
    assert len(known) > 8


def test_known_headers_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[bytes, Any] = {}
    monkeypatch.setattr(http_connection, "_known", known)
    answers_to([b"GET /%d HTTP/1.1\r\n\r\n" % at for at in range(1000)])
    assert len(known) <= 256
    known.clear()
    answers_to([b"GET /%b HTTP/1.1\r\n\r\n" % (b"x" * 2000)])
    assert not known
