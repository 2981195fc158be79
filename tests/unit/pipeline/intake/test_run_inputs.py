"""The reference: with which integers it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transload.models.errors import StepFailed
from transload.pipeline.intake.run_inputs import _with_integers
from transload.pipeline.workers.engine import Action


def test_a_model_that_other_integers_end_is_asked_without_them() -> None:
    asked: list[Mapping[str, Any]] = []

    class Machine:
        def perform(self, action: Action) -> Any:
            asked.append(action.options)
            if len(asked) == 1:
                raise StepFailed("killed by SIGFPE", fix="")
            return "answers"

    machine: Any = Machine()
    reply: Any = _with_integers(machine, Action("reference", "answer", options={"threads": 1}))
    assert reply == "answers"
    assert asked == [{"threads": 1, "tries": 60}, {"threads": 1, "tries": 0}]
