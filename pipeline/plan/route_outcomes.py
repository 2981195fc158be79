"""What came of a route, and what that means for others: records and sentences, without the walk."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path

from ...converters.conversion_records import StoredPrecision
from ...models.errors import StepFailed, TransloadError
from ...models.store import Stored
from ..drift.drift_records import CheckEvidence
from ..result.failure_kinds import FailureKind, kind_of_error
from ..result.schema import RouteFailure, RouteStatus, TriedRow
from .run_plan import Route


@dataclass(frozen=True)
class FailedStep:
    """A step whose result may not be used: the search for a minimal repro starts from it."""

    route: Route  # up to the step, which is its last
    source: Stored  # the input of the step
    status: RouteStatus  # WRONG or FAILED
    reason: str
    limit_db: float | None = None  # that its result is below, where numbers judged it


@dataclass(frozen=True)
class RouteOutcome:
    """What came of a route: the artifact, or why there is none."""

    status: RouteStatus
    reason: str
    stored: Stored | None = None
    batches: tuple[int, ...] = ()
    precision: StoredPrecision | None = None
    inherited: bool = False  # an earlier step of the route ended it
    not_run: bool = False  # nothing has run it: good to build on, and no result
    failure: FailedStep | None = None
    log: str | None = None  # of the route's own last action
    limit_db: float | None = None  # that a wrong result is below, where numbers judged it
    evidence: CheckEvidence = field(default_factory=CheckEvidence)
    checked: Path | None = None  # the folder of the route's own check
    cause: RouteFailure | None = None  # of a route that gave no result that may be used

    @property
    def counts(self) -> bool:
        """Whether it may be handed out."""
        return self.stored is not None and not self.not_run

    @property
    def shown_status(self) -> RouteStatus:
        """The status in run.json: what cannot be run is no result, and no wrong answer either."""
        return RouteStatus.FAILED if self.not_run else self.status


def without_store_paths(reason: str) -> str:
    """Remove from a sentence the places of files in the store and in a worker, and ONNX Runtime's numbers."""
    return re.sub(r"/\S*/(?:objects/[0-9a-f]{64}|trial\d+/\w+)/|\[ONNXRuntimeError\] : \d+ : ", "", reason)


def missing_outcome(step: str, missing: str) -> RouteOutcome:
    """Return the outcome of a route whose step lacks what it requires."""
    reason = f"{step} {missing}"
    return RouteOutcome(RouteStatus.MISSING, reason, cause=RouteFailure(step, FailureKind.MISSING, reason))


def failed_outcome(route: Route, error: TransloadError, log: str) -> RouteOutcome:
    """Return the outcome of a route whose last step, or the check of that, raised an error."""
    message = without_store_paths(error.what)
    # The mend of a failed step is to read its log.
    reason = f"{message} ({log})" if isinstance(error, StepFailed) else f"{message.rstrip('.')}; {error.fix}"
    cause = RouteFailure(route.names[-1], kind_of_error(error), message, log)
    return RouteOutcome(RouteStatus.FAILED, reason, log=log, cause=cause)


def inherit_outcome(route: Route, outcome: RouteOutcome) -> RouteOutcome:
    """Return what the end of a route means for the routes that go on from it. Its reason names the step once."""
    step, reason = route.names[-1], outcome.reason
    named = reason if outcome.inherited or reason.startswith(f"{step} ") else f"{step}: {reason}"
    return RouteOutcome(outcome.status, named, inherited=True, failure=outcome.failure, cause=outcome.cause)


def with_lost_request(winner: Route, outcomes: Mapping[Route, RouteOutcome]) -> RouteOutcome:
    """Return the winner's outcome; its reason says which step that the user requested it replaces, and why."""
    outcome, option = outcomes[winner], winner.steps[-1].on_request
    cheaper = takewhile(lambda item: item[0] != winner, outcomes.items())
    lost = [(route.steps[-1], other) for route, other in cheaper if route.steps[-1].on_request not in ("", option)]
    if not lost:
        return outcome
    step, other = lost[0]
    return replace(
        outcome, reason=f"{outcome.reason}; without {step.on_request}: {step.name} {other.shown_status}: {other.reason}"
    )


def tried_row(route: Route, outcome: RouteOutcome) -> TriedRow:
    """Return the row of a route in the result."""
    return TriedRow(route.names, outcome.shown_status, outcome.reason, outcome.log, outcome.cause)
