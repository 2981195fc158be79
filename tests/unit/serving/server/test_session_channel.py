"""Arrays and errors over the socket between a server and the process of a model."""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
import threading
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from transload.models.errors import BadRequest, SessionLost, SessionTimeout
from transload.models.signature import Array, Signature, TensorSpec
from transload.serving.server.repository import session_channel
from transload.serving.server.repository.session_channel import ChannelSession, SessionHost
from transload.serving.server.serving_error import Code, ServingError
from transload.serving.wire.tensor_proto import TooLarge

SIGNATURE = Signature(
    (
        TensorSpec("half", "float16", ("batch", 3)),
        TensorSpec("flag", "bool", ()),
        TensorSpec("big", "float32", ("batch", "width")),
    ),
    (
        TensorSpec("flag", "bool", ()),
        TensorSpec("big", "float32", ("batch", "width")),
        TensorSpec("half", "float16", ("batch", 3)),
    ),
)


class Echo:
    """Answers with its inputs, or does what a test asks."""

    device = "cpu"
    error: Exception | None = None

    def __init__(self, signature: Signature = SIGNATURE) -> None:
        self.signature = signature
        self.go_on = threading.Event()
        self.go_on.set()
        self.answers: dict[str, Array] = {}

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        self.go_on.wait(60)
        if self.error is not None:
            raise self.error
        return {**feeds, **self.answers}

    def close(self) -> None:
        self.go_on.set()


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def timeout_s() -> float:
    return 60


@pytest.fixture
def channel(echo: Echo, timeout_s: float) -> Iterator[ChannelSession]:
    line, theirs = socket.socketpair()
    host = SessionHost(echo, theirs)
    assert host.describe() == {"signature": SIGNATURE.to_json(), "device": "cpu", "other_signatures": {}}
    session = ChannelSession(line, SIGNATURE, "cpu", "echo", timeout_s, threading.Event())
    yield session
    session.close()
    host.close()


def feeds(batch: int, width: int) -> dict[str, Array]:
    rng = np.random.default_rng(batch)
    return {
        "half": rng.standard_normal((batch, 3)).astype(np.float16),
        "flag": np.array(True),
        "big": rng.standard_normal((batch, width)).astype(np.float32),
    }


@pytest.mark.parametrize(("batch", "width"), [(1, 1), (3, 7), (2, 0), (8, 1_500_000)])
def test_arrays_arrive_as_they_were_sent(batch: int, width: int, channel: ChannelSession) -> None:
    for sent in (feeds(batch, width), feeds(batch + 1, width)):
        answers = channel.run(sent)
        assert list(answers) == ["flag", "big", "half"]
        for name, value in sent.items():
            assert (answers[name].dtype, answers[name].shape) == (value.dtype, value.shape)
            assert np.array_equal(answers[name], value)
            assert answers[name].flags.writeable


def test_an_array_that_is_not_contiguous_arrives(channel: ChannelSession) -> None:
    sent = feeds(4, 6)
    sent["big"] = sent["big"].T.copy().T
    assert np.array_equal(channel.run(sent)["big"], sent["big"])


def test_an_error_of_the_session_arrives_and_the_next_request_is_answered(echo: Echo, channel: ChannelSession) -> None:
    echo.error = BadRequest("an index is out of range", fix="send others")
    with pytest.raises(BadRequest, match="an index is out of range") as caught:
        channel.run(feeds(1, 1))
    assert caught.value.fix == "send others"
    echo.error = None
    assert channel.run(feeds(1, 1))["flag"]


def test_an_answer_that_differs_from_its_record_is_an_error(echo: Echo, channel: ChannelSession) -> None:
    echo.answers = {"big": np.zeros((1, 1), np.float64)}
    with pytest.raises(SessionLost, match=r"the answer big is float64\[1, 1\], its record says"):
        channel.run(feeds(1, 1))


@pytest.mark.parametrize("timeout_s", [0.5])
def test_no_answer_in_time_gives_the_process_up(echo: Echo, channel: ChannelSession) -> None:
    echo.go_on.clear()
    with pytest.raises(SessionTimeout, match=r"echo gave no answer in 0\.5 s"):
        channel.run(feeds(1, 1))
    assert channel.lost.is_set()
    with pytest.raises(SessionLost, match="the process of echo ended"):
        channel.run(feeds(1, 1))


