"""From the source to a target: every chain of steps, cheapest first, and the first that verifies.

A step that returned 0 has proved nothing: what it made is reloaded in a fresh process and compared with the reference
before the next step builds on it, and before it counts as an artifact. One exception: what its own runtime cannot run
at all (ONNX Runtime lacks an operator) answered nothing wrong; the next step may build on it, and then only agreement
with the reference counts.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from ..converters import third_party
from ..converters.steps import Step
from ..models.errors import DiskFull, StepFailed, TransloadError
from ..models.formats import Precision, Target
from ..models.store import Stored
from ..serving.runtimes.table import RUNTIMES, Runtime
from .drift.sessions import runtime_for
from .engine import Action, Executor
from .interpreters import interpreter_of, lacking
from .isolation import Limits
from .result import TriedRow
from .routes import Route, require_routes, routes_to, steps_for
from .zygote import framework_of

VERIFY = "transload.pipeline.drift.validate:verify"


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
class Failure:
    """A step that gave nothing that may be used: shrink/search.py looks for a smaller piece of it that fails."""

    route: Route  # up to the step, which is its last
    source: Stored  # what the step was given
    status: str  # "wrong" or "failed"
    reason: str


@dataclass(frozen=True)
class Made:
    """What became of a target. `stored` is None where no route led to it."""

    target: Target
    stored: Stored | None
    route: Route | None
    tried: tuple[TriedRow, ...]
    seconds: float  # of the winning route's steps, when they were done
    batches: tuple[int, ...]
    failures: tuple[Failure, ...] = ()  # each once, the cheapest route's first


@dataclass(frozen=True)
class _Outcome:
    """Of one prefix of a route: the artifact, or why there is none."""

    status: str
    reason: str
    stored: Stored | None = None
    batches: tuple[int, ...] = ()
    inherited: bool = False  # an earlier step of the route ended it
    not_run: bool = False  # nothing has run it: good to build on, and no result
    failure: Failure | None = None

    @property
    def counts(self) -> bool:
        """Whether it may be handed out."""
        return self.stored is not None and not self.not_run


class Router:
    """Walks routes for one basis. Thread-safe; a prefix that several routes share is walked once."""

    def __init__(self, executor: Executor, basis: Basis, steps: tuple[Step, ...] | None = None) -> None:
        self._executor = executor
        self._basis = basis
        self._steps = steps_for() if steps is None else steps
        self._lock = threading.Lock()
        self._outcomes: dict[tuple[str, ...], Future[_Outcome]] = {}

    def make(self, target: Target, *, cross_check: bool = False) -> Made:
        """The target by the cheapest route that verifies; with `cross_check` also by every other last step, once."""
        if target == self._basis.start:
            return Made(target, self._basis.source, Route(()), (), 0.0, ())
        tried: list[TriedRow] = []
        failures: dict[tuple[str, ...], Failure] = {}
        won: tuple[Route, _Outcome] | None = None
        for route in routes_to(target, self._basis.start, self._steps):
            if route.stands_in and (won or not self._called_for(route)):
                continue
            if won and not (cross_check and self._is_news(route, won[0])):
                outcome = _Outcome("not tried", f"{won[0]} is cheaper and {won[1].status}")
            else:
                outcome = self._walk(route)
            if not won and outcome.counts:
                won = (route, outcome)
            if outcome.failure:
                failures.setdefault(outcome.failure.route.names, outcome.failure)
            tried.append(TriedRow(route.names, _said(outcome), outcome.reason))  # type: ignore[arg-type]  # a Literal
        rows, failed = tuple(tried), tuple(failures.values())
        if not won:
            return Made(target, None, None, rows, 0.0, (), failed)
        return Made(target, won[1].stored, won[0], rows, self._seconds(won[0]), won[1].batches, failed)

    def _called_for(self, route: Route) -> bool:
        """Whether every stand-in of a route stands in for a step that gave nothing which may be handed out."""
        originals = {step.name: step for step in self._steps}
        for at, step in enumerate(route.steps):
            if step.stands_in_for in originals:
                outcome = self._walk(Route((*route.steps[:at], originals[step.stands_in_for])))
                if outcome.counts or outcome.inherited or outcome.status == "missing":
                    return False
        return True

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
        source, unseen = self._basis.source, ""
        if before.steps:
            outcome = self._walk(before)
            if outcome.stored is None:
                named = outcome.reason if outcome.inherited else _named(before.names[-1], outcome.reason)
                return _Outcome(outcome.status, named, inherited=True, failure=outcome.failure)
            source = outcome.stored
            unseen = f"{before.names[-1]}: {outcome.reason}" if outcome.not_run else ""
        if why := lacking(step):
            return _Outcome("missing", f"{step.name} {why}")
        outcome = self._try(route, source, unseen)
        if outcome.status in ("wrong", "failed") or outcome.not_run:
            return replace(outcome, failure=Failure(route, source, _said(outcome), outcome.reason))
        return outcome

    def _try(self, route: Route, source: Stored, unseen: str) -> _Outcome:
        """What the last step makes, checked. `unseen`: why nothing has run what it starts from, empty where it ran."""
        action = conversion(self._basis, route, source)
        try:
            made = self._executor.perform(action)
            action = verification(self._basis, route, made)
            facts = self._executor.perform(action).facts
        except DiskFull:
            raise  # no route is better than another then
        except StepFailed as error:  # its own mend is to read the log
            return _Outcome("failed", f"{plain(error.what)} (logs/{action.name}.log)")
        except TransloadError as error:
            return _Outcome("failed", f"{plain(error.what).rstrip('.')}; {error.fix}")
        batches, said = tuple(facts["batches"]), plain(facts["reason"])
        if facts["status"] == "wrong" and not facts.get("ran", True):
            return _Outcome("unverified", said, made, not_run=True)
        if unseen and facts["status"] == "unverified":
            return _Outcome("unverified", f"{said}; nor was what it is made from run: {unseen}")
        reason = f"{said}; what it is made from was not run ({unseen})" if unseen else said
        reason = "; ".join([reason, *self._notes(route, made)])
        good = facts["status"] != "wrong"  # "unverified" is a copy that nothing speaks against, and nothing for
        return _Outcome(facts["status"], reason, made if good else None, batches)

    def _notes(self, route: Route, made: Stored) -> list[str]:
        """What the steps of a route say that a reader must know of what they made."""
        former = (self._walk(Route(route.steps[:n])).stored for n in range(1, len(route.steps)))
        notes = (stored.facts.get("note") for stored in (*former, made) if stored)
        return [str(note) for note in dict.fromkeys(notes) if note]


def plain(reason: str) -> str:
    """A sentence without the places of files in the store and in a worker, and without ONNX Runtime's numbers."""
    return re.sub(r"/\S*/(?:objects/[0-9a-f]{64}|trial\d+/\w+)/|\[ONNXRuntimeError\] : \d+ : ", "", reason)


