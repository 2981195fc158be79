"""Which steps a model of another interpreter may take, by its framework."""

from __future__ import annotations

import pytest

from transload.models.formats import Format, Target
from transload.models.user_python.inside.conversation import TENSORFLOW
from transload.models.user_python.interpreter import TORCH
from transload.pipeline.plan.run_plan import routes_to, steps_for


@pytest.mark.parametrize("target", [Format.ONNX, Format.SAVED_MODEL, Format.TFLITE, Format.PT2])
def test_a_model_of_keras_elsewhere_crosses_as_a_saved_model_alone(target: Format) -> None:
    routes = routes_to(Target(target), None, steps_for(user_framework=TENSORFLOW))
    assert routes
    assert {route.names[0] for route in routes} == {"foreign.saved-model"}


def test_the_captures_of_one_framework_are_for_its_models_alone() -> None:
    names = {
        framework: {step.name for step in steps_for(user_framework=framework)} for framework in ("", TORCH, TENSORFLOW)
    }
    assert not any(name.startswith("foreign.") for name in names[""])
    assert {"torch.export", "foreign.jit"} <= names[TORCH]
    assert "foreign.saved-model" not in names[TORCH]
    assert "torch.export" not in names[TENSORFLOW]
