"""The routes that the table of steps makes, as data: nothing is run and no framework is imported."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ...converters import third_party
from ...converters.steps import Step
from ...models.errors import ToolMissing
from ...models.formats import Format, Precision, Target
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
    def lacking(self) -> str | None:
        """What keeps its steps from running here, or None."""
        return "; ".join(dict.fromkeys(why for step in self.steps if (why := lacking(step)))) or None

    @property
    def cost(self) -> float:
        """The sum of the steps' costs."""
        return sum(step.cost for step in self.steps)

    @property
    def stands_in(self) -> bool:
        """Whether one of its steps is another's way of doing the same."""
        return any(step.stands_in_for for step in self.steps)

    def __str__(self) -> str:
        return " > ".join(self.names)


def steps_for(requested: Collection[str] = ()) -> tuple[Step, ...]:
    """The steps that may be taken where these options were given: `Step.on_request`."""
    return tuple(step for step in third_party.known().steps if not step.on_request or step.on_request in requested)


def routes_to(target: Target, start: Target | None, steps: tuple[Step, ...] | None = None) -> list[Route]:
    """Every route from `start` (None: the model in PyTorch) to `target`, cheapest first; of the `steps` that need no
    option where none are given. A given copy of reduced precision is carried as any file of its format is, which does
    not say what precision it has; what it was made of does not come back from it.

    No route passes a format twice, or builds on a reduced precision. Nor is one a detour on the way from PyTorch to the
    last step, where one step would have been cheaper: PyTorch's own steps are many, and stand in for each other. From a
    file there are few ways, and the longer one may be what is left.
    """
    known = steps_for() if steps is None else steps
    if start is not None and target in _begins(start):
        return []
    originals = {step.name: step for step in known}
    # The sort is stable: equal costs stay in the table's order.
    found = sorted(_chains(target, start, known, frozenset()), key=lambda route: route.cost)
    if start is not None:
        return found
    plain = {route: _plain(route, originals) for route in found}
    return [route for route in found if not any(_is_detour(plain[route], other) for other in found)]


def _begins(start: Target | None) -> tuple[Target | None, ...]:
    """What a first step may take of what was given."""
    return (None,) if start is None else (start, Target(start.format))


def _plain(route: Route, originals: dict[str, Step]) -> Route:
    """A route as it is without stand-ins: it is worth what that one is."""
    return Route(tuple(originals.get(step.stands_in_for, step) for step in route.steps))


def _is_detour(route: Route, other: Route) -> bool:
    """Whether the other does in one step, and cheaper, what this one takes several for, and all the rest alike."""
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
    """Backwards from the target. `passed`: the formats of what is made after it."""
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


def require_routes(targets: Iterable[Target], start: Target | None, steps: tuple[Step, ...] | None = None) -> None:
    """Refuse at once what no route can make here: each lacks a library. A target without any route is not judged.

    Raises ToolMissing.
    """
    for target in targets:
        closed = [route.lacking for route in routes_to(target, start, steps)] if target != start else []
        if closed and all(closed):
            raise ToolMissing(
                f"the target {target} {closed[0]}, which is not installed",
                fix=f"install it (transload doctor shows how), or leave {target} out of --to",
            )
