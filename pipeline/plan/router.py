"""From the plan to a target: its routes, cheapest first, and the first that verifies.

A router decides, from what has been done, what comes next; an executor does it. A step that returned 0 has proved
nothing: its artifact is reloaded in a fresh process and compared with the reference before it counts, or before what
is built on it does. Going ahead, the next step starts before that answer is there.
A capture by PyTorch that is no target is right where the copy that is made of it is: it is checked where that is not.
One exception: an artifact that its own runtime cannot run at all (ONNX Runtime lacks an operator) has answered nothing
wrong. The next step may build on it, and then only agreement with the reference counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ...converters.conversion_records import ConversionFacts, StoredPrecision
from ...models.errors import DiskFull, TransloadError
from ...models.formats import Precision, Target
from ...models.store import Stored
from ..drift.drift_records import CheckEvidence, VerifyFacts
from ..result.check_table import CheckRows, read_check_rows
from ..result.failure_kinds import FailureKind
from ..result.schema import RouteFailure, RouteStatus, TriedRow
from ..workers.engine import Action, Executor
from .constant_actions import extend_reference
from .route_actions import (
    ConversionInputs,
    VerificationInputs,
    constants_of,
    conversion,
    is_capture,
    verification,
)
from .route_outcomes import (
    FailedStep,
    RouteOutcome,
    failed_outcome,
    inherit_outcome,
    missing_outcome,
    tried_row,
    with_lost_request,
    without_store_paths,
)
from .run_plan import Plan, Route, action_name, log_of


@dataclass(frozen=True)
class TargetResult:
    """What became of a target. `stored` is None where no route led to it."""

    target: Target
    stored: Stored | None
    route: Route | None
    tried: tuple[TriedRow, ...] = ()
    seconds: float = 0.0  # of the winning route's steps, when they were done
    batches: tuple[int, ...] = ()
    failures: tuple[FailedStep, ...] = ()  # each once, the cheapest route's first
    evidence: CheckRows = field(default_factory=CheckRows)  # of its check; without it, of the first wrong one
    precision: StoredPrecision | None = None  # of a reduced copy's file
    label: str | None = None  # tells it from another artifact of the same target
    judged_as: Precision | None = None  # in place of the target's own precision
    checked: Path | None = None  # the folder of its check, with its golden samples

    @property
    def name(self) -> str:
        """The artifact's name in rows."""
        return self.label or str(self.target)


