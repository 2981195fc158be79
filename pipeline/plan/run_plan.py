"""The plan of a run: what will be made, by which routes, and how each copy is checked. Made before anything is walked.

`convert --explain` prints it, the folder of a run keeps it as plan.json, and a router (router.py) walks its routes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...converters.steps import Step
from ...models.errors import ToolMissing
from ...models.formats import Target
from ...models.whole_files import write_whole
from ...serving.runtimes.runtime_table import RUNTIMES
from ..drift.sessions import runtime_for
from ..request import RunRequest
from ..workers.interpreters import lacking
from .routes import Route, routes_to, steps_for

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
    data: Path | None = None  # the file of the probes' samples; None: the recipe's own, else random ones
    cross_check: bool = False  # whether other last steps are tried beside the cheapest route that verifies

    def routes(self, target: Target) -> tuple[Route, ...]:
        """Return the candidate routes to a target, cheapest first."""
        return next(planned.routes for planned in self.targets if planned.target == target)

    def missing_for(self, route: Route) -> str | None:
        """Return what keeps the steps of a route from running here, or None."""
        return "; ".join(dict.fromkeys(filter(None, (self.missing.get(name) for name in route.names)))) or None

    def cheapest(self, target: Target) -> Route:
        """Return the cheapest route that can be taken here; one without steps where there is none."""
        return next((route for route in self.routes(target) if not self.missing_for(route)), Route(()))

    def require_routes(self) -> None:
        """Refuse at once a target whose every route lacks a library here. A target without any route is not judged.

        Raises ToolMissing.
        """
        for planned in self.targets:
            reasons = [self.missing_for(route) for route in planned.routes]
            if reasons and all(reasons):
                raise ToolMissing(
                    f"the target {planned.target} {reasons[0]}, which is not installed",
                    fix=f"install it (transload doctor shows how), or leave {planned.target} out of --to",
                )

    @property
    def dependencies(self) -> dict[str, tuple[str, ...]]:
        """Every action that the plan may need, by its name (as in logs/ and repeat/), with what it depends on.

        A target's name stands for its artifact, which the first route that verifies gives.
        """
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
            "probes": {"batches": self.batches, "data": str(self.data) if self.data else None},
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


def plan_routes(targets: Sequence[Target], start: Target | None, steps: tuple[Step, ...]) -> Plan:
    """Plan the routes by these steps to each target, and nothing of what a request says."""
    missing = {step.name: reason for step in steps if (reason := lacking(step))}
    planned = tuple(
        TargetPlan(
            target,
            (Route(()),) if target == start else tuple(routes_to(target, start, steps)),
            runtime_for(target.format),
        )
        for target in targets
    )
    return Plan(start, steps, missing, planned)


def plan_conversion(request: RunRequest, start: Target | None, data: Path | None = None) -> Plan:
    """Plan what `convert` does: each target by the cheapest route that verifies."""
    plan = plan_routes(request.targets, start, steps_for(request.convert.requested))
    return replace(plan, batches=request.validate_.batches, data=data, cross_check=request.convert.cross_check)


def plan_run(request: RunRequest) -> Plan:
    """Plan what `run` does: conversion, and every artifact in every wanted runtime that takes it."""
    plan, bench = plan_conversion(request, None), request.bench
    measured = bench.runtimes if bench.enabled else ()
    targets = (
        replace(
            planned,
            validated_in=_runtimes_of(planned, request.validate_.runtimes),
            measured_in=_runtimes_of(planned, measured),
        )
        for planned in plan.targets
    )
    return replace(plan, targets=tuple(targets))


def _runtimes_of(planned: TargetPlan, names: Collection[str]) -> tuple[str, ...]:
    """Return those of the runtimes that may take a target. A Flex runtime does where a route makes files for it."""
    flex = any(step.on_request == "flex" for route in planned.routes for step in route.steps)
    return tuple(
        runtime.name
        for runtime in RUNTIMES.values()
        if runtime.name in names and planned.target.format in runtime.takes and (flex or not runtime.flex)
    )
