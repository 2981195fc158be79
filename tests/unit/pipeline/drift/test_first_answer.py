"""The time to a model's first answer."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from transload.pipeline.drift.first_answer import FirstAnswerLimit


class Model:
    """Answers every call but the first."""

    calls = 0

    def run(self, feeds: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise ValueError
        return signal.getitimer(signal.ITIMER_REAL)[0]


def test_the_limit_ends_with_the_first_answer_and_no_error_and_the_former_one_holds_again() -> None:
    model: Any = Model()
    of_pytest = signal.setitimer(signal.ITIMER_REAL, 5000)
    try:
        limit = FirstAnswerLimit(99.5)
        with pytest.raises(ValueError):  # noqa: PT011
            limit.run(model, {})
        left: list[Any] = [limit.run(model, {}), limit.run(model, {})]
    finally:
        signal.setitimer(signal.ITIMER_REAL, *of_pytest)
    assert 90 < left[0] <= 100
    assert 4900 < left[1] <= 5000


def test_without_a_limit_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = Model()
    model.calls = 1
    monkeypatch.setattr(signal, "alarm", None)
    FirstAnswerLimit().run(model, {})
