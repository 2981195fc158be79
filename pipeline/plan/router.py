"""From the source to a target: every chain of steps, cheapest first, and the first that verifies.

A step that returned 0 has proved nothing: what it made is reloaded in a fresh process and compared with the reference
before it counts as an artifact, or what was built on it does. Where cores would be idle meanwhile, the next step starts
from it before that answer is there. One exception: what its own runtime cannot run at all (ONNX Runtime lacks an
operator) answered nothing wrong; the next step may build on it, and then only agreement with the reference counts.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from ...converters import third_party
from ...converters.steps import Step
from ...models.errors import DiskFull, StepFailed, TransloadError
from ...models.formats import Precision, Target
from ...models.store import Stored
from ...serving.runtimes.runtime_table import RUNTIMES, Runtime
from ..drift.sessions import runtime_for
from ..result.schema import TriedRow
from ..workers.engine import Action, Executor
from ..workers.fork_server import framework_of
from ..workers.interpreters import interpreter_of, lacking
from ..workers.isolation import Limits
from .routes import Route, require_routes, routes_to, steps_for

VERIFY = "transload.pipeline.drift.jobs:verify"


@dataclass(frozen=True, kw_only=True)
class ConversionInputs:
    """What every route of a run starts from."""

    source: Stored  # of the model in PyTorch, or of a given artifact
    start: Target | None
    data: Stored
    code: str = ""
    root: str | None = None
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, kw_only=True)
class VerificationInputs(ConversionInputs):
    """What every route of a run starts from and is held against."""

    reference: Stored
    verify_options: Mapping[str, Any]
    sqnr_db: float  # what an fp32 copy must agree to; other precisions have floors of their own (drift/rules.py)


@dataclass(frozen=True)
class FailedStep:
    """A step that gave nothing that may be used: search.py looks for a smaller piece of it that fails."""

    route: Route  # up to the step, which is its last
    source: Stored  # what the step was given
    status: str  # "wrong" or "failed"
    reason: str


@dataclass(frozen=True)
class TargetResult:
    """What became of a target. `stored` is None where no route led to it."""

    target: Target
    stored: Stored | None
    route: Route | None
    tried: tuple[TriedRow, ...]
    seconds: float  # of the winning route's steps, when they were done
    batches: tuple[int, ...]
    failures: tuple[FailedStep, ...] = ()  # each once, the cheapest route's first


@dataclass(frozen=True)
class _Outcome:
    """Of one prefix of a route: the artifact, or why there is none."""

    status: str
    reason: str
    stored: Stored | None = None
    batches: tuple[int, ...] = ()
    inherited: bool = False  # an earlier step of the route ended it
    not_run: bool = False  # nothing has run it: good to build on, and no result
    failure: FailedStep | None = None

    @property
    def counts(self) -> bool:
        """Whether it may be handed out."""
        return self.stored is not None and not self.not_run


@dataclass(frozen=True)
class _Walk:
    """One prefix of a route, under way or done. `made`: what the next step starts from, None where nothing is."""

    made: Future[Stored | None] = field(default_factory=Future)
    outcome: Future[_Outcome] = field(default_factory=Future)

    def is_lost(self) -> bool:
        """Whether it is known already that nothing may be built on it."""
        return self.outcome.done() and self.outcome.result().stored is None


_LOST = _Outcome("failed", "what it starts from is no good")


def _given(source: Stored) -> _Walk:
    """What every route begins with."""
    walk = _Walk()
    walk.made.set_result(source)
    walk.outcome.set_result(_Outcome("given", "", source))
    return walk


class Router:
    """Walks routes for one basis. Thread-safe; a prefix that several routes share is walked once.

    `ahead`: a step starts as soon as there is something to start from, while that is being checked.
    """

    def __init__(
        self,
        executor: Executor,
        basis: VerificationInputs,
        steps: tuple[Step, ...] | None = None,
        *,
        ahead: bool = False,
    ) -> None:
        self._executor = executor
        self._basis = basis
        self._steps = steps_for() if steps is None else steps
        self._ahead = ahead
        self._lock = threading.Lock()
        self._walks: dict[tuple[str, ...], _Walk] = {}

    def make(self, target: Target, *, cross_check: bool = False) -> TargetResult:
        """The target by the cheapest route that verifies; with `cross_check` also by every other last step, once."""
        if target == self._basis.start:
            return TargetResult(target, self._basis.source, Route(()), (), 0.0, ())
        tried: list[TriedRow] = []
        failures: dict[tuple[str, ...], FailedStep] = {}
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
            tried.append(_row(route, outcome))
        made = TargetResult(target, None, None, tuple(tried), 0.0, (), tuple(failures.values()))
        return self._won(made, *won) if won else made

    def make_of(self, lost: TargetResult, others: Sequence[TargetResult]) -> TargetResult:
        """A target that no route has led to, by one step from another that was made: that may be a detour (routes.py),
        and is what is left."""
        for route in (
            Route((*other.route.steps, step))
            for other in others
            for step in self._steps
            if other.route and (step.source, step.target) == (other.target, lost.target)
        ):
            if route.names in {row.route for row in lost.tried}:
                continue
            outcome = self._walk(route)
            lost = replace(lost, tried=(*lost.tried, _row(route, outcome)))
            if outcome.counts:
                return self._won(lost, route, outcome)
        return lost

    def _won(self, made: TargetResult, route: Route, outcome: _Outcome) -> TargetResult:
        return replace(made, stored=outcome.stored, route=route, seconds=self._seconds(route), batches=outcome.batches)

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
        walk, ours = self._begun(route)
        if ours:
            self._go(route, walk)
        return walk.outcome.result()

    def _begin(self, route: Route) -> _Walk:
        """The same, without waiting for the outcome where the next step may go ahead."""
        walk, ours = self._begun(route)
        if ours and self._ahead:
            threading.Thread(target=self._go, args=(route, walk)).start()
        elif ours:
            self._go(route, walk)
        return walk

    def _begun(self, route: Route) -> tuple[_Walk, bool]:
        """The walk of a route, and whether it is the caller's to do."""
        with self._lock:
            ours = route.names not in self._walks
            return self._walks.setdefault(route.names, _Walk()), ours

    def _go(self, route: Route, walk: _Walk) -> None:
        stored = None
        try:
            outcome = self._work_out(route, walk)
            stored = outcome.stored
            walk.outcome.set_result(outcome)
        except BaseException as error:  # noqa: BLE001  (who asks for the outcome meets it)
            walk.outcome.set_exception(error)
        finally:
            if not walk.made.done():
                walk.made.set_result(stored)

    def _work_out(self, route: Route, walk: _Walk) -> _Outcome:
        step, before = route.steps[-1], Route(route.steps[:-1])
        former = self._begin(before) if before.steps else _given(self._basis.source)
        why = lacking(step)
        tried = _Outcome("missing", f"{step.name} {why}") if why else self._try(route, former, walk)
        base = former.outcome.result()
        if base.stored is None:
            named = base.reason if base.inherited else _named(before.names[-1], base.reason)
            return _Outcome(base.status, named, inherited=True, failure=base.failure)
        unseen = f"{before.names[-1]}: {base.reason}" if base.not_run else ""
        outcome = tried if isinstance(tried, _Outcome) else self._judged(route, *tried, unseen)
        if outcome.status in ("wrong", "failed") or outcome.not_run:
            return replace(outcome, failure=FailedStep(route, base.stored, _said(outcome), outcome.reason))
        return outcome

    def _try(self, route: Route, former: _Walk, walk: _Walk) -> tuple[Stored, Mapping[str, Any]] | _Outcome:
        """What the last step makes, and the facts of its check; or why there is none."""
        source = former.made.result()
        if source is None or former.is_lost():
            return _LOST
        action = conversion(self._basis, route, source)
        try:
            made = self._executor.perform(action)
            if former.is_lost():
                return _LOST
            if self._ahead:
                walk.made.set_result(made)
            action = verification(self._basis, route, made)
            return made, self._executor.perform(action).facts
        except DiskFull:
            raise  # no route is better than another then
        except StepFailed as error:  # its own mend is to read the log
            return _Outcome("failed", f"{plain(error.what)} (logs/{action.name}.log)")
        except TransloadError as error:
            return _Outcome("failed", f"{plain(error.what).rstrip('.')}; {error.fix}")

    def _judged(self, route: Route, made: Stored, facts: Mapping[str, Any], unseen: str) -> _Outcome:
        """What the check says of a step. `unseen`: why nothing has run what it starts from, empty where it ran."""
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