def _named(step: str, reason: str) -> str:
    """What a step ended in, for the routes that go on from it."""
    return reason if reason.startswith(f"{step} ") else f"{step}: {reason}"


def _said(outcome: _Outcome) -> str:
    """The status of a route in run.json: what cannot be run is no result, and no wrong answer either."""
    return "failed" if outcome.not_run else outcome.status


def runtime_of(target: Target, flex: Sequence[str] = ()) -> Runtime:
    """What a conversion to the target is checked in. `flex`: the operators in it that need TensorFlow's delegate."""
    return RUNTIMES[runtime_for(target.format, flex)]


def conversion(basis: Basis, route: Route, source: Stored) -> Action:
    """The route's last step, done to what the steps before it have made."""
    step = route.steps[-1]
    interpreter = interpreter_of(step)
    return Action(
        name=f"convert.{step.target.slug}.{'+'.join(route.names)}",
        entry=step.entry,
        inputs={"source": source, **({"data": basis.data} if step.calibrates else {})},
        options=step.options,
        requires=step.requires,
        python=interpreter.path,
        framework=framework_of(step.requires),
        tools={**interpreter.tools, **({"package": step.package} if step.package else {})},
        folders=third_party.folders(step),
        code=basis.code if step.source is None else "",
        root=basis.root,
        limits=basis.limits,
        remembers_refusal=True,
    )


def verification(basis: Basis, route: Route, made: Stored) -> Action:
    """The check of what the route has made, opened anew, against the reference."""
    step = route.steps[-1]
    runtime = runtime_of(step.target, made.facts.get("flex", ()))
    interpreter = interpreter_of(runtime)
    return Action(
        name=f"verify.{step.target.slug}.{'+'.join(route.names)}",
        entry=VERIFY,
        inputs={"artifact": made, "data": basis.data, "reference": basis.reference},
        options={
            **basis.verify_options,
            "precision": str(step.target.precision),
            "tolerance_sqnr_db": basis.sqnr_db if step.target.precision is Precision.FP32 else None,
        },
        requires=(*step.requires, *runtime.requires),
        python=interpreter.path,
        framework=framework_of(runtime.requires),
        tools=interpreter.tools,
        code=basis.code,
        root=basis.root,
        limits=basis.limits,
        remembers_refusal=True,
    )


__all__ = [
    "VERIFY",
    "Basis",
    "Failure",
    "Made",
    "Route",
    "Router",
    "conversion",
    "require_routes",
    "routes_to",
    "verification",
]
