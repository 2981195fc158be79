"""What `transload formats` and `convert --explain` show: short, whatever the table holds."""

from __future__ import annotations

from dataclasses import replace

from transload.converters.steps import STEPS, Step
from transload.models.formats import Format, Precision, Target
from transload.pipeline.cli.formats import edges_of, tree
from transload.pipeline.cli.output.convert_output import plan_lines
from transload.pipeline.plan.run_plan import plan_routes

ONNX, LITE = Target(Format.ONNX), Target(Format.TFLITE)


def step(name: str, source: Target | None, target: Target, requires: tuple[str, ...] = ()) -> Step:
    return Step(name, source, target, "transload.converters.steps:x", requires, 1)


def test_precisions_share_a_line_and_so_do_stand_ins() -> None:
    small = Target(Format.TFLITE, Precision.INT8)
    steps = (
        step("make", None, ONNX), replace(step("make@2", None, ONNX), stands_in_for="make"),
        step("lite", ONNX, LITE), step("lite-int8", ONNX, small), step("far", ONNX, LITE, ("no_such_module",)),
    )  # fmt: skip
    edges = edges_of([*steps[:-1], replace(steps[-1], package="acme 1.0")])
    assert tree(edges) == [
        "  PyTorch ── make [@2] ────── onnx",
        "  onnx    ┬─ lite ─────────── tflite, tflite:int8",
        "          └─ far (acme 1.0) ─ tflite  (closed here)",
    ]


def test_every_step_of_ours_has_a_line() -> None:
    shown = "\n".join(tree(edges_of(STEPS)))
    for each in STEPS:
        assert str(each.target) in shown
        assert each.name.partition("@")[0].removesuffix(f"-{each.target.precision}") in shown, each.name


def test_explain_lists_the_first_routes_and_says_how_many_more_there_are() -> None:
    ways = [step(f"way{at}", None, ONNX) for at in range(9)]
    assert plan_lines(plan_routes([ONNX], None, tuple(ways)))[:8] == [
        "onnx:", *[f"  {at}  way{at - 1}" for at in range(1, 7)], "  and 3 more (--json lists them)",
    ]  # fmt: skip


def test_explain_shows_one_route_of_each_reason_and_all_steps_that_are_closed() -> None:
    closed = [step(f"far{at}", None, ONNX, ("no_such_module",)) for at in range(3)]
    assert plan_lines(plan_routes([ONNX, LITE], None, (*closed, step("near", None, ONNX)))) == [
        "onnx:",
        "  1  near",
        "  -  far0  closed here",
        "  and 2 more (--json lists them)",
        "tflite: no route leads there",
        "",
        "Routes are tried in this order until one verifies. Nothing was run.",
        "",
        "Closed here:",
        "  far0  needs no_such_module",
        "  far1  needs no_such_module",
        "  far2  needs no_such_module",
    ]


def test_what_is_given_needs_no_step() -> None:
    assert plan_lines(plan_routes([ONNX], ONNX, ()))[:2] == ["onnx:", "  1  as given"]
