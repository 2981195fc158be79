"""The reference: with which integers it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from transload.models.errors import BadRequest, NoAnswer, StepFailed
from transload.models.formats import Format, Target
from transload.pipeline.plan.loaded_model import LoadedModel
from transload.pipeline.plan.model_argument import ModelRequest
from transload.pipeline.plan.run_inputs import _file_named, _with_integers
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


def test_a_model_file_that_does_not_answer_is_asked_once_and_refused() -> None:
    asked: list[Action] = []

    class Machine:
        def perform(self, action: Action) -> Any:
            asked.append(action)
            raise NoAnswer("killed by SIGALRM", fix="")

    machine, nothing = Machine(), None
    context: Any = nothing
    loaded = LoadedModel(context, context, Target(Format.ONNX))
    said = "m.onnx did not answer a call in its time\n  fix: give it more with --model-seconds"
    with pytest.raises(BadRequest, match=said), _file_named(context, loaded, ModelRequest("m.onnx")):
        _with_integers(machine, Action("reference", "answer"))  # type: ignore[arg-type]
    assert len(asked) == 1
