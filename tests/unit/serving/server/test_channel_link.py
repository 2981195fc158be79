"""Requests of an event loop to the process of a model: many on their way, answered in order, none lost in silence."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from transload.models.errors import BadRequest, SessionLost, TransloadError
from transload.models.signature import Array, Signature, TensorSpec
from transload.serving.server.http_server import HttpServer
from transload.serving.server.repository.channel_link import ChannelLink
from transload.serving.server.repository.channel_messages import MessageBuffer, MessageLayout
from transload.serving.server.repository.model_repository import Repository
from transload.serving.server.repository.served_version import OpenedSession
from transload.serving.server.repository.session_channel import ChannelSession, SessionHost

SPEC = TensorSpec("x", "float32", ("batch", 2))
SIGNATURE = Signature((SPEC,), (TensorSpec("y", "float32", ("batch", 2)),))


class Double:
    """y = 2 x, when it may go on; negative values are refused."""

    signature = SIGNATURE
    device = "cpu"

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        assert self.may_go_on.wait(60)
        if feeds["x"].min() < 0:
            raise BadRequest("x is negative", fix="send another")
        return {"y": feeds["x"] * np.float32(2)}

    def close(self) -> None:
        self.may_go_on.set()


@pytest.fixture
def model() -> Double:
    return Double()


@pytest.fixture
def channel(model: Double) -> Iterator[ChannelSession]:
    line, theirs = socket.socketpair()
    host = SessionHost(model, theirs)
    session = ChannelSession(line, SIGNATURE, "cpu", "double", 60, threading.Event())
    yield session
    session.close()
    host.close()


Outcome = list[Array] | TransloadError
Ask = Callable[..., Awaitable[Outcome]]


def on_loop(channel: ChannelSession, scenario: Callable[[Ask, ChannelLink], Awaitable[Any]]) -> Any:
    """Run `scenario(ask, link)` on an event loop; `await ask(x)` is the outcome of a request."""

    async def run() -> Any:
        loop = asyncio.get_running_loop()
        link = ChannelLink(channel, loop)

        def ask(x: Array) -> Awaitable[Outcome]:
            future: asyncio.Future[Outcome] = loop.create_future()
            link.send([x], lambda outcome, _: future.set_result(outcome))
            return future

        try:
            async with asyncio.timeout(60):
                return await scenario(ask, link)
        finally:
            link.close()
            await asyncio.sleep(0)

    return asyncio.run(run())


def rows(value: float, count: int = 1) -> Array:
    return np.full((count, 2), value, np.float32)


def test_each_request_gets_its_own_answer_while_others_are_on_their_way(channel: ChannelSession) -> None:
    # The long ones fill the socket's buffers in both directions.
    sent = [rows(at, 1 if at % 5 else 1_500_000) for at in range(12)]
    answers = on_loop(channel, lambda ask, _: asyncio.gather(*(ask(x) for x in sent)))
    for x, (y,) in zip(sent, answers, strict=True):
        assert np.array_equal(y, 2 * x)


def test_threads_and_the_loop_ask_side_by_side(channel: ChannelSession) -> None:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: [float(channel.run({"x": rows(at)})["y"][0, 0]) for at in range(50)])
        answers = on_loop(channel, lambda ask, _: asyncio.gather(*(ask(rows(at)) for at in range(50))))
        assert asked.result(60) == [2 * at for at in range(50)]
    assert [float(y[0, 0]) for (y,) in answers] == [2 * at for at in range(50)]


def test_an_error_reaches_the_request_that_caused_it(channel: ChannelSession) -> None:
    first, refused, last = on_loop(channel, lambda ask, _: asyncio.gather(ask(rows(1)), ask(rows(-1)), ask(rows(3))))
    assert isinstance(refused, BadRequest)
    assert (refused.what, refused.fix) == ("x is negative", "send another")
    assert (first[0][0, 0], last[0][0, 0]) == (2, 6)
    assert not channel.lost.is_set()


def test_a_process_that_gives_no_answer_in_time_fails_every_request(model: Double, channel: ChannelSession) -> None:
    model.may_go_on.clear()
    channel.timeout_s = 0.1

    async def scenario(ask: Ask, _: ChannelLink) -> list[Outcome]:
        outcomes = await asyncio.gather(ask(rows(1)), ask(rows(2)))
        return [*outcomes, await ask(rows(3))]

    outcomes = on_loop(channel, scenario)
    assert [type(outcome) for outcome in outcomes] == [SessionLost] * 3
    assert channel.lost.is_set()


def test_a_link_that_is_closed_fails_what_has_no_answer(model: Double, channel: ChannelSession) -> None:
    model.may_go_on.clear()

    async def scenario(ask: Ask, link: ChannelLink) -> Outcome:
        pending = ask(rows(1))
        link.close()
        return await pending

    assert isinstance(on_loop(channel, scenario), SessionLost)
    assert not channel.lost.is_set()  # the process is well


def heading(size: int, *rest: int) -> bytes:
    return struct.pack(f"={1 + len(rest)}q", size, *rest)


FORGED = {
    "end": b"",
    "negative": heading(-1, 0),
    "huge": heading(1 << 62, 0),
    "short": heading(3, 0),
    "no bytes": heading(32, 0, 5, 2),
    "negative sizes": heading(32, 0, -1, -1),
    "huge sizes": heading(32, 0, 1 << 40, 1 << 40),
    "empty text": heading(16, 1),
    "no error": heading(18, 1) + b"{}",
    "no JSON": heading(17, 1) + b"[",
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_forged_answer_is_an_error_and_nothing_else(forged: bytes) -> None:
    line, theirs = socket.socketpair()

    def take() -> socket.socket:
        return socket.socket(fileno=socket.recv_fds(theirs, 1, 1)[1][0])

    with theirs:
        channel = ChannelSession(line, SIGNATURE, "cpu", "double", 5, threading.Event())
        take().close()

        async def scenario(ask: Ask, _: ChannelLink) -> Outcome:
            with take() as connection:
                pending = ask(rows(1))
                connection.sendall(forged)
                connection.shutdown(socket.SHUT_WR)
                return await pending

        assert isinstance(on_loop(channel, scenario), SessionLost)
        channel.close()


@pytest.mark.parametrize("piece", [1, 7, 4096, 1 << 20])
def test_messages_are_put_together_from_pieces_of_any_size(piece: int) -> None:
    layout, buffer = MessageLayout([SPEC]), MessageBuffer()
    sent = [rows(at, count) for at, count in enumerate((1, 0, 3, 20_000, 2))]
    stream = b"".join(bytes(part) for x in sent for part in layout.pack([x]))
    messages, at = [], 0
    while at < len(stream):
        room = buffer.room()
        count = min(piece, len(room), len(stream) - at)
        room[:count] = stream[at : at + count]
        messages += buffer.add(count)
        at += count
    assert len(messages) == len(sent)
    for x, message in zip(sent, messages, strict=True):
        assert np.array_equal(layout.unpack(message)[0], x)


def test_a_slow_model_does_not_hold_up_the_event_loop(
    model: Double, channel: ChannelSession, in_thread: Any, until: Any
) -> None:
    repository = Repository()
    repository.add_opened("m", OpenedSession(channel, "double", channel.lost, channel=channel))
    server = HttpServer(repository, "127.0.0.1", 0)
    replies = []

    def ask(path: str, document: Any = None) -> Any:
        data = None if document is None else json.dumps(document).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", data, timeout=60) as reply:
            return json.load(reply)

    predict = "/v1/models/m:predict"
    try:
        assert repository.find("m").takes_submissions
        assert ask(predict, {"instances": [[1, 2]]}) == {"predictions": [[2, 4]]}
        model.may_go_on.clear()
        thread = in_thread(lambda: replies.append(ask(predict, {"instances": [[3, 4]]})))
        assert ask("/healthz") == {"status": "ok"}
        assert not replies
        model.may_go_on.set()
        thread.join(60)
        assert replies == [{"predictions": [[6, 8]]}]
        # Too long for the event loop, in a request and in an answer.
        long = [[float(at), 0.0] for at in range(20_000)]
        assert ask(predict, {"instances": long})["predictions"][-1] == [2 * 19_999, 0]
        statistics = ask("/v2/models/m/stats")["model_stats"][0]
        assert statistics["inference_count"] == 20_002
        assert statistics["execution_count"] == 3
    finally:
        server.close()
        repository.close()
