"""Arrays and errors over the socket between a server and the process of a model."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from transload.models.errors import BadRequest, SessionLost, SessionTimeout
from transload.models.signature import Array, Signature, TensorSpec
from transload.serving.server.repository.session_channel import ChannelSession, SessionHost

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
