"""The time that a model file has for its answers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from transload.pipeline.drift.call_time_limit import CallTimeLimit, limit_calls
from transload.serving.session import WideningSession

SIGNATURE: Any = "a signature"
FEEDS = {"x": np.zeros((2, 5), np.float32)}


class Model:
    """Answers with the seconds that are left of the alarm; every call but the first."""

    signature = SIGNATURE
    device = "cpu"
    calls = 0

    def run(self, feeds: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise ValueError
        return signal.getitimer(signal.ITIMER_REAL)[0]

    def close(self) -> None:
        self.calls = -1


class WideModel(Model):
    wide = False

    def widen(self, noise: float = 0.0, seed: int = 0) -> None:
        self.wide = True


@pytest.fixture(autouse=True)
def alarm_of_the_step() -> Iterator[None]:
    of_pytest = signal.setitimer(signal.ITIMER_REAL, 5000)
    yield
    signal.setitimer(signal.ITIMER_REAL, *of_pytest)


def left_s() -> float:
    return signal.getitimer(signal.ITIMER_REAL)[0]


def test_the_first_limit_ends_with_an_answer_and_no_error_and_the_former_one_holds_again() -> None:
    model: Any = Model()
    limit = CallTimeLimit(99.5)
    assert 90 < left_s() <= 100
    with pytest.raises(ValueError):  # noqa: PT011
        limit.run(model, FEEDS)
    first: Any = limit.run(model, FEEDS)
    assert 90 < first <= 100
    assert 4900 < left_s() <= 5000


def test_a_later_call_has_a_limit_in_proportion_to_its_inputs() -> None:
    now = iter([0.0, 0.0, 1.0, 3.0, *[3.0] * 50])  # the first call takes 2 s for 10 numbers
    limit, model = CallTimeLimit(10, clock_s=lambda: next(now)), Model()
    model.calls = 1
    limit.run(model, FEEDS)
    later: Any = limit.run(model, {"x": np.zeros((4, 5), np.float32)})
    assert 400 < later <= 410  # 10 + 100 * 0.2 * 20
    assert 4900 < left_s() <= 5000


def test_the_limit_of_a_later_call_ends_with_an_error() -> None:
    limit, model = CallTimeLimit(99.5), Model()
    model.calls = 1
    limit.run(model, FEEDS)
    model.calls = 0
    with pytest.raises(ValueError):  # noqa: PT011
        limit.run(model, FEEDS)
    assert 4900 < left_s() <= 5000


def test_no_limit_goes_beyond_the_end_of_the_step() -> None:
    signal.alarm(50)
    limit, model = CallTimeLimit(99.5), Model()
    model.calls = 1
    limit.run(model, FEEDS)
    assert 40 < left_s() <= 50
    later: Any = limit.run(model, FEEDS)
    assert 40 < later <= 51


def test_a_later_call_without_an_end_ends_the_process() -> None:
    pid = os.fork()
    if not pid:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        model: Any = Model()
        model.calls = 1
        limit = CallTimeLimit(1)
        limit.run(model, FEEDS)
        model.run = lambda feeds: time.sleep(60)
        limit.run(model, FEEDS)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGALRM


def test_without_a_limit_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = Model()
    model.calls = 1
    monkeypatch.setattr(signal, "alarm", None)
    CallTimeLimit().run(model, FEEDS)


def test_a_limited_session_is_the_session_with_limited_calls() -> None:
    plain: Any = Model()
    session = limit_calls(plain, CallTimeLimit())
    assert not isinstance(session, WideningSession)
    assert (session.signature, session.device) == (SIGNATURE, "cpu")
    session.close()
    assert plain.calls == -1
    wide: Any = WideModel()
    widening = limit_calls(wide, CallTimeLimit())
    assert isinstance(widening, WideningSession)
    widening.widen()
    assert wide.wide
