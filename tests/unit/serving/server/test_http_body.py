"""gzip bodies in REST: read, written, and refused before they take memory."""

from __future__ import annotations

import gzip
import http.client
import json
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from transload.serving.server.http_server import HttpServer
from transload.serving.server.repository.model_repository import hold_session

BODY = b'{"instances": [[1, 2]]}'
ANSWER = {"predictions": [[2.0, 4.0]]}
GZIP = {"Content-Encoding": "gzip"}


def ask(address: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any, bytes]:
    link = http.client.HTTPConnection(address, timeout=60)
    link.request("POST", "/v1/models/m:predict", body, headers)
    reply = link.getresponse()
    answer = reply.status, reply.headers, reply.read()
    link.close()
    return answer


@pytest.fixture
def small(one: Any) -> Iterator[str]:
    """A server that takes bodies of 100 kB."""
    server = HttpServer(hold_session("m", one.session, max_body_bytes=100_000), "127.0.0.1", 0)
    yield f"127.0.0.1:{server.port}"
    server.close()


@pytest.mark.parametrize("headers", [GZIP, {"Content-Encoding": " GZIP "}])
def test_a_gzip_body_is_read(one: Any, headers: dict[str, str]) -> None:
    status, reply_headers, body = ask(one.addresses["rest"], gzip.compress(BODY), headers)
    assert (status, json.loads(body)) == (200, ANSWER)
    assert "content-encoding" not in reply_headers


def test_a_deflate_body_is_read(one: Any) -> None:
    headers = {"Content-Encoding": "deflate"}
    status, _, body = ask(one.addresses["rest"], zlib.compress(BODY), headers)
    assert (status, json.loads(body)) == (200, ANSWER)
    status, _, body = ask(one.addresses["rest"], zlib.compress(BODY)[:-4], headers)
    assert (status, json.loads(body)) == (400, {"error": "the body of the request is no complete deflate stream"})


def test_a_body_of_several_decompressed_chunks_is_read(one: Any) -> None:
    rows = [[1.0, 2.0]] * 300_000
    data = json.dumps({"instances": rows}).encode()
    assert len(data) > 3 << 20
    status, _, body = ask(one.addresses["rest"], gzip.compress(data), GZIP)
    assert (status, len(json.loads(body)["predictions"])) == (200, 300_000)


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [("gzip", "gzip"), ("br, gzip;q=0.5", "gzip"), ("identity", None), ("gzip;q=0", None), ("gzip; q=0.0", None)],
)
def test_a_long_answer_is_compressed_for_who_takes_it(one: Any, accept: str, encoding: str | None) -> None:
    data = json.dumps({"instances": [[1, 2]] * 1000}).encode()
    status, headers, body = ask(one.addresses["rest"], data, {"Accept-Encoding": accept})
    assert (status, headers["content-encoding"]) == (200, encoding)
    assert len(json.loads(gzip.decompress(body) if encoding else body)["predictions"]) == 1000


def test_a_short_answer_is_not_compressed(one: Any) -> None:
    _, headers, body = ask(one.addresses["rest"], BODY, {"Accept-Encoding": "gzip"})
    assert (headers["content-encoding"], json.loads(body)) == (None, ANSWER)


@pytest.mark.parametrize(
    ("body", "encoding", "words"),
    [
        (BODY, "gzip", "the body of the request is no gzip stream: Error -3"),
        (gzip.compress(BODY)[:-4], "gzip", "the body of the request is no complete gzip stream"),
        (b"", "gzip", "the body of the request is no complete gzip stream"),
        (BODY, "br", "Content-Encoding: br is none of gzip, deflate, identity"),
    ],
    ids=["plain", "cut", "empty", "br"],
)
def test_what_is_no_gzip_is_400(one: Any, body: bytes, encoding: str, words: str) -> None:
    status, _, reply = ask(one.addresses["rest"], body, {"Content-Encoding": encoding})
    assert status == 400
    assert json.loads(reply)["error"].startswith(words)
    assert one.session.runs == 0


def test_the_limit_holds_for_the_decompressed_body(small: str, one: Any) -> None:
    padded = BODY + b" " * (100_000 - len(BODY))
    assert ask(small, gzip.compress(padded), GZIP)[0] == 200
    status, _, reply = ask(small, gzip.compress(padded + b" "), GZIP)
    assert (status, json.loads(reply)) == (413, {"error": "the body of a request has at most 100000 bytes"})
    assert ask(small, BODY, {})[0] == 200


def test_a_gigabyte_of_zeros_is_refused_and_memory_stays_flat(one: Any) -> None:
    packer = zlib.compressobj(9, wbits=31)
    zeros = bytes(1 << 20)
    bomb = b"".join([packer.compress(zeros) for _ in range(1024)]) + packer.flush()
    assert len(bomb) < 2 << 20
    server = HttpServer(hold_session("m", one.session, max_body_bytes=1 << 20), "127.0.0.1", 0)
    tracemalloc.start()
    try:
        for _ in range(3):
            status, _, reply = ask(f"127.0.0.1:{server.port}", bomb, GZIP)
            assert (status, json.loads(reply)) == (413, {"error": "the body of a request has at most 1048576 bytes"})
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
        server.close()
