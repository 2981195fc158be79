"""A plan says all that a command may do, and is written down as such."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from transload.converters.steps import Step
from transload.models.errors import ToolMissing
from transload.models.formats import Format, Precision, Target
from transload.pipeline.options.request import read_request
from transload.pipeline.plan.run_plan import plan_conversion, plan_routes, plan_run

ONNX, LITE = Target(Format.ONNX), Target(Format.TFLITE)


def step(name: str, source: Target | None, target: Target, *requires: str, calibrates: bool = False) -> Step:
    return Step(name, source, target, "transload.converters.steps:x", requires, 1, calibrates=calibrates)


STEPS = (step("a", None, ONNX), step("far", None, ONNX, "no_such_module"), step("lite", ONNX, LITE, calibrates=True))


def test_a_plan_names_its_routes_and_what_closes_them() -> None:
    plan = plan_routes([ONNX, LITE], None, STEPS)
    assert plan.missing == {"far": "needs no_such_module"}
    assert [str(route) for route in plan.routes(LITE)] == ["a > lite", "far > lite"]
    assert [plan.missing_for(route) for route in plan.routes(LITE)] == [None, "needs no_such_module"]
    assert str(plan.cheapest(LITE)) == "a > lite"
    assert plan.targets[1].verified_in == "tflite"


def test_a_plan_says_what_depends_on_what() -> None:
    assert plan_routes([LITE], None, (STEPS[0], STEPS[2])).dependencies == {
        "data": ("model",),
        "reference": ("model", "data"),
        "convert.onnx.a": ("model",),
        "verify.onnx.a": ("convert.onnx.a", "reference"),
        "convert.tflite.a+lite": ("convert.onnx.a", "data"),
        "verify.tflite.a+lite": ("convert.tflite.a+lite", "reference"),
    }


def test_a_target_whose_every_route_lacks_a_library_is_refused_before_anything_is_done() -> None:
    with pytest.raises(ToolMissing, match="the target onnx needs no_such_module, which is not installed"):
        plan_routes([ONNX], None, STEPS[1:]).require_routes()
    plan_routes([ONNX, LITE], None, STEPS).require_routes()


def test_a_run_plans_its_runtimes_too_and_a_conversion_does_not(tmp_path: Path) -> None:
    sections = {
        "convert": {"targets": ["onnx", "tflite:int8"]},
        "validate": {"runtimes": ["onnxruntime", "tflite", "tflite-flex"]},
        "bench": {"runtimes": ["tflite"]},
    }
    plan = plan_run(read_request(None, sections))
    runtimes = [(planned.target, planned.validated_in, planned.measured_in) for planned in plan.targets]
    assert runtimes == [(ONNX, ("onnxruntime",), ()), (Target(Format.TFLITE, Precision.INT8), ("tflite",), ("tflite",))]
    needs = plan.dependencies
    assert needs["validate.onnx.onnxruntime"] == ("onnx", "data", "reference")
    assert needs["bench.tflite-int8.tflite"][-2:] == ("validate.onnx.onnxruntime", "validate.tflite-int8.tflite")
    plan = plan_conversion(read_request(None, sections), ONNX, "samples.npz")
    assert not any(planned.validated_in or planned.measured_in for planned in plan.targets)
    plan.write(tmp_path)
    document = json.loads((tmp_path / "plan.json").read_text())
    assert document["start"] == "onnx"
    assert document["probes"] == {"batches": [1, 2, 5], "data": "samples.npz"}
    assert document["targets"][0]["routes"] == [{"route": [], "cost": 0, "stands_in": False, "missing": None}]


@pytest.mark.parametrize(
    ("bench", "served"),
    [
        ({}, ["torchscript", "onnx"]),
        ({"served": []}, []),
        ({"served": ["tflite"]}, []),
        ({"served": ["onnx"], "runtimes": ["tflite"]}, ["onnx"]),
        ({"runtimes": ["onnxruntime"]}, []),
        ({"enabled": False}, []),
    ],
)
def test_four_formats_are_served_alike_unless_runtimes_are_named(bench: dict[str, Any], served: list[str]) -> None:
    targets = ["pt2", "torchscript", "onnx", "onnx:int8"]
    plan = plan_run(read_request(None, {"convert": {"targets": targets}, "bench": bench}))
    alike = [str(planned.target) for planned in plan.targets if "oip-grpc" in planned.validated_in]
    assert sorted(alike) == sorted(served)
    assert alike == [str(planned.target) for planned in plan.targets if "oip-grpc" in planned.measured_in]


def test_one_format_alone_is_compared_with_nothing() -> None:
    plan = plan_run(read_request(None, {"convert": {"targets": ["pt2", "onnx", "tflite:int8"]}}))
    assert not any("oip-grpc" in planned.validated_in for planned in plan.targets)
