"""The plan of a run: what will be made, by which routes, and how each copy is checked. Made before anything is walked.

`convert --explain` prints it, the folder of a run keeps it as plan.json, and a router (router.py) walks its routes.
Nothing is run and no framework is imported.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ...converters.steps import Step
from ...converters.third_party import KNOWN_STEPS
from ...models.atomic_files import write_whole
from ...models.environments import find_installed
from ...models.errors import ToolMissing
from ...models.formats import Format, Precision, Target
from ...models.user_python.inside.conversation import TENSORFLOW
from ...serving.runtimes.runtime_table import RUNTIMES, SERVED_ALIKE, SERVED_FORMATS
from ..drift.sessions import runtime_for
from ..options.request import BenchSection, RunRequest
from ..workers.extras import extras_for, install_command, join_needs
from ..workers.interpreters import lacking


@dataclass(frozen=True)
class Route:
    """A chain of steps from the source (or from a given artifact) to a target."""

    steps: tuple[Step, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The steps' names, in order."""
        return tuple(step.name for step in self.steps)

    @property
    def before(self) -> Route:
        """The route without its last step."""
        return Route(self.steps[:-1])

    @property
    def prefixes(self) -> tuple[Route, ...]:
        """The route up to each of its steps, itself last."""
        return tuple(Route(self.steps[: count + 1]) for count in range(len(self.steps)))

    @property
    def cost(self) -> float:
        """The sum of its steps' costs."""
        return sum(step.cost for step in self.steps)

    @property
    def stands_in(self) -> bool:
        """Whether one of its steps does what another step does, in another way."""
        return any(step.stands_in_for for step in self.steps)

    def __str__(self) -> str:
        return " > ".join(self.names)


def steps_for(requested: Collection[str] = (), *, user_framework: str = "") -> tuple[Step, ...]:
    """Return the steps that may be taken; `requested` has the options that open some of them (`Step.on_request`).
    `user_framework`: the framework of a model that lives in another interpreter than ours, which can capture it, too;
    where that is TensorFlow, nothing else can."""
    return tuple(
        step
        for step in KNOWN_STEPS.values()
        if (not step.on_request or step.on_request in requested) and _is_for(step, user_framework)
    )


def _is_for(step: Step, user_framework: str) -> bool:
    """Return whether a step may be taken for a model of ours (empty), or for one of a framework elsewhere."""
    only_there = user_framework == TENSORFLOW and step.source is None
    return step.user_framework == user_framework if only_there or step.user_framework else True


def routes_to(target: Target, start: Target | None, steps: tuple[Step, ...] | None = None) -> list[Route]:
    """Return every route from `start` (None: the model in PyTorch) to `target`, cheapest first.
    Without `steps`, those that need no option are taken. A start of reduced precision is carried as a file of its
    format is: such a file does not say its precision. The full precision does not come back from it.
    No route passes a format twice, or builds on a reduced precision. From PyTorch no route is a detour, where one
    cheaper step does what it takes several for: PyTorch's own steps are many, and stand in for each other. From a file
    there are few routes, and the longer one may be the last that is left."""
    known = steps_for() if steps is None else steps
    if start is not None and target in _begins(start):
        return []
    # The sort is stable: equal costs stay in the table's order.
    routes = sorted(_chains(target, start, known, frozenset()), key=lambda route: route.cost)
    if start is not None:
        return routes
    originals = {step.name: step for step in known}
    plain = {route: _without_stand_ins(route, originals) for route in routes}
    return [route for route in routes if not any(_is_detour(plain[route], other) for other in routes)]


def _begins(start: Target | None) -> tuple[Target | None, ...]:
    """Return what a first step may take as its source."""
    return (None,) if start is None else (start, Target(start.format))


def _without_stand_ins(route: Route, originals: dict[str, Step]) -> Route:
    """Return a route with the steps that its stand-ins replace: it is a detour where that one is."""
    return Route(tuple(originals.get(step.stands_in_for, step) for step in route.steps))


def _is_detour(route: Route, other: Route) -> bool:
    """Return whether the other route does cheaper, in one step, what this one takes several for, all else alike."""
    ours, theirs = list(route.steps), list(other.steps)
    if ours[-1] != theirs[-1] or other.cost >= route.cost:
        return False
    while ours and theirs and ours[-1] == theirs[-1]:
        ours.pop(), theirs.pop()
    while ours and theirs and ours[0] == theirs[0]:
        ours.pop(0), theirs.pop(0)
    return len(theirs) == 1 and len(ours) > 1