class Router:
    """Decides what is done for the targets of a plan, and what became of them. Each step is done once.
    `ahead`: a step starts as soon as there is something to start from, while that is being checked."""

    def __init__(self, executor: Executor, inputs: VerificationInputs, plan: Plan, *, ahead: bool = False) -> None:
        self._executor = executor
        self._inputs = inputs
        self._plan = plan
        self._ahead = ahead
        self._actions: dict[str, Future[Stored]] = {}  # submitted, by name
        self._awaited: set[str] = set()  # the actions that undecided routes depend on
        self._outcomes: dict[tuple[str, ...], RouteOutcome] = {}
        self._targets = {planned.target for planned in plan.targets}

    def make_all(
        self, targets: Sequence[Target], report: Callable[[TargetResult], None] | None = None
    ) -> list[TargetResult]:
        """Make targets of the plan, each by the cheapest route that verifies; `report` hears of each at once.
        Raises DiskFull, and what is no TransloadError; what else happens to a target is in its result."""
        results: dict[Target, TargetResult] = {}
        while len(results) < len(set(targets)):
            self._awaited.clear()
            for target in targets:
                if target not in results and (result := self._decide(target)):
                    results[target] = result
                    if report:
                        report(result)
            self._wait()
        return [results[target] for target in targets]

    def make_by_detour(self, lost: TargetResult, results: Sequence[TargetResult]) -> TargetResult:
        """Make a target that no route of the plan led to, by one step from another target that is there.
        Such a route may be a detour (run_plan.py), and is the last that is left."""
        detours = (
            Route((*result.route.steps, step))
            for result in results
            for step in self._plan.steps
            if result.route and (step.source, step.target) == (result.target, lost.target)
        )
        for route in detours:
            if route.names in {row.route for row in lost.tried}:
                continue
            while (outcome := self._outcome(route)) is None:
                self._wait()
            lost = replace(lost, tried=(*lost.tried, tried_row(route, outcome)))
            if outcome.counts:
                return self._with_winner(lost, route, outcome)
        return lost

    def _wait(self) -> None:
        """Wait until an action that something depends on is done; take back those that nothing depends on any more."""
        stale = [name for name, action in self._actions.items() if name not in self._awaited and action.cancel()]
        for name in stale:
            del self._actions[name]
        pending = [self._actions[name] for name in self._awaited if not self._actions[name].done()]
        wait(pending, return_when=FIRST_COMPLETED)

    def _decide(self, target: Target) -> TargetResult | None:
        """Return what became of a target, or None while that depends on an action."""
        if target == self._plan.start:
            return TargetResult(target, self._inputs.source, Route(()))
        outcomes: dict[Route, RouteOutcome] = {}
        winner: Route | None = None
        for route in self._plan.routes(target):
            if route.stands_in:
                needed = winner is None and self._is_needed(route)
                if needed is None:
                    return None
                if not needed:
                    continue
            if winner and not (self._plan.cross_check and _is_news(route, winner)):
                reason = f"{winner} is cheaper and {outcomes[winner].status}"
                outcomes[route] = RouteOutcome(RouteStatus.NOT_TRIED, reason)
                continue
            outcome = self._outcome(route)
            if outcome is None:
                return None
            outcomes[route] = outcome
            if winner is None and outcome.counts:
                winner = route
        return self._result(target, outcomes, winner)

    def _result(self, target: Target, outcomes: Mapping[Route, RouteOutcome], winner: Route | None) -> TargetResult:
        failures: dict[tuple[str, ...], FailedStep] = {}
        if winner:
            outcomes = {**outcomes, winner: with_lost_request(winner, outcomes)}
        for outcome in outcomes.values():
            if outcome.failure:
                failures.setdefault(outcome.failure.route.names, outcome.failure)
        rows = tuple(tried_row(route, outcome) for route, outcome in outcomes.items())
        checked = (outcome.evidence for outcome in outcomes.values() if outcome.evidence.probes)
        evidence = read_check_rows(outcomes[winner].evidence if winner else next(checked, CheckEvidence()), str(target))
        result = TargetResult(target, None, None, rows, failures=tuple(failures.values()), evidence=evidence)
        return self._with_winner(result, winner, outcomes[winner]) if winner else result

    def _with_winner(self, result: TargetResult, route: Route, outcome: RouteOutcome) -> TargetResult:
        parts = (self._outcomes[part.names].stored for part in route.prefixes)
        seconds = sum(stored.seconds for stored in parts if stored)
        return replace(
            result, stored=outcome.stored, route=route, seconds=seconds, batches=outcome.batches,
            precision=outcome.precision, checked=outcome.checked,
        )  # fmt: skip

    def _is_needed(self, route: Route) -> bool | None:
        """Return whether every stand-in of a route stands in for a step that gave nothing which may be handed out."""
        originals = {step.name: step for step in self._plan.steps}
        for part in route.prefixes:
            original = originals.get(part.steps[-1].stands_in_for)
            if original is None:
                continue
            outcome = self._outcome(Route((*part.before.steps, original)))
            if outcome is None:
                return None
            if outcome.counts or outcome.inherited or outcome.status is RouteStatus.MISSING:
                return False
        return True

    def _outcome(self, route: Route) -> RouteOutcome | None:
        """Return what came of a route, or None while that depends on an action."""
        if not route.steps:
            return RouteOutcome(RouteStatus.VERIFIED, "", self._inputs.source)
        if route.names not in self._outcomes:
            if self._rests_on_capture(route) and not self._trust_capture(route):
                return None
            outcome = self._settle(route)
            if outcome is None:
                return None
            self._outcomes[route.names] = outcome
        return self._outcomes[route.names]

    def _settle(self, route: Route) -> RouteOutcome | None:
        step, base = route.steps[-1], self._outcome(route.before)
        if base and base.stored is None:
            return inherit_outcome(route.before, base)
        source = base.stored if base else self._unchecked(route.before)
        missing = self._plan.missing.get(step.name)
        check = self._check(route, source) if source and not missing else None
        if base is None or base.stored is None:  # the step went ahead
            return None
        if missing:
            return missing_outcome(step.name, missing)
        if check is None:
            return None
        outcome = check if isinstance(check, RouteOutcome) else self._judge(route, base, *check)
        if outcome.shown_status in (RouteStatus.WRONG, RouteStatus.FAILED):
            failure = FailedStep(route, base.stored, outcome.shown_status, outcome.reason, outcome.limit_db)
            return replace(outcome, failure=failure)
        return outcome

    def _rests_on_capture(self, route: Route) -> bool:
        """Return whether the check of a route's end, which has the same limits, speaks for a capture before it."""
        before, is_full = route.before, route.steps[-1].target.precision is Precision.FP32
        if not (before.steps and is_full) or before.names in self._outcomes:
            return False
        middle = before.steps[-1].target
        return is_capture(middle) and middle not in self._targets and not self._plan.missing_for(route)

    def _trust_capture(self, route: Route) -> bool:
        """Return whether a route's end is checked; where it is verified, the capture before counts as verified, too."""
        try:
            source = self._convert(route.before)
            check = self._check(route, source) if source else None
        except TransloadError:
            return True  # the capture's own outcome says why
        if isinstance(check, tuple) and RouteStatus(check[1].status) is RouteStatus.VERIFIED:
            for part in route.before.prefixes:
                self._outcomes.setdefault(part.names, RouteOutcome(RouteStatus.VERIFIED, "", self._convert(part)))
        return check is not None

    def _convert(self, route: Route) -> Stored | None:
        """Return what a route makes, unchecked; None while it is made. Raises what a step raised."""
        source = self._convert(route.before) if route.before.steps else self._inputs.source
        return source and self._perform(action_name("convert", route), partial(conversion, self._inputs, route, source))

    def _unchecked(self, route: Route) -> Stored | None:
        """Return what a route has made, while that is being checked; None where its check is waited for."""
        action = self._actions.get(action_name("convert", route)) if self._ahead else None
        return action.result() if action and action.done() and not action.exception() else None

    def _check(self, route: Route, source: Stored) -> tuple[Stored, VerifyFacts, Path] | RouteOutcome | None:
        """Return what the last step made, the facts of its check and the folder that it left, or why there is none;
        None while it is done."""
        name = action_name("convert", route)
        try:
            artifact = self._perform(name, partial(conversion, self._inputs, route, source))
            if artifact is None:
                return None
            asked_with = self._near_constants(route, artifact)
            if asked_with is None:
                return None
            name = action_name("verify", route)
            checked = self._perform(name, partial(verification, asked_with, route, artifact))
        except DiskFull:
            raise  # no route is better than another then
        except TransloadError as error:
            return failed_outcome(route, error, log_of(name))
        return (artifact, VerifyFacts.from_json(checked.facts), checked.folder) if checked else None

    def _near_constants(self, route: Route, artifact: Stored) -> VerificationInputs | None:
        """Return what a copy is checked with: of an artifact that is converted, the reference's answers near the copy's
        constants too, where they can be had and the copy is asked there: one in a reduced precision is not. Those of a
        model in PyTorch were seen in itself. None while they are asked."""
        inputs = self._inputs
        if inputs.start is None or route.steps[-1].target.precision is not Precision.FP32:
            return inputs
        propose = constants_of(inputs, route, artifact)
        extended = extend_reference(lambda do: self._perform(do.name, lambda: do), inputs.recorder, propose)
        if extended is None:
            return None
        options = replace(inputs.verify_options, constants=extended.constants)
        return replace(inputs, reference=extended.reference, verify_options=options)

    def _perform(self, name: str, action: Callable[[], Action]) -> Stored | None:
        """Return the result of an action, or None while it is done. Raises what it raised."""
        self._awaited.add(name)
        if name not in self._actions:
            self._actions[name] = self._executor.submit(action())
        return self._actions[name].result() if self._actions[name].done() else None

    def _judge(
        self, route: Route, base: RouteOutcome, artifact: Stored, facts: VerifyFacts, checked: Path
    ) -> RouteOutcome:
        """Return what the check of a step says."""
        status, reason = RouteStatus(facts.status), without_store_paths(facts.reason)
        log = log_of(action_name("verify", route))
        if status is RouteStatus.WRONG and not facts.ran:
            not_opened = RouteFailure(route.names[-1], FailureKind.TOOL, reason, log)
            return RouteOutcome(RouteStatus.UNVERIFIED, reason, artifact, not_run=True, log=log, cause=not_opened)
        if base.not_run:
            unseen = f"{route.before.names[-1]}: {base.reason}"
            if status is RouteStatus.UNVERIFIED:
                reason = f"{reason}; nor was what it is made from run: {unseen}"
                return RouteOutcome(status, reason, log=log, cause=base.cause)
            reason = f"{reason}; what it is made from was not run ({unseen})"
        usable = status is not RouteStatus.WRONG  # UNVERIFIED: nothing speaks against the copy, and nothing for it
        wrong = None if usable else RouteFailure(route.names[-1], FailureKind.WRONG, reason, log)
        reason = "; ".join([reason, *self._notes(route, artifact)])
        limit_db = None if usable else facts.limit_db
        return RouteOutcome(
            status, reason, artifact if usable else None, facts.batches, facts.stored, log=log, limit_db=limit_db,
            evidence=facts.evidence, checked=checked, cause=wrong,
        )  # fmt: skip

    def _notes(self, route: Route, artifact: Stored) -> list[str]:
        """Return what the steps of a route say that a reader of its result must know."""
        former = (self._outcomes[part.names].stored for part in route.before.prefixes)
        notes = (ConversionFacts.part_of(stored.facts).note for stored in (*former, artifact) if stored)
        return [note for note in dict.fromkeys(notes) if note]


