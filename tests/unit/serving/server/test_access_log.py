"""The access log: what a line holds in each protocol, and that no request fails with it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from transload.models.errors import BadRequest
from transload.serving.server.access_log import AccessLog
from transload.serving.server.http_server import HttpServer
from transload.serving.server.metrics import RequestRecord
from transload.serving.server.repository.model_repository import hold_session
from transload.serving.server.tfserving_grpc import GrpcServer
from transload.serving.wire.tfserving_messages import stock

BODY = b'{"instances": [[1, 2]]}'


@pytest.fixture
def rest(one: Any, tmp_path: Path) -> Iterator[HttpServer]:
    log = AccessLog(str(tmp_path / "log"))
    server = HttpServer(hold_session("m", one.session, access_log=log), "127.0.0.1", 0)
    yield server
    server.close()
    log.close()


def ask(server: HttpServer, method: str, path: str, body: bytes | None = None) -> int:
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    link.request(method, path, body)
    reply = link.getresponse()
    length = len(reply.read())
    link.close()
    return length


def rows(tmp_path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    for line in lines:
        assert datetime.fromisoformat(line.pop("time")).utcoffset() is not None
        assert line.pop("milliseconds") > 0
    return lines


def test_every_request_over_rest_is_a_line(rest: HttpServer, tmp_path: Path) -> None:
    lengths = [
        ask(rest, "POST", "/v1/models/m/versions/1:predict", BODY),
        ask(rest, "POST", "/v1/models/m:predict", b"{"),
        ask(rest, "GET", "/v1/models/other"),
        ask(rest, "GET", "/healthz"),
        ask(rest, "GET", "/monitoring/prometheus/metrics"),
    ]
    expected = [
        ("POST /v1/models/m/versions/1:predict", "m", "1", "OK", 23),
        ("POST /v1/models/m:predict", "m", "", "INVALID_ARGUMENT", 1),
        ("GET /v1/models/other", "other", "", "NOT_FOUND", 0),
        ("GET /healthz", "", "", "OK", 0),
        ("GET /monitoring/prometheus/metrics", "", "", "OK", 0),
    ]
    keys = ("method", "model", "version", "status", "bytes_in")
    assert rows(tmp_path) == [
        {"protocol": "REST", **dict(zip(keys, values, strict=True)), "bytes_out": length}
        for values, length in zip(expected, lengths, strict=True)
    ]


def test_a_request_over_grpc_is_a_line_and_long_names_are_cut(one: Any, tmp_path: Path) -> None:
    server = GrpcServer(hold_session("m", one.session, access_log=AccessLog(str(tmp_path / "log"))), "127.0.0.1", 0)
    message = stock().PredictRequest()
    message.model_spec.name = "x" * 10_000
    data = message.SerializeToString()
    method = "/tensorflow.serving.PredictionService/Predict"
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary(method)(data, timeout=60)
    server.stop(1).wait()
    assert rows(tmp_path) == [
        {
            "protocol": "GRPC", "method": method, "model": "x" * 256, "version": "", "status": "NOT_FOUND",
            "bytes_in": len(data), "bytes_out": 0,
        }
    ]  # fmt: skip


def test_a_full_disk_loses_the_line_and_not_the_answer(one: Any) -> None:
    server = HttpServer(hold_session("m", one.session, access_log=AccessLog("/dev/full")), "127.0.0.1", 0)
    assert ask(server, "POST", "/v1/models/m:predict", BODY) == len(b'{"predictions":[[2.0,4.0]]}')
    server.close()


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        AccessLog(str(tmp_path))
    assert str(caught.value) == (
        f"the access log {tmp_path} cannot be written: Is a directory\n  fix: name another file"
    )


def test_a_full_disk_is_told_once(one: Any) -> None:
    told: list[str] = []
    log = AccessLog("/dev/full", warn=told.append)
    for _ in range(3):
        log.add(RequestRecord("REST", "GET /healthz"))
    sentence = "the access log /dev/full cannot be written: No space left on device; requests are answered all the same"
    assert told == [sentence]
    log.close()


def test_a_warning_that_cannot_be_printed_fails_no_request() -> None:
    def warn(_: str) -> None:
        raise OSError(28, "No space left on device")

    log = AccessLog("/dev/full", warn=warn)
    log.add(RequestRecord("REST", "GET /healthz"))
    log.close()


def count(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_a_log_is_opened_again_and_no_line_is_lost(tmp_path: Path) -> None:
    told: list[str] = []
    path, former = tmp_path / "log", tmp_path / "log.old"
    log = AccessLog(str(path), warn=told.append)
    stop = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            log.add(RequestRecord("REST", "GET /healthz"))
            written += 1

    thread = threading.Thread(target=write)
    thread.start()
    total = 0
    for _ in range(20):
        path.rename(former)
        assert log.reopen()
        time.sleep(0.002)
        total += count(former)  # whole lines
    stop.set()
    thread.join()
    assert total + count(path) == written
    assert told == []
    log.close()


def test_a_log_that_was_renamed_or_removed_is_begun_anew_and_told(tmp_path: Path) -> None:
    told: list[str] = []
    path = tmp_path / "log"
    log = AccessLog(str(path), warn=told.append)
    for remove in (path.unlink, lambda: path.rename(tmp_path / "log.old")):
        log.check()
        remove()
        log.check()
        log.check()
        log.add(RequestRecord("REST", "GET /healthz"))
        assert count(path) == 1
    assert told == [f"the access log {path} was renamed or removed, and is begun anew"] * 2
    log.close()


def test_a_log_whose_folder_is_gone_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    folder = tmp_path / "logs"
    folder.mkdir()
    log = AccessLog(str(folder / "log"), warn=told.append)
    folder.rename(tmp_path / "moved")
    for _ in range(3):
        log.check()
        log.add(RequestRecord("REST", "GET /healthz"))
    (sentence,) = told
    assert "cannot be opened: No such file or directory" in sentence
    folder.mkdir()
    log.check()
    assert told[1:] == [f"the access log {folder / 'log'} was renamed or removed, and is begun anew"]
    log.close()


def test_a_log_that_has_grown_to_its_limit_is_kept_once(tmp_path: Path) -> None:
    told: list[str] = []
    path = tmp_path / "log"
    log = AccessLog(str(path), limit_bytes=1000, warn=told.append)
    for lines in (7, 8):
        for _ in range(lines):
            log.add(RequestRecord("REST", "GET /healthz"))
        log.check()
        assert count(tmp_path / "log.1") == lines
        assert count(path) == 0
    assert told == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log", "log.1"]
    log.close()
