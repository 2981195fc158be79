"""Servers of the Open Inference Protocol that are not ours: wrong answers fail the model, and nothing else does."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload import bench, validate
from transload.models.dataset import Dataset, write_dataset
from transload.models.job import Job
from transload.models.signature import Array, Signature, parse_input
from transload.pipeline.cli import main
from transload.pipeline.drift import jobs, reference
from transload.pipeline.result.schema import Verdict
from transload.serving.checked_session import CheckedSession
from transload.serving.clients import oip_grpc_client, oip_http_client

from . import foreign_servers as foreign
from .test_served_urls import write_double

Answer = Callable[[Array], Mapping[str, Array]]
ONE = Signature((parse_input("x=float32[batch,2]"),), (parse_input("y=float32[batch,2]"),))
BINARY = ["binary_tensor_data", "statistics"]
PROTOCOLS: dict[str, tuple[str, Callable[..., Any], Callable[..., AbstractContextManager[str]]]] = {
    "http, JSON": ("oip-http", oip_http_client.open_session, foreign.http_server),
    "http, no extension": ("oip-http", oip_http_client.open_session, partial(foreign.http_server, extensions=[])),
    "http, bytes": ("oip-http", oip_http_client.open_session, partial(foreign.http_server, extensions=BINARY)),
    "grpc": ("oip-grpc", oip_grpc_client.open_session, foreign.grpc_server),
}
HTTP_STATUSES = (302, 400, 401, 404, 413, 415, 422, 429, 500, 502, 503, 504)
GRPC_STATUSES = (
    "INVALID_ARGUMENT", "NOT_FOUND", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "UNKNOWN", "ABORTED", "CANCELLED", "DATA_LOSS",
)  # fmt: skip


class _Double(CheckedSession):
    """The reference: y = 2 x."""

    def __init__(self) -> None:
        super().__init__("numpy", ONE, "cpu")

    def _answer(self, values: Any) -> list[Array]:
        return [values[0] * np.float32(2)]

    def _release(self) -> None: ...


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Mapping[str, Any]]:
    """Compare the server at an address with y = 2 x, as the worker of `validate` does."""
    write_dataset(tmp_path / "test.npz", Dataset({"x": np.random.default_rng(3).normal(size=(12, 2)).astype("f4")}))
    monkeypatch.setattr(reference, "open_for", lambda *_: _Double())
    folders = {"artifact": tmp_path, "model": tmp_path, "data": tmp_path, "reference": tmp_path}
    reference.answer(Job(folders, tmp_path, {"runtime": "torch", "stress": True, "random": True}))

    def run(protocol: str, address: str, server: str = "remote") -> Mapping[str, Any]:
        runtime, opening, _ = PROTOCOLS[protocol]
        monkeypatch.setattr(jobs, "open_for", lambda *_: opening(address, "m", ONE, 0.4))
        options = {"runtime": runtime, "device": "auto", "precision": "fp32", "server": server}
        return jobs.validate(Job(folders, tmp_path, {**options, "signature": ONE.to_json()}))

    return run


def verdicts(facts: Mapping[str, Any]) -> set[str]:
    return {row["verdict"] for row in facts["rows"]}


def silent(protocol: str) -> list[tuple[str, Answer]]:
    """Return what a server may do in place of an answer."""
    statuses = GRPC_STATUSES if protocol == "grpc" else HTTP_STATUSES
    return [
        *((f"answers {code}", foreign.status(code)) for code in statuses),
        ("answers nothing in time", foreign.hangs),
        ("cuts the body", foreign.cuts),
    ]


@pytest.mark.parametrize(
    ("protocol", "answer"),
    [pytest.param(name, answer, id=f"{name}: {what}") for name in PROTOCOLS for what, answer in silent(name)],
)
def test_no_answer_of_a_foreign_server_is_inconclusive(
    protocol: str, answer: Answer, check: Callable[..., Mapping[str, Any]]
) -> None:
    with PROTOCOLS[protocol][2](answer) as address:
        facts = check(protocol, address)
    assert verdicts(facts) == {"inconclusive"}
    assert facts.get("reason") is None
    assert "could not be asked: " in facts["silence"]
    assert "; " in facts["silence"].partition("could not be asked: ")[2]  # the mend stands behind it


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", foreign.WRONG)
def test_wrong_answers_of_a_foreign_server_fail(
    protocol: str, kind: str, check: Callable[..., Mapping[str, Any]]
) -> None:
    with PROTOCOLS[protocol][2](foreign.WRONG[kind]) as address:
        facts = check(protocol, address)
    assert "fail" in verdicts(facts)
    assert facts["reason"]
    assert "could not be asked" not in facts["reason"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_right_answers_pass_whatever_is_refused_of_nan(protocol: str, check: Callable[..., Mapping[str, Any]]) -> None:
    code = "INTERNAL" if protocol == "grpc" else 500
    for answer in (foreign.right, foreign.refuses_nan(code)):
        with PROTOCOLS[protocol][2](answer) as address:
            facts = check(protocol, address)
        assert verdicts(facts) == {"pass"}, facts
        assert facts.get("silence") is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_wrong_answer_counts_more_than_one_that_does_not_come(
    protocol: str, check: Callable[..., Mapping[str, Any]]
) -> None:
    refused, failed = ("INVALID_ARGUMENT", "INTERNAL") if protocol == "grpc" else (400, 500)
    with PROTOCOLS[protocol][2](foreign.refuses_above(12, refused)) as address:
        facts = check(protocol, address)
    assert verdicts(facts) == {"pass", "inconclusive"}
    assert facts["silence"].startswith("at batch 65: could not be asked: ")
    with PROTOCOLS[protocol][2](foreign.fails_but_lies_above(4, failed)) as address:
        facts = check(protocol, address)
    assert {"fail", "inconclusive"} <= verdicts(facts)
    assert "agrees to" in facts["reason"]


def test_our_own_server_owes_its_answers(check: Callable[..., Mapping[str, Any]]) -> None:
    with foreign.http_server(foreign.status(500)) as address:
        facts = check("http, JSON", address, server="embedded")
    assert verdicts(facts) == {"fail"}
    assert "answers 500" in facts["silence"]


def test_nobody_is_asked_after_three_time_outs(check: Callable[..., Mapping[str, Any]]) -> None:
    calls = []

    def hangs(x: Array) -> Mapping[str, Array]:
        calls.append(len(x))
        return foreign.hangs(x)

    with foreign.http_server(hangs) as address:
        facts = check("http, JSON", address)
    assert len(calls) == 3
    assert verdicts(facts) == {"inconclusive"}


@pytest.fixture
def local(tmp_path: Path) -> dict[str, Any]:
    return {"runs": tmp_path / "runs", "store": tmp_path / "store", "jobs": 1}


@pytest.mark.usefixtures("loaded_once")
@pytest.mark.parametrize(
    ("answer", "verdict", "status"),
    [
        (foreign.right, Verdict.PASS, 0),
        (foreign.status(500), Verdict.INCONCLUSIVE, 3),
        (foreign.refuses_above(8, 422), Verdict.INCONCLUSIVE, 3),
        (foreign.WRONG["numbers"], Verdict.FAIL, 1),
    ],
)
def test_the_commands_tell_them_apart(
    answer: Answer, verdict: Verdict, status: int, local: dict[str, Any], tmp_path: Path
) -> None:
    copy = write_double(tmp_path / "double.onnx")
    with foreign.http_server(answer) as address:
        url = f"http://{address}/v2/models/m"
        result = validate(url, against=copy, batches=[1], **local)
        assert (result.decided[0], int(result.decided[1])) == (verdict, status), result.gate
        if answer is foreign.WRONG["numbers"]:
            return
        measured = bench(url, copy, against=copy, batches=[1, 16], rounds=3, processes=1, budget_s=0, **local)
    expected = (Verdict.PASS, 0) if status == 0 else (Verdict.INCONCLUSIVE, 4)
    assert (measured.decided[0], int(measured.decided[1])) == expected
    words = {row.doubts[0] for row in measured.latency if row.p50_s is None}
    assert all("refuses the request" in text or "answers 500" in text for text in words)


@pytest.mark.parametrize("status", [500, 503, 0])
def test_a_server_that_cannot_say_what_it_has_is_status_4(
    status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A status of 0: nobody is there."""
    monkeypatch.chdir(tmp_path)
    copy = write_double(tmp_path / "double.onnx")
    with (
        foreign.http_server(foreign.right, metadata=status or 200) as served,
        socket.create_server(("127.0.0.1", 0)) as probe,
    ):
        address = served if status else f"127.0.0.1:{probe.getsockname()[1]}"
        if not status:
            probe.close()
        for command in ("validate", "bench"):
            assert main([command, f"http://{address}/v2/models/m", "--against", copy, "--quiet"]) == 4
            what, fix = capsys.readouterr().err.splitlines()
            assert what.startswith(f"error: http://{address}/v2/models/m: {address} ")
            assert fix == "  fix: check host, port and model, and that it is started"
