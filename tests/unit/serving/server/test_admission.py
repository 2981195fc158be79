"""A server that stops: unready first, then refusing, and no accepted request without its answer."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from typing import Any

import grpc
import numpy as np
import pytest

from transload.serving.server.admission import Admission
from transload.serving.wire.tensor_proto import encode
from transload.serving.wire.tfserving_messages import stock


class Timeline:
    """A clock that sleeping moves, with an act for each time slept until."""

    def __init__(self) -> None:
        self.now = 0.0
        self.acts: list[tuple[float, Any]] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        while self.acts and self.acts[0][0] <= self.now:
            self.acts.pop(0)[1]()


def test_a_drain_turns_unready_then_refuses_and_waits_for_what_is_under_way() -> None:
    time_line, accepted, opened = Timeline(), [], ExitStack()
    admission = Admission(time_line.clock, time_line.sleep)

    def ask() -> None:
        with admission.counted() as is_accepted:
            accepted.append((admission.is_ready, is_accepted))

    ask()
    assert opened.enter_context(admission.counted())
    time_line.acts = [(0.5, ask), (0.6, ask), (3.0, opened.close)]
    admission.drain(25)
    assert accepted == [(True, True), (False, True), (False, False)]
    assert 3.0 < time_line.now < 3.3


def test_a_drain_ends_at_its_limit() -> None:
    time_line = Timeline()
    admission = Admission(time_line.clock, time_line.sleep)
    with admission.counted():
        admission.drain(7)
    assert 7 <= time_line.now < 7.1


def test_a_drain_does_not_wait_for_callers_that_do_not_heed_it() -> None:
    time_line = Timeline()
    admission = Admission(time_line.clock, time_line.sleep)

    def ask() -> None:
        with admission.counted():
            time_line.acts.append((time_line.now + 0.05, ask))

    ask()
    admission.drain(25)
    assert 1.4 < time_line.now < 1.8


def outcome(url: str, body: bytes | None = None) -> tuple[int, Any, str | None]:
    try:
        with urllib.request.urlopen(url, body, 20) as reply:
            return reply.status, json.load(reply), reply.headers["connection"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error), error.headers["connection"]


def test_both_protocols_answer_what_is_under_way_and_refuse_what_comes(one: Any) -> None:
    session, admission = one.session, one.server._repository.admission
    inside, go_on = threading.Event(), threading.Event()

    def wait_inside() -> None:
        inside.set()
        go_on.wait(60)

    session.act = wait_inside
    url = f"http://{one.addresses['rest']}"
    body = b'{"inputs": [[1, 2]]}'
    answers: dict[str, Any] = {}
    request = stock().PredictRequest()
    request.model_spec.name = "m"
    encode(np.ones((1, 2), np.float32), request.inputs["x"])
    with grpc.insecure_channel(one.addresses["grpc"]) as channel:
        predict = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        over_grpc = predict.future(request.SerializeToString(), timeout=60)
        assert inside.wait(60)
        over_rest = threading.Thread(target=lambda: answers.update(rest=outcome(f"{url}/v1/models/m:predict", body)))
        over_rest.start()
        while admission._under_way.total() < 2:
            time.sleep(0.01)
        drain = threading.Thread(target=one.server.drain, args=(20,))
        drain.start()
        while admission.is_ready:
            time.sleep(0.01)
        assert outcome(f"{url}/healthz") == (503, {"error": "the server is shutting down"}, "close")
        while admission._is_accepting:
            time.sleep(0.01)
        refused = (503, {"error": "the server is shutting down"}, "close")
        assert outcome(f"{url}/healthz") == refused
        assert outcome(f"{url}/v1/models/m:predict", body) == refused
        with pytest.raises(grpc.RpcError) as error:
            predict(request.SerializeToString(), timeout=60)
        assert (error.value.code(), error.value.details()) == (
            grpc.StatusCode.UNAVAILABLE, "the server is shutting down",
        )  # fmt: skip
        go_on.set()
        assert over_grpc.result(20)
        over_rest.join(60)
        assert answers["rest"] == (200, {"outputs": [[2, 4]]}, "close")
        drain.join(60)
    assert session.released