def _row(route: Route, outcome: _Outcome) -> TriedRow:
    return TriedRow(route.names, _said(outcome), outcome.reason)  # type: ignore[arg-type]  # a Literal


def _said(outcome: _Outcome) -> str:
    """The status of a route in run.json: what cannot be run is no result, and no wrong answer either."""
    return "failed" if outcome.not_run else outcome.status


def runtime_of(target: Target, flex: Sequence[str] = ()) -> Runtime:
    """What a conversion to the target is checked in. `flex`: the operators in it that need TensorFlow's delegate."""
    return RUNTIMES[runtime_for(target.format, flex)]


def conversion(origin: ConversionInputs, route: Route, source: Stored) -> Action:
    """The route's last step, done to what the steps before it have made."""
    step = route.steps[-1]
    interpreter = interpreter_of(step)
    return Action(
        name=f"convert.{step.target.slug}.{'+'.join(route.names)}",
        entry=step.entry,
        inputs={"source": source, **({"data": origin.data} if step.calibrates else {})},
        options=step.options,
        requires=step.requires,
        python=interpreter.path,
        framework=framework_of(step.requires),
        tools={**interpreter.tools, **({"package": step.package} if step.package else {})},
        folders=third_party.folders(step),
        code=origin.code if step.source is None else "",
        root=origin.root,
        limits=origin.limits,
        remembers_refusal=True,
    )


def verification(basis: VerificationInputs, route: Route, made: Stored) -> Action:
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
    "ConversionInputs",
    "FailedStep",
    "Route",
    "Router",
    "TargetResult",
    "VerificationInputs",
    "conversion",
    "require_routes",
    "routes_to",
    "verification",
]