def _chains(
    target: Target, start: Target | None, steps: tuple[Step, ...], passed: frozenset[Format]
) -> Iterator[Route]:
    """Yield the routes to a target, found backwards. `passed` holds the formats that come after it."""
    for step in steps:
        before = step.source
        if step.target != target:
            continue
        if before in _begins(start):
            yield Route((step,))
            continue
        # Only the last step may change the precision alone: onnx to onnx:int8 passes ONNX once.
        behind = passed if before is None or before.format is target.format else passed | {target.format}
        if before is None or before.precision is not Precision.FP32 or before.format in behind:
            continue
        if start is not None and before.format is start.format:
            continue
        for route in _chains(before, start, steps, behind | {before.format}):
            yield Route((*route.steps, step))


MODEL, DATA, REFERENCE = "model", "data", "reference"  # what every route starts from, and is checked against


@dataclass(frozen=True)
class TargetPlan:
    """A wanted target: its candidate routes, cheapest first, and the runtimes that take it."""

    target: Target
    routes: tuple[Route, ...]
    verified_in: str
    validated_in: tuple[str, ...] = ()
    measured_in: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What a command will do, before it does anything."""

    start: Target | None  # the format of the given artifact; None: a model in PyTorch
    steps: tuple[Step, ...]  # that may be taken
    missing: Mapping[str, str]  # what keeps a step from running here, by its name
    targets: tuple[TargetPlan, ...]
    batches: tuple[int, ...] = ()  # of the probes
    data: str | None = None  # the probes' samples, as --data names them; None: the recipe's own, else random ones
    cross_check: bool = False  # whether other last steps are tried beside the cheapest route that verifies

    def routes(self, target: Target) -> tuple[Route, ...]:
        """Return the candidate routes to a target, cheapest first."""
        return next(planned.routes for planned in self.targets if planned.target == target)

    def missing_for(self, route: Route) -> str | None:
        """Return what keeps the steps of a route from running here, or None."""
        return join_needs(filter(None, (self.missing.get(name) for name in route.names))) or None

    def cheapest(self, target: Target) -> Route:
        """Return the cheapest route that can be taken here; one without steps where there is none."""
        return next((route for route in self.routes(target) if not self.missing_for(route)), Route(()))

    def require_routes(self) -> None:
        """Refuse at once a target whose every route lacks a library here. A target without any route is not judged.
        Raises ToolMissing."""
        for planned in self.targets:
            reasons = [self.missing_for(route) for route in planned.routes]
            if reasons and all(reasons):
                raise ToolMissing(
                    f"the target {planned.target} {reasons[0]}, which is not installed",
                    fix=f"{_install(planned.routes[0])}, or leave {planned.target} out of --to",
                )

    @property
    def dependencies(self) -> dict[str, tuple[str, ...]]:
        """Every action that the plan may need, by its name (as in logs/ and repeat/), with what it depends on.
        A target's name stands for its artifact, which the first route that verifies gives."""
        needs: dict[str, tuple[str, ...]] = {DATA: (MODEL,), REFERENCE: (MODEL, DATA)}
        for route in (route for planned in self.targets for route in planned.routes):
            for part in route.prefixes:
                conversion, before = action_name("convert", part), part.before
                source = action_name("convert", before) if before.steps else MODEL
                needs[conversion] = (source, DATA) if part.steps[-1].calibrates else (source,)
                needs[action_name("verify", part)] = (conversion, REFERENCE)
        validated = {
            f"validate.{planned.target.slug}.{runtime}": (str(planned.target), DATA, REFERENCE)
            for planned in self.targets
            for runtime in planned.validated_in
        }
        measured = {
            f"bench.{planned.target.slug}.{runtime}": (str(planned.target), DATA, *validated)
            for planned in self.targets
            for runtime in planned.measured_in
        }
        return needs | validated | measured

    def to_json(self) -> dict[str, object]:
        """Return the plan as JSON values; steps stand in it by name."""
        return {
            "start": str(self.start) if self.start else None,
            "targets": [
                {
                    "target": str(planned.target),
                    "routes": [self.route_json(route) for route in planned.routes],
                    "verified_in": planned.verified_in,
                    "validated_in": planned.validated_in,
                    "measured_in": planned.measured_in,
                }
                for planned in self.targets
            ],
            "cross_check": self.cross_check,
            "probes": {"batches": self.batches, "data": self.data},
            "dependencies": self.dependencies,
        }

    def route_json(self, route: Route) -> dict[str, object]:
        """Return a route as JSON values."""
        return {
            "route": list(route.names),
            "cost": route.cost,
            "stands_in": route.stands_in,
            "missing": self.missing_for(route),
        }

    def write(self, folder: Path) -> None:
        """Write plan.json into a folder: that of a run, or the logs of a conversion."""
        write_whole(folder / "plan.json", json.dumps(self.to_json(), indent=1) + "\n")