@contextmanager
def head_start(executor: Executor, inputs: ConversionInputs, plan: Plan) -> Iterator[None]:
    """Convert along the cheapest routes, one step at a time, until the end of the block.
    A router later finds each done, or under way. An error is met by the router, which submits the action again."""
    conversions, over = _conversions(inputs, plan), threading.Event()

    def advance(done: Future[Stored] | None) -> None:
        stored = None if done is None or done.cancelled() or done.exception() else done.result()
        if not over.is_set():
            with suppress(StopIteration):
                executor.submit(conversions.send(stored)).add_done_callback(advance)

    advance(None)
    try:
        yield
    finally:
        over.set()


def _conversions(inputs: ConversionInputs, plan: Plan) -> Generator[Action, Stored | None, None]:
    """Yield the conversions along the cheapest routes; what each has made, or None, is sent back."""
    for planned in plan.targets:
        source: Stored | None = inputs.source
        for route in plan.cheapest(planned.target).prefixes:
            if source is not None:
                source = yield conversion(inputs, route, source)


def _is_news(route: Route, winner: Route) -> bool:
    """Return whether a route says something that the winner does not.
    It ends in another last step from where the winner came by; another way to the same last step says nothing new."""
    return route.steps[-1] != winner.steps[-1] and route.names[:-1] in (winner.names[:-1], ())
