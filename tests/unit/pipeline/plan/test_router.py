"""Routes are tried cheapest first, believed only when verified, and every one of them is accounted for."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from transload.converters.steps import Step
from transload.models.errors import DiskFull, Refused, TransloadError
from transload.models.formats import Format, Precision, Target, formats, parse_target
from transload.models.store import Stored, disk_full
from transload.pipeline.drift.drift_records import CheckOptions
from transload.pipeline.options.request import ALL_TARGETS, RunRequest
from transload.pipeline.plan.route_actions import VERIFY, VerificationInputs, verification
from transload.pipeline.plan.router import Router, TargetResult, head_start
from transload.pipeline.plan.run_plan import Route, plan_routes, routes_to, steps_for
from transload.pipeline.workers.engine import Action
from transload.pipeline.workers.isolation import Limits

ONNX, SAVED, LITE = Target(Format.ONNX), Target(Format.SAVED_MODEL), Target(Format.TFLITE)
TORCHSCRIPT, PT2 = Target(Format.TORCHSCRIPT), Target(Format.PT2)


def step(name: str, source: Target | None, target: Target, cost: float, requires: tuple[str, ...] = ()) -> Step:
    return Step(name, source, target, f"transload.converters.steps:{name}", requires, cost)


NO_NOISE: dict[str, object] = {"sqnr_db": None, "sizes": {}}


def stored(text: str, **facts: object) -> Stored:
    return Stored("k", text, Path(text), facts, Path("log"), 1.0, cached=False)


class FakeExecutor:
    """Does actions at once, without threads or processes.

    Steps in `refuse` raise; what those in `wrong` make does not verify, and of those in `shut` cannot be opened;
    what those in `losing` make loses NaN.
    """

    def __init__(
        self,
        refuse: tuple[str, ...] = (),
        wrong: tuple[str, ...] = (),
        full: tuple[str, ...] = (),
        constant: tuple[str, ...] = (),
        shut: tuple[str, ...] = (),
        *,
        losing: tuple[str, ...] = (),
    ) -> None:
        self.losing = losing
        self.refuse, self.wrong, self.full, self.constant, self.shut = refuse, wrong, full, constant, shut
        self.done: list[str] = []

    def submit(self, action: Action) -> Future[Stored]:
        future: Future[Stored] = Future()
        self.settle(future, action)
        return future

    def settle(self, future: Future[Stored], action: Action) -> None:
        try:
            future.set_result(self.perform(action))
        except TransloadError as error:
            future.set_exception(error)

    def expect(self, frameworks: Iterable[str], limits: Limits) -> None: ...

    def stop(self) -> None: ...

    def close(self) -> None: ...

    def perform(self, action: Action) -> Stored:
        name = action.entry.partition(":")[2]
        if action.entry == VERIFY:
            made = action.inputs["artifact"].digest
            step = made.split(">")[-1]
            if step in self.shut:
                return stored("v", status="wrong", reason=f"cannot open {made}", batches=[], ran=False, **NO_NOISE)
            status = "degraded" if step in self.losing else "unverified" if step in self.constant else "verified"
            status = "wrong" if step in self.wrong else status
            return stored("v", status=status, reason=f"seen {made}", batches=[1, 2], **NO_NOISE)
        self.done.append(name)
        if name in self.full:
            raise disk_full("store")
        if name in self.refuse:
            raise Refused(f"{name} will not.", fix="another model")
        return stored(f"{action.inputs['source'].digest}>{name}")


@pytest.fixture(autouse=True)
def _no_executor_here_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(pending: list[Future[Stored]], **_: str) -> None:
        assert not pending, "the router waits for what only another action will end"

    monkeypatch.setattr("transload.pipeline.plan.router.wait", wait)


def basis(start: Target | None = None) -> VerificationInputs:
    data, reference = stored("data"), stored("ref")
    return VerificationInputs(
        source=stored("src"), start=start, data=data, reference=reference, verify_options=CheckOptions(), sqnr_db=60.0
    )


STEPS_HERE = (
    step("a", None, ONNX, 1),
    step("b", None, ONNX, 4),
    step("own", ONNX, SAVED, 1),
    step("other", ONNX, SAVED, 5),
    step("lite", SAVED, LITE, 1),
)


def test_routes_come_cheapest_first() -> None:
    assert [route.names for route in routes_to(SAVED, None, STEPS_HERE)] == [
        ("a", "own"),
        ("b", "own"),
        ("a", "other"),
        ("b", "other"),
    ]
    assert [route.names for route in routes_to(SAVED, ONNX, STEPS_HERE)] == [("own",), ("other",)]


def test_a_cycle_of_steps_is_not_walked() -> None:
    back = (*STEPS_HERE, step("back", SAVED, ONNX, 1))
    assert all(len(set(route.names)) == len(route.names) for route in routes_to(LITE, None, back))
    assert len(routes_to(LITE, None, back)) == 4


def test_every_default_target_has_a_route_from_pytorch() -> None:
    for target in map(parse_target, ALL_TARGETS):
        assert routes_to(target, None), target


def names_of(target: Target, start: Target | None, *steps: Step) -> list[str]:
    return [str(route) for route in routes_to(target, start, steps)]


def test_a_route_passes_no_format_twice_and_builds_on_no_reduced_precision() -> None:
    small = Target(Format.ONNX, Precision.INT8)
    steps = (*STEPS_HERE, step("shrink", ONNX, small, 1), step("grow", small, SAVED, 1), step("back", SAVED, ONNX, 1))
    assert names_of(small, None, *steps) == ["a > shrink", "b > shrink"]
    assert names_of(small, SAVED, *steps) == ["back > shrink"]
    assert not [route for route in names_of(SAVED, None, *steps) if "grow" in route]
    light = Target(Format.TFLITE, Precision.INT8)
    lossy = (*STEPS_HERE[:2], step("down", ONNX, light, 1), step("up", light, SAVED, 1))
    assert names_of(SAVED, None, *lossy) == []
    assert names_of(ONNX, SAVED, *steps) == ["back"]


def test_a_file_reaches_another_precision_of_its_format_by_way_of_another_format() -> None:
    light = Target(Format.TFLITE, Precision.INT8)
    steps = (step("up", LITE, ONNX, 1), step("down", ONNX, light, 1), step("same", ONNX, LITE, 1))
    assert names_of(light, LITE, *steps) == ["up > down"]


def test_a_given_copy_of_reduced_precision_is_carried_as_a_file_of_its_format_is() -> None:
    light, small = Target(Format.TFLITE, Precision.INT8), Target(Format.ONNX, Precision.INT8)
    steps = (step("up", LITE, ONNX, 1), step("same", ONNX, LITE, 1), step("shrink", ONNX, small, 1))
    assert names_of(ONNX, light, *steps) == ["up"]
    assert names_of(small, light, *steps) == ["up > shrink"]
    assert names_of(LITE, light, *steps) == [], "what it was made of does not come back from it"


def test_a_detour_is_listed_where_it_ends_in_another_step_or_is_the_only_way() -> None:
    round_ = (step("script", None, TORCHSCRIPT, 1), step("again", TORCHSCRIPT, ONNX, 5))
    assert names_of(ONNX, None, *STEPS_HERE, *round_) == ["a", "b", "script > again"]
    assert "script > again > own" not in names_of(SAVED, None, *STEPS_HERE, *round_)
    assert names_of(SAVED, None, *STEPS_HERE[2:], *round_) == ["script > again > own", "script > again > other"]


def test_what_no_route_led_to_is_made_of_what_another_target_was_made_by() -> None:
    round_ = (step("script", None, TORCHSCRIPT, 1), step("again", TORCHSCRIPT, ONNX, 5))
    plan = plan_routes([SAVED, ONNX], None, (*STEPS_HERE, *round_))
    router = Router(FakeExecutor(wrong=("a", "b")), basis(), plan)
    lost, other = router.make_all([SAVED, ONNX])
    assert lost.stored is None
    assert other.route is not None
    found = router.make_by_detour(lost, [lost, other])
    assert found.route is not None
    assert found.route.names == ("script", "again", "own")
    assert [row.route for row in found.tried] == [*(row.route for row in lost.tried), ("script", "again", "own")]


def test_two_steps_that_are_cheaper_than_one_are_no_detour() -> None:
    steps = (
        step("direct", None, ONNX, 4), step("script", None, TORCHSCRIPT, 1), step("export", TORCHSCRIPT, ONNX, 1),
        *STEPS_HERE[2:],
    )  # fmt: skip
    assert names_of(LITE, None, *steps) == [
        "script > export > own > lite", "direct > own > lite", "script > export > other > lite",
        "direct > other > lite",
    ]  # fmt: skip


def test_routes_stay_few_where_every_format_leads_to_every_other() -> None:
    targets = [Target(form) for form in formats()]
    every = [step(f"{a}-{b}", a, b, 1) for a in (None, *targets) for b in targets if a != b]
    for target in targets:
        found = names_of(target, None, *every)
        assert len(found) == len(targets), found


def test_the_cheapest_route_that_verifies_wins_and_the_rest_are_not_tried() -> None:
    executor = FakeExecutor()
    made = route_to(SAVED, executor, basis(), STEPS_HERE)
    assert made.route is not None
    assert made.route.names == ("a", "own")
    assert made.stored == stored("src>a>own")
    assert executor.done == ["a", "own"]
    assert [(row.route, row.status) for row in made.tried] == [
        (("a", "own"), "verified"),
        (("b", "own"), "not tried"),
        (("a", "other"), "not tried"),
        (("b", "other"), "not tried"),
    ]
    assert made.tried[1].reason == "a > own is cheaper and verified"


def test_a_route_that_converts_and_disagrees_is_reported_and_the_next_is_tried() -> None:
    executor = FakeExecutor(wrong=("own",))
    made = route_to(SAVED, executor, basis(), STEPS_HERE)
    assert made.route is not None
    assert made.route.names == ("a", "other")
    assert [row.status for row in made.tried] == ["wrong", "wrong", "verified", "not tried"]
    assert made.tried[0].reason == "seen src>a>own"


def test_nothing_is_built_on_a_wrong_artifact() -> None:
    executor = FakeExecutor(wrong=("a",), refuse=("b",))
    made = route_to(LITE, executor, basis(), STEPS_HERE)
    assert made.stored is None
    assert made.route is None
    assert executor.done == ["a", "b"]
    assert made.tried[0].status == "wrong"
    assert made.tried[0].reason == "a: seen src>a"
    assert made.tried[-1].reason == "b will not; another model"


class Held(FakeExecutor):
    """Each of the checks `waits` names ends only when the conversion that it names has been done."""

    def __init__(self, waits: dict[str, str], wrong: tuple[str, ...] = ()) -> None:
        super().__init__(wrong=wrong)
        self.waits = waits
        self.held: dict[str, list[tuple[Future[Stored], Action]]] = {}

    def submit(self, action: Action) -> Future[Stored]:
        future: Future[Stored] = Future()
        if action.entry == VERIFY:
            awaited = self.waits.get(action.inputs["artifact"].digest.split(">")[-1])
            if awaited and awaited not in self.done:
                self.held.setdefault(awaited, []).append((future, action))
                return future
        self.settle(future, action)
        for waiting in self.held.pop(action.entry.partition(":")[2], []):
            self.settle(*waiting)
        return future


def route_to(
    target: Target,
    executor: FakeExecutor,
    inputs: VerificationInputs,
    steps: tuple[Step, ...],
    *,
    ahead: bool = False,
    cross_check: bool = False,
) -> TargetResult:
    plan = replace(plan_routes([target], inputs.start, steps), cross_check=cross_check)
    return Router(executor, inputs, plan, ahead=ahead).make_all([target])[0]


def test_the_next_step_starts_while_what_it_starts_from_is_being_checked() -> None:
    executor = Held({"a": "own", "own": "lite"})
    made = route_to(LITE, executor, basis(), STEPS_HERE, ahead=True)
    assert (executor.done, str(made.route)) == (["a", "own", "lite"], "a > own > lite")
    statuses: list[str] = [row.status for row in made.tried]
    assert statuses.count("verified") == 1


def test_what_was_built_ahead_on_a_wrong_artifact_counts_for_nothing() -> None:
    executor = Held({"a": "own"}, wrong=("a",))
    made = route_to(SAVED, executor, basis(), STEPS_HERE, ahead=True)
    assert str(made.route) == "b > own"
    assert made.tried[0].status == "wrong"
    assert [failure.route.names for failure in made.failures] == [("a",)]


def test_nothing_is_built_ahead_on_what_is_known_to_be_wrong() -> None:
    executor = Held({"a": "own"}, wrong=("a", "b"))
    made = route_to(SAVED, executor, basis(), STEPS_HERE, ahead=True)
    assert made.stored is None
    assert "other" not in executor.done


def test_a_shared_prefix_is_walked_once() -> None:
    executor = FakeExecutor(wrong=("own",))
    router = Router(executor, basis(), plan_routes([SAVED, LITE], None, STEPS_HERE))
    router.make_all([SAVED])[0]
    router.make_all([LITE])[0]
    assert executor.done == ["a", "own", "b", "own", "other", "lite"]


def test_the_cross_check_tries_every_other_last_step_once_and_keeps_the_winner() -> None:
    executor = FakeExecutor()
    made = route_to(SAVED, executor, basis(), STEPS_HERE, cross_check=True)
    assert made.route is not None
    assert made.route.names == ("a", "own")
    assert executor.done == ["a", "own", "other"]
    assert [row.status for row in made.tried] == ["verified", "not tried", "verified", "not tried"]


def test_a_step_whose_library_is_missing_is_named() -> None:
    lacking = (step("x", None, ONNX, 1, ("no_such_module",)),)
    made = route_to(ONNX, FakeExecutor(), basis(), lacking)
    assert (made.tried[0].status, made.tried[0].reason) == ("missing", "x needs no_such_module")


def test_an_artifact_that_loses_nan_counts_as_degraded() -> None:
    made = route_to(SAVED, FakeExecutor(losing=("own",)), basis(), STEPS_HERE)
    assert made.stored == stored("src>a>own")
    assert [row.status for row in made.tried] == ["degraded", "not tried", "not tried", "not tried"]


def test_agreeing_with_a_constant_is_no_evidence_and_is_not_called_verified() -> None:
    made = route_to(SAVED, FakeExecutor(constant=("own",)), basis(), STEPS_HERE)
    assert made.stored == stored("src>a>own")
    assert [row.status for row in made.tried] == ["unverified", "not tried", "not tried", "not tried"]


def test_the_next_step_may_build_on_what_nothing_here_can_run_and_then_has_to_verify() -> None:
    made = route_to(SAVED, FakeExecutor(shut=("a",)), basis(), STEPS_HERE)
    assert made.route is not None
    assert made.route.names == ("a", "own")
    assert made.tried[0].status == "verified"
    assert made.tried[0].reason == "seen src>a>own; what it is made from was not run (a: cannot open src>a)"
    made = route_to(SAVED, FakeExecutor(shut=("a",), constant=("own", "other")), basis(), STEPS_HERE)
    assert made.route is not None
    assert made.route.names == ("b", "own"), "an answer to nothing is no evidence for what nobody ran"
    assert [row.status for row in made.tried] == ["unverified", "unverified", "not tried", "not tried"]


def test_what_nothing_here_can_run_is_no_result_and_no_wrong_answer() -> None:
    made = route_to(ONNX, FakeExecutor(shut=("a", "b")), basis(), STEPS_HERE)
    assert made.stored is None
    assert [(row.status, row.reason) for row in made.tried] == [
        ("failed", "cannot open src>a"), ("failed", "cannot open src>b"),
    ]  # fmt: skip


STAND_INS = (*STEPS_HERE, replace(step("a@18", None, ONNX, 7), stands_in_for="a"))


def test_a_stand_in_is_tried_only_where_the_step_itself_gave_nothing() -> None:
    made = route_to(ONNX, FakeExecutor(), basis(), STAND_INS)
    assert [row.route for row in made.tried] == [("a",), ("b",)]
    made = route_to(ONNX, FakeExecutor(refuse=("a", "b")), basis(), STAND_INS)
    assert made.route is not None
    assert made.route.names == ("a@18",)
    assert [row.status for row in made.tried] == ["failed", "failed", "verified"]
    made = route_to(SAVED, FakeExecutor(refuse=("own", "other")), basis(), STAND_INS)
    assert made.stored is None
    assert {row.route[0] for row in made.tried} == {"a", "b"}, "the step itself verified: its twin is not asked"


def test_a_step_that_failed_is_kept_with_what_it_was_given() -> None:
    made = route_to(LITE, FakeExecutor(wrong=("own",), refuse=("b", "other")), basis(), STEPS_HERE)
    assert [(str(each.route), each.source.digest, each.status) for each in made.failures] == [
        ("a > own", "src>a", "wrong"), ("b", "src", "failed"), ("a > other", "src>a", "failed"),
    ]  # fmt: skip


def test_a_full_disk_ends_the_run_and_not_only_a_route() -> None:
    with pytest.raises(DiskFull):
        route_to(SAVED, FakeExecutor(full=("own",)), basis(), STEPS_HERE)


def test_a_target_that_was_given_needs_no_route() -> None:
    made = route_to(parse_target("onnx"), FakeExecutor(), basis(start=ONNX), STEPS_HERE)
    assert made.stored == stored("src")
    assert made.tried == ()


FLEX = (
    *STEPS_HERE,
    replace(step("lite@flex", SAVED, LITE, 30), stands_in_for="lite", on_request="flex"),
)


def test_a_step_that_an_option_opens_is_in_no_route_without_it() -> None:
    closed, opened = steps_for(), steps_for({"flex"})
    assert {step.name for step in opened} - {step.name for step in closed} == {
        f"{name}{precision}@flex"
        for name in ("lowering-tflite", "tflite")
        for precision in ("", "-fp16", "-int8-dynamic")
    }
    assert not any("flex" in str(route) for route in routes_to(LITE, None))


def test_layers_in_float_are_tried_before_full_int8_where_they_are_requested() -> None:
    requested = RunRequest.model_validate({"convert": {"keep_float": "auto"}}).convert.requested
    int8 = parse_target("tflite:int8")
    first, second = routes_to(int8, ONNX, steps_for(requested))[:2]
    assert (str(first), str(second)) == ("lowering-tflite-int8@keep-float", "lowering-tflite-int8")
    assert str(routes_to(int8, ONNX)[0]) == "lowering-tflite-int8"


def test_a_target_made_without_a_requested_option_says_so_and_why() -> None:
    floats = replace(step("lite@keep-float", SAVED, LITE, 0.5), on_request="keep-float")
    steps = (*STEPS_HERE, floats)
    lost = "without keep-float: lite@keep-float failed: lite@keep-float will not; another model"
    (won,) = [row for row in route_to(LITE, FakeExecutor(refuse=("lite@keep-float",)), basis(), steps).tried
              if row.route == ("a", "own", "lite")]  # fmt: skip
    assert won.reason == f"seen src>a>own>lite; {lost}"
    tried = route_to(LITE, FakeExecutor(), basis(), steps).tried
    assert tried[0].route == ("a", "own", "lite@keep-float")
    assert not any("without keep-float" in row.reason for row in tried)


def test_it_is_tried_where_every_way_without_it_gave_nothing_and_nowhere_else() -> None:
    plain = FakeExecutor()
    assert str(route_to(LITE, plain, basis(), FLEX, cross_check=True).route) == "a > own > lite"
    assert "lite@flex" not in plain.done
    needy = FakeExecutor(refuse=("lite",))
    made = route_to(LITE, needy, basis(), FLEX)
    assert str(made.route) == "a > own > lite@flex"
    assert [each.route[-1] for each in made.tried] == ["lite"] * 4 + ["lite@flex"]


def test_what_a_step_says_of_flex_decides_what_it_is_checked_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSLOAD_PYTHON_FLEX", "/other/python")
    route = Route((FLEX[-1],))
    plain, needy = (verification(basis(SAVED), route, stored("made", flex=names)) for names in ([], ["FlexErf"]))
    assert (plain.requires, plain.python) == (("ai_edge_litert",), "")
    assert (needy.requires, needy.python) == (("tensorflow",), "/other/python")
    assert needy.tools["interpreter"] == "/other/python"


class Queue(FakeExecutor):
    """Does nothing until it is told to: `now` does the actions whose names begin so."""

    def __init__(self, wrong: tuple[str, ...] = ()) -> None:
        super().__init__(wrong=wrong)
        self.queued: dict[str, tuple[Future[Stored], Action]] = {}

    def submit(self, action: Action) -> Future[Stored]:
        future: Future[Stored] = Future()
        self.queued[action.name] = future, action
        return future

    def now(self, name: str) -> None:
        self.settle(*self.queued.pop(name))


def test_what_is_queued_for_a_route_that_is_lost_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Queue(wrong=("a",))
    todo = ["convert.onnx.a", "verify.onnx.a"]
    seen: list[list[str]] = []

    def wait(pending: list[Future[Stored]], **_: str) -> None:
        seen.append(sorted(name for name, (future, _) in executor.queued.items() if not future.cancelled()))
        if pending:
            executor.now(todo.pop(0) if todo else seen[-1][0])

    monkeypatch.setattr("transload.pipeline.plan.router.wait", wait)
    result = route_to(SAVED, executor, basis(), STEPS_HERE, ahead=True)
    assert str(result.route) == "b > own"
    assert seen[:3] == [["convert.onnx.a"], ["convert.saved-model.a+own", "verify.onnx.a"], ["convert.onnx.b"]]


def test_a_head_start_converts_along_the_cheapest_routes_and_checks_nothing() -> None:
    executor = FakeExecutor(refuse=("a",))
    steps = (*STEPS_HERE, step("script", None, TORCHSCRIPT, 1))
    with head_start(executor, basis(), plan_routes([LITE, TORCHSCRIPT, ONNX], None, steps)):
        pass
    assert executor.done == ["a", "script", "a"], "whoever takes a step later meets its error"
    executor = FakeExecutor()
    with head_start(executor, basis(), plan_routes([LITE], None, steps)):
        pass
    assert executor.done == ["a", "own", "lite"]


def test_a_head_start_that_has_ended_submits_no_more() -> None:
    executor = Queue()
    with head_start(executor, basis(), plan_routes([LITE], None, STEPS_HERE)):
        pass
    executor.now("convert.onnx.a")
    assert (executor.done, executor.queued) == (["a"], {})


CAPTURES = (
    step("export", None, PT2, 1),
    step("legacy", None, ONNX, 4),
    step("dynamo", PT2, ONNX, 1),
    step("own", ONNX, SAVED, 1),
)


def checks_of(executor: FakeExecutor) -> list[str]:
    return [name for name in executor.done if name.startswith("verify")]


class CountingExecutor(FakeExecutor):
    def perform(self, action: Action) -> Stored:
        if action.entry == VERIFY:
            self.done.append(action.name)
        return super().perform(action)


@pytest.mark.parametrize("ahead", [True, False])
def test_a_capture_is_right_where_the_copy_that_is_made_of_it_is(*, ahead: bool) -> None:
    executor = CountingExecutor()
    made = route_to(SAVED, executor, basis(), CAPTURES, ahead=ahead)
    assert made.route is not None
    assert made.route.names == ("export", "dynamo", "own")
    assert made.seconds == 3.0
    assert checks_of(executor) == ["verify.onnx.export+dynamo", "verify.saved-model.export+dynamo+own"]


def test_a_capture_that_is_a_target_is_checked() -> None:
    executor = CountingExecutor()
    plan = plan_routes((PT2, ONNX), None, CAPTURES)
    Router(executor, basis(), plan).make_all([PT2, ONNX])
    assert checks_of(executor) == ["verify.pt2.export", "verify.onnx.export+dynamo"]


@pytest.mark.parametrize("status", ["wrong", "shut", "constant", "losing"])
def test_a_capture_is_checked_where_its_copy_is_not_verified(status: str) -> None:
    executor = CountingExecutor()
    setattr(executor, status, ("dynamo",))
    route_to(ONNX, executor, basis(), CAPTURES)
    assert checks_of(executor)[:2] == ["verify.onnx.export+dynamo", "verify.pt2.export"]


def test_the_capture_is_blamed_where_it_is_wrong_itself() -> None:
    executor = CountingExecutor(wrong=("export", "dynamo"))
    made = route_to(ONNX, executor, basis(), CAPTURES)
    assert made.tried[0].route == ("export", "dynamo")
    assert made.tried[0].reason == "export: seen src>export"
    assert made.route is not None
    assert made.route.names == ("legacy",)


def test_a_reduced_copy_does_not_speak_for_its_capture() -> None:
    reduced = Target(Format.ONNX, Precision.FP16)
    executor = CountingExecutor()
    route_to(reduced, executor, basis(), (CAPTURES[0], step("half", PT2, reduced, 1)))
    assert checks_of(executor) == ["verify.pt2.export", "verify.onnx-fp16.export+half"]


@pytest.mark.parametrize("refuse", ["export", "dynamo"])
def test_a_step_that_fails_beside_a_capture_is_told_as_before(refuse: str) -> None:
    made = route_to(ONNX, CountingExecutor(refuse=(refuse,)), basis(), CAPTURES)
    assert made.tried[0].reason.endswith(f"{refuse} will not; another model")
    assert made.route is not None
    assert made.route.names == ("legacy",)


@pytest.mark.parametrize("full", ["export", "dynamo"])
def test_a_full_disk_at_a_capture_or_behind_it_ends_the_run(full: str) -> None:
    with pytest.raises(DiskFull):
        route_to(ONNX, CountingExecutor(full=(full,)), basis(), CAPTURES)