def action_name(stage: str, route: Route) -> str:
    """Return the name of an action on what a route makes: of its log and of the script that repeats it."""
    return f"{stage}.{route.steps[-1].target.slug}.{'+'.join(route.names)}"


def log_of(action: str) -> str:
    """Return the log of an action by its name, relative to the folder of the run."""
    return f"logs/{action}.log"


def _install(route: Route) -> str:
    """Return how what a route lacks is installed."""
    extras = extras_for(module for step in route.steps for module in step.requires)
    return install_command(extras) if extras else "install it (transload doctor shows how)"


def plan_routes(targets: Sequence[Target], start: Target | None, steps: tuple[Step, ...]) -> Plan:
    """Plan the routes by these steps to each target, and nothing of what a request says."""
    find = cache(find_installed)  # many steps need the same modules: each is looked up once
    missing = {step.name: reason for step in steps if (reason := lacking(step, find))}
    planned = tuple(
        TargetPlan(
            target,
            (Route(()),) if target == start else tuple(routes_to(target, start, steps)),
            runtime_for(target.format),
        )
        for target in targets
    )
    return Plan(start, steps, missing, planned)


def plan_conversion(
    request: RunRequest, start: Target | None, data: str | None = None, *, user_framework: str = ""
) -> Plan:
    """Plan what `convert` does: each target by the cheapest route that verifies. `user_framework`: see steps_for."""
    plan = plan_routes(request.targets, start, steps_for(request.convert.requested, user_framework=user_framework))
    data = data or request.data
    return replace(plan, batches=request.validate_.batches, data=data, cross_check=request.convert.cross_check)


def targets_served_alike(bench: BenchSection, targets: Iterable[Target]) -> list[Target]:
    """Return the fp32 targets that a run also validates and measures behind one protocol. By default these are of four
    formats, where there are two to compare and no runtimes are named."""
    is_default = bench.served is None and bench.enabled and "runtimes" not in bench.model_fields_set
    formats = SERVED_FORMATS if is_default else bench.served or ()
    alike = [target for target in targets if target.format in formats and target.precision is Precision.FP32]
    return [] if is_default and len(alike) < 2 else alike


def plan_run(request: RunRequest) -> Plan:
    """Plan what `run` does: conversion, and every artifact in every wanted runtime that takes it."""
    plan, bench = plan_conversion(request, None), request.bench
    measured = bench.runtimes if bench.enabled else ()
    served = targets_served_alike(bench, (planned.target for planned in plan.targets))

    def with_runtimes(planned: TargetPlan) -> TargetPlan:
        alike = (SERVED_ALIKE,) if planned.target in served else ()
        return replace(
            planned,
            validated_in=_runtimes_of(planned, (*request.validate_.runtimes, *alike)),
            measured_in=_runtimes_of(planned, (*measured, *alike)),
        )

    return replace(plan, targets=tuple(map(with_runtimes, plan.targets)))


def _runtimes_of(planned: TargetPlan, names: Collection[str]) -> tuple[str, ...]:
    """Return those of the runtimes that may take a target. A Flex runtime does where a route makes files for it."""
    flex = any(step.on_request == "flex" for route in planned.routes for step in route.steps)
    return tuple(
        runtime.name
        for runtime in RUNTIMES.values()
        if runtime.name in names and runtime.accepts(planned.target.format) and (flex or not runtime.flex)
    )
