"""Options and facts of the drift jobs (reference.py, jobs.py), for both sides of the process border."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...converters.conversion_records import StoredPrecision
from ...models.job import Facts, JsonRecord
from ...models.signature import Signature, TensorSpec
from .metrics.metric_kinds import MetricChoice


@dataclass(frozen=True, kw_only=True)
class SessionOptions(JsonRecord):
    """The session that a drift job opens, and the batch sizes of its probes."""

    runtime: str | None = None  # None: the default one of the artifact's format
    device: str = "cpu"
    threads: int = 1
    batches: tuple[int, ...] = (1, 2, 5)
    model: str | None = None  # the name of the model on a server
    signature: Signature | None = None  # of a model that is served elsewhere, and has no artifact here
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the runtime, beside `threads`


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(SessionOptions):
    """What the reference is asked."""

    probes_only: bool = False  # not the full test set, which takes most of the time and which only `validate` reads
    chunk: int = 256  # samples of the full set in one call, at most
    random: bool = False  # the samples are random, so masks that hide all or nothing are tried in their place
    stress: bool = False  # floats that no sample holds are tried: large and tiny ones, ties, NaN
    constants: bool = True  # rows near the model's own constants are looked for
    not_finite: tuple[int, ...] = ()  # samples of the user's that hold NaN or infinities
    scores: bool = False  # some hundred samples drawn at random, too, where the full test set is not asked
    tries: int | None = None  # other integers are tried, so many times at most; None: not at all


@dataclass(frozen=True, kw_only=True)
class AnswerFacts(Facts):
    """The recorded reference."""

    device: str
    samples: int
    refused: Mapping[str, Mapping[int, str]]  # {axis: {size: reason}}
    answers_not_finite: bool = False  # with finite numbers, to the samples that hold NaN or infinities


@dataclass(frozen=True, kw_only=True)
class ProposalFacts(Facts):
    """Rows on both sides of the numbers that a copy compares values with, by their sources."""

    sources: tuple[str, ...] = ()
    constants: int = 0
    unreached: int = 0  # those that no row got beyond


@dataclass(frozen=True, kw_only=True)
class AcceptedFacts(Facts):
    """The inputs that a model takes, as `--input` would name them; none where no trial had an answer."""

    inputs: tuple[TensorSpec, ...] = ()
    notes: tuple[str, ...] = ()  # sentences for the user


@dataclass(frozen=True, kw_only=True)
class CheckOptions(SessionOptions):
    """The rule by which an artifact is compared with the reference, and the recipe whose metric judges it."""

    precision: str | None = None  # None: the artifact's own
    tolerance_sqnr_db: float | None = None
    allowed_loss: float | None = None
    require_non_finite: bool = False  # NaN and infinities that are not passed on are a failure, and no note
    metric: MetricChoice | None = None  # before the recipe's own
    ref: str | None = None
    root: str | None = None
    constants: tuple[int, int] = (0, 0)  # that the copy compares values with, and those of them that no input reached
    server: str | None = None  # the kind of server; another kind makes it another action


@dataclass(frozen=True, kw_only=True)
class CheckEvidence(JsonRecord):
    """What a check asked and saw. The rows are those of result.check_rows, without `artifact`."""

    probes: tuple[Mapping[str, Any], ...] = ()  # in the order asked
    exercised: tuple[Mapping[str, Any], ...] = ()
    errors: tuple[Mapping[str, Any], ...] = ()  # of the test set, by output
    worst_samples: tuple[Mapping[str, Any], ...] = ()
    inner_ranges: tuple[Mapping[str, Any], ...] = ()  # of a copy that holds float16


@dataclass(frozen=True, kw_only=True)
class ValidateFacts(Facts):
    """The comparison on the full test set and on every probe batch."""

    rows: tuple[Mapping[str, Any], ...]  # result.DriftRow without `artifact`; the full test set first
    device: str
    reason: str | None  # the first sentence of an answer that is wrong
    note: str | None  # what is still open, or what a pass does not tell
    silence: str | None = None  # the first sentence of a call without an answer
    evidence: CheckEvidence = CheckEvidence()


@dataclass(frozen=True, kw_only=True)
class VerifyFacts(Facts):
    """The quick check of a conversion."""

    status: str  # "verified", "unverified" or "wrong"
    reason: str
    sqnr_db: float | None  # None where there is no noise, or no answer
    batches: tuple[int, ...]  # at which nothing failed
    sizes: Mapping[str, Sequence[int]]  # of the other axes
    limit_db: float | None = None  # that a wrong copy is below, where numbers judged it
    ran: bool = True  # False where the runtime could not open the artifact
    evidence: CheckEvidence = CheckEvidence()
    stored: StoredPrecision | None = None  # of a reduced precision: what its file holds
