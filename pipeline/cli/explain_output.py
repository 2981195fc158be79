"""What `transload convert --explain` prints: the routes to each target in the order they would be tried, and what keeps
others from being taken here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..workers.interpreters import lacking
from .render import table

if TYPE_CHECKING:
    from ...models.formats import Target
    from ..commands.convert import RouteExplanation

MOST = 6  # routes of a target that a person gets to see
_ORDER = "Routes are tried in this order until one verifies. Nothing was run."


def lines(targets: Sequence[Target], found: Sequence[RouteExplanation]) -> list[str]:
    """A block for each target, and what holds for all of them."""
    twins = {step.stands_in_for: step.name for each in found for step in each.route.steps if step.stands_in_for}
    notes = [f"Where {name} gives nothing, {twin} is tried in its place." for name, twin in twins.items()]
    plain = [each for each in found if not each.route.stands_in]
    blocks = [line for target in targets for line in _block(target, plain)]
    return [*blocks, "", _ORDER, *notes, *_closed(plain)]


def _closed(found: Sequence[RouteExplanation]) -> Iterator[str]:
    """The steps that keep routes from being taken, each once with its reason."""
    reasons = {step.name: why for each in found for step in each.route.steps if (why := lacking(step))}
    if reasons:
        yield from ("", "Closed here:", *table(list(reasons.items()), indent="  "))


def _block(target: Target, found: Sequence[RouteExplanation]) -> Iterator[str]:
    routes = [each for each in found if each.target == target]
    if not routes:
        yield f"{target}: no route leads there"
        return
    yield f"{target}:"
    ways = [each for each in routes if not each.missing][:MOST]
    closed = _distinct([each for each in routes if each.missing])[: max(1, MOST - len(ways))]
    rows = [(str(at), _way(each), "") for at, each in enumerate(ways, 1)]
    rows += [("-", _way(each), "closed here") for each in closed]
    yield from table(rows, indent="  ")
    if hidden := len(routes) - len(rows):
        yield f"  and {hidden} more (--json lists them)"


def _way(each: RouteExplanation) -> str:
    names = [f"{step.name} ({step.package})" if step.package else step.name for step in each.route.steps]
    return " > ".join(names) or "as given"


def _distinct(closed: Sequence[RouteExplanation]) -> list[RouteExplanation]:
    """The cheapest route of each reason: ten that lack the same library say no more than one."""
    return list({each.missing: each for each in reversed(closed)}.values())[::-1]


def rows(found: Sequence[RouteExplanation]) -> list[dict[str, object]]:
    """What `--json` prints: every route."""
    return [
        {
            "target": str(each.target),
            "route": list(each.route.names),
            "cost": each.route.cost,
            "stands_in": each.route.stands_in,
            "missing": each.missing,
        }
        for each in found
    ]
