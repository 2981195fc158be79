"""What `transload convert --explain` prints of a plan: the routes in the order they would be tried, and what closes
others here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .render import table

if TYPE_CHECKING:
    from ..plan.routes import Route
    from ..plan.run_plan import Plan, TargetPlan

MOST = 6  # routes to a target that are shown to a person
_ORDER = "Routes are tried in this order until one verifies. Nothing was run."


def lines(plan: Plan) -> list[str]:
    """Return the lines for a person: a block for each target, and what holds for all of them."""
    steps = [step for planned in plan.targets for route in planned.routes for step in route.steps]
    twins = {step.stands_in_for: step.name for step in steps if step.stands_in_for}
    notes = [f"Where {name} gives nothing, {twin} is tried in its place." for name, twin in twins.items()]
    blocks = [line for planned in plan.targets for line in _block(plan, planned)]
    return [*blocks, "", _ORDER, *notes, *_closed(plan)]


def rows(plan: Plan) -> list[dict[str, object]]:
    """Return the rows of `--json`: every route."""
    return [
        {"target": str(planned.target), **plan.route_json(route)}
        for planned in plan.targets
        for route in planned.routes
    ]


def _closed(plan: Plan) -> Iterator[str]:
    """Yield the steps that keep routes from being taken, each once with its reason."""
    routes = [route for planned in plan.targets for route in _plain(planned)]
    reasons = {name: plan.missing[name] for route in routes for name in route.names if name in plan.missing}
    if reasons:
        yield from ("", "Closed here:", *table(list(reasons.items()), indent="  "))


def _block(plan: Plan, planned: TargetPlan) -> Iterator[str]:
    routes = _plain(planned)
    if not routes:
        yield f"{planned.target}: no route leads there"
        return
    yield f"{planned.target}:"
    open_routes = [route for route in routes if not plan.missing_for(route)][:MOST]
    closed = _cheapest_of_each_reason(plan, [route for route in routes if plan.missing_for(route)])
    shown = [(str(number), _text(route), "") for number, route in enumerate(open_routes, 1)]
    shown += [("-", _text(route), "closed here") for route in closed[: max(1, MOST - len(open_routes))]]
    yield from table(shown, indent="  ")
    if hidden := len(routes) - len(shown):
        yield f"  and {hidden} more (--json lists them)"


def _plain(planned: TargetPlan) -> list[Route]:
    """Return the routes without stand-ins."""
    return [route for route in planned.routes if not route.stands_in]


def _text(route: Route) -> str:
    names = [f"{step.name} ({step.package})" if step.package else step.name for step in route.steps]
    return " > ".join(names) or "as given"


def _cheapest_of_each_reason(plan: Plan, closed: Sequence[Route]) -> list[Route]:
    """Return the cheapest route of each reason: ten that lack the same library say no more than one."""
    return list({plan.missing_for(route): route for route in reversed(closed)}.values())[::-1]
