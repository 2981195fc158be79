"""One HTTP connection: the order of replies, what is said of broken requests, and clients that do not read."""

from __future__ import annotations

import http.client
import json
import socket
import time
from typing import Any

import numpy as np
import pytest

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
