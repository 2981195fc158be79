"""The routes that the table of steps makes possible, as data. Nothing is run and no framework is imported."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ...converters import third_party
from ...converters.steps import Step
from ...models.formats import Format, Precision, Target


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


def steps_for(requested: Collection[str] = ()) -> tuple[Step, ...]:
    """Return the steps that may be taken; `requested` has the options that open some of them (`Step.on_request`)."""
    return tuple(
        step for step in third_party.known_steps().steps if not step.on_request or step.on_request in requested
    )


def routes_to(target: Target, start: Target | None, steps: tuple[Step, ...] | None = None) -> list[Route]:
    """Return every route from `start` (None: the model in PyTorch) to `target`, cheapest first.

    Without `steps`, those that need no option are taken. A start of reduced precision is carried as a file of its
    format is: such a file does not say its precision. The full precision does not come back from it.

    No route passes a format twice, or builds on a reduced precision. From PyTorch no route is a detour, where one
    cheaper step does what it takes several for: PyTorch's own steps are many, and stand in for each other. From a file
    there are few routes, and the longer one may be the last that is left.
    """
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
