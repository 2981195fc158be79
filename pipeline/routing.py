"""From the source to a target: every chain of steps, cheapest first, and the first that verifies.

A step that returned 0 has proved nothing: what it made is reloaded in a fresh process and compared with the reference
before the next step builds on it, and before it counts as an artifact.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ..converters.steps import STEPS, Step
from ..models.errors import DiskFull, StepFailed, ToolMissing, TransloadError
from ..models.formats import Precision, Target
from ..models.store import Stored
from ..serving.runtimes.table import RUNTIMES
from .drift.sessions import DEFAULT_RUNTIME
from .engine import Action, Executor
from .interpreters import lacking, python_of, toolchain_of
from .isolation import Limits
from .result import TriedRow

VERIFY = "transload.pipeline.drift.validate:verify"


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


def routes_to(target: Target, start: Target | None, steps: tuple[Step, ...] = STEPS) -> list[Route]:
    """Every route without a detour from `start` (None: the model in PyTorch) to `target`, cheapest first."""
    # The sort is stable: equal costs stay in the table's order.
    return sorted(_chains(target, start, steps, frozenset()), key=lambda route: route.cost)


def _chains(
    target: Target, start: Target | None, steps: tuple[Step, ...], passed: frozenset[Target]
) -> Iterator[Route]:
    for step in steps:
        if step.target != target or step.source in passed:
            continue
        if step.source == start:
            yield Route((step,))
        elif step.source is not None:
            for before in _chains(step.source, start, steps, passed | {target}):
                yield Route((*before.steps, step))


def require_routes(targets: Iterable[Target], start: Target | None) -> None:
    """Refuse at once what no route can make here: each lacks a library. A target without any route is not judged.

    Raises ToolMissing.
    """
    for target in targets:
        closed = [route.lacking for route in routes_to(target, start)] if target != start else []
        if closed and all(closed):
            raise ToolMissing(
                f"the target {target} {closed[0]}, which is not installed",
                fix=f"install it (transload doctor shows how), or leave {target} out of --to",
            )


@dataclass(frozen=True)
class Basis:
    """What every route of a run starts from and is held against."""

    source: Stored  # of the model in PyTorch, or of a given artifact
    start: Target | None
    data: Stored
    reference: Stored
    verify_options: Mapping[str, Any]
    sqnr_db: float  # what an fp32 copy must agree to; other precisions have floors of their own (drift/rules.py)
    code: str = ""
    root: str | None = None
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Made:
    """What became of a target. `stored` is None where no route led to it."""

    target: Target
    stored: Stored | None
    route: Route | None
    tried: tuple[TriedRow, ...]
    seconds: float  # of the winning route's steps, when they were done
    batches: tuple[int, ...]


@dataclass(frozen=True)
class _Outcome:
    """Of one prefix of a route: the verified artifact, or why there is none."""

    status: str
    reason: str
    stored: Stored | None = None
    batches: tuple[int, ...] = ()
    inherited: bool = False  # an earlier step of the route ended it


class Router:
    """Walks routes for one basis. Thread-safe; a prefix that several routes share is walked once."""

    def __init__(self, executor: Executor, basis: Basis, steps: tuple[Step, ...] = STEPS) -> None:
        self._executor = executor
        self._basis = basis
        self._steps = steps
        self._lock = threading.Lock()
        self._outcomes: dict[tuple[str, ...], Future[_Outcome]] = {}

    def make(self, target: Target, *, cross_check: bool = False) -> Made:
        """The target by the cheapest route that verifies; with `cross_check` also by every other last step, once."""
        if target == self._basis.start:
            return Made(target, self._basis.source, Route(()), (), 0.0, ())
        tried: list[TriedRow] = []
        won: tuple[Route, _Outcome] | None = None
        for route in routes_to(target, self._basis.start, self._steps):
            if won and not (cross_check and self._is_news(route, won[0])):
                outcome = _Outcome("not tried", f"{' > '.join(won[0].names)} is cheaper and {won[1].status}")
            else:
                outcome = self._walk(route)
            if not won and outcome.stored:
                won = (route, outcome)
            tried.append(TriedRow(route.names, outcome.status, outcome.reason))  # type: ignore[arg-type]  # a Literal
        if not won:
            return Made(target, None, None, tuple(tried), 0.0, ())
        return Made(target, won[1].stored, won[0], tuple(tried), self._seconds(won[0]), won[1].batches)

    def _is_news(self, route: Route, winner: Route) -> bool:
        """Whether a route says something that the winner does not: another last step from where the winner came by,
        not another way to the same last step."""
        return route.steps[-1] != winner.steps[-1] and route.names[:-1] in (winner.names[:-1], ())

    def _seconds(self, route: Route) -> float:
        walked = (self._walk(Route(route.steps[: n + 1])).stored for n in range(len(route.steps)))
        return sum(stored.seconds for stored in walked if stored)

    def _walk(self, route: Route) -> _Outcome:
        """The outcome of a route, found or waited for or worked out."""
        with self._lock:
            ours = route.names not in self._outcomes
            future = self._outcomes.setdefault(route.names, Future())
        if ours:
            try:
                future.set_result(self._work_out(route))
            except BaseException as error:
                future.set_exception(error)
                raise
        return future.result()

    def _work_out(self, route: Route) -> _Outcome:
        step, before = route.steps[-1], Route(route.steps[:-1])
        source = self._basis.source
        if before.steps:
            outcome = self._walk(before)
            if outcome.stored is None:
                named = outcome.reason if outcome.inherited else f"{before.names[-1]}: {outcome.reason}"
                return _Outcome(outcome.status, named, inherited=True)
            source = outcome.stored
        if why := lacking(step):
            return _Outcome("missing", f"{step.name} {why}")
        action = self._convert(step, route, source)
        try:
            made = self._executor.perform(action)
            action = verification(self._basis, route, made)
            checked = self._executor.perform(action)
        except DiskFull:
            raise  # no route is better than another then
        except StepFailed as error:  # its own mend is to read the log
            return _Outcome("failed", f"{error.what} (logs/{action.name}.log)")
        except TransloadError as error:
            return _Outcome("failed", f"{error.what}; {error.fix}")
        facts = checked.facts
        good = facts["status"] != "wrong"  # "unverified" is a copy that nothing speaks against, and nothing for
        return _Outcome(facts["status"], facts["reason"], made if good else None, tuple(facts["batches"]))

    def _convert(self, step: Step, route: Route, source: Stored) -> Action:
        basis = self._basis
        return Action(
            name=f"convert.{step.target.slug}.{'+'.join(route.names)}",
            entry=step.entry,
            inputs={"source": source, **({"data": basis.data} if step.calibrates else {})},
            requires=step.requires,
            python=python_of(step) if step.environment else "",
            tools=toolchain_of(step),
            code=basis.code if step.source is None else "",
            root=basis.root,
            limits=basis.limits,
            remembers_refusal=True,
        )


def verification(basis: Basis, route: Route, made: Stored) -> Action:
    """The check of what the route has made, opened anew, against the reference."""
    step = route.steps[-1]
    return Action(
        name=f"verify.{step.target.slug}.{'+'.join(route.names)}",
        entry=VERIFY,
        inputs={"artifact": made, "data": basis.data, "reference": basis.reference},
        options={
            **basis.verify_options,
            "precision": str(step.target.precision),
            "tolerance_sqnr_db": basis.sqnr_db if step.target.precision is Precision.FP32 else None,
        },
        requires=(*step.requires, *RUNTIMES[DEFAULT_RUNTIME[step.target.format]].requires),
        code=basis.code,
        root=basis.root,
        limits=basis.limits,
        remembers_refusal=True,
    )