def test_a_process_answers_for_each_of_its_sessions() -> None:
    line, theirs = socket.socketpair()
    other = Signature((TensorSpec("x", "float32", ("n",)),), (TensorSpec("x", "float32", ("n",)),))
    host = SessionHost(Echo(), theirs, {"other": Echo(other)})
    assert host.describe()["other_signatures"] == {"other": other.to_json()}
    lost = threading.Event()
    first = ChannelSession(line, SIGNATURE, "cpu", "echo", 60, lost)
    second = ChannelSession(line, other, "cpu", "echo", 60, lost, number=1)
    for _ in range(3):
        assert first.run(feeds(1, 2))["flag"]
        assert second.run({"x": np.arange(3, dtype=np.float32)})["x"].tolist() == [0, 1, 2]
    for session in (second, first, host):
        session.close()


NAMED = {"signature_name": "serving_default"}
ROW = {"half": [1.5, 2, 3], "flag": True, "big": [1, 2]}


def decode(channel: ChannelSession, document: object) -> tuple[list[Array], object]:
    return channel.decode("rows", json.dumps(document).encode(), NAMED)


def test_a_body_is_decoded_on_the_other_side(channel: ChannelSession) -> None:
    columns = {"half": [[1.5, 2, 3]], "flag": True, "big": [[1.0, 2.0]]}
    (half, flag, big), in_rows = decode(channel, {"inputs": columns})
    assert (half.tolist(), bool(flag), big.tolist(), in_rows) == ([[1.5, 2, 3]], True, [[1, 2]], False)
    assert half.dtype == np.float16


def test_what_is_wrong_with_a_body_arrives_as_its_error(channel: ChannelSession) -> None:
    with pytest.raises(ServingError, match="Missing 'inputs' or 'instances' key") as caught:
        decode(channel, {})
    assert caught.value.code is Code.INVALID_ARGUMENT
    with pytest.raises(BadRequest, match="JSON Parse error"):
        channel.decode("rows", b"{", NAMED)
    with pytest.raises(BadRequest, match="input half"):
        decode(channel, {"inputs": {"half": [[1, 2]], "flag": True, "big": [[1]]}})
    with pytest.raises(TooLarge, match="is more than 4 bytes"):
        row = {"name": "big", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
        body = json.dumps({"inputs": [row]}).encode()
        channel.decode("oip", body, {"header_length": None, "most_bytes": 4})
    with pytest.raises(ServingError, match="internal error"):
        channel.decode("rows", b"{}", {"unknown": 1})
    assert not channel.lost.is_set()


def test_a_listener_without_sockets_loses_no_model(channel: ChannelSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_line: socket.socket, _number: int) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(session_channel, "connect", refuse)
    with pytest.raises(ServingError, match="a body cannot be handed on: Too many open files"):
        decode(channel, {})
    assert not channel.lost.is_set()


def pack(kind: int, data: bytes) -> bytes:
    return struct.pack("=qq", 16 + len(data), kind) + data


def answer_once(line: socket.socket, reply: bytes) -> None:
    with socket.socket(fileno=socket.recv_fds(line, 1, 1)[1][0]) as connection:
        connection.recv(1 << 16)
        connection.sendall(reply)


@pytest.mark.parametrize(
    "reply",
    [b"", b"x", pack(2, b"no json\n"), pack(2, b"1"), pack(3, b'{"code": 99, "what": ""}\n'), pack(3, b"[]\n"),
     pack(2, b"1\n") + pack(0, b""), pack(2, b"1\n") + pack(1, b'{"code": 3}'), pack(9, b""),
     pack(2, b"1\n") + struct.pack("=qq7q", 200, 0, 1, 3, -1, 1 << 62, 1 << 62, 1, 1)],
)  # fmt: skip
def test_nothing_that_the_other_side_says_is_trusted(reply: bytes) -> None:
    line, theirs = socket.socketpair()

    with line, theirs:
        session = ChannelSession(line, SIGNATURE, "cpu", "liar", 5, threading.Event())
        socket.socket(fileno=socket.recv_fds(theirs, 1, 1)[1][0]).close()  # of `run`
        thread = threading.Thread(target=answer_once, args=(theirs, reply))
        thread.start()
        with pytest.raises(SessionLost):
            decode(session, {"instances": [ROW]})
        thread.join()
        session.close()
