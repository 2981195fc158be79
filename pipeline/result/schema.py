"""The result of a run: run.json, schema 1. Seconds and bytes; a person's units exist only in rendering.

Schema history.  1: first version. `flex` and `weights` of an artifact and `log` of a row came later; absent, they are
empty and null. `probes`, `exercised`, `errors`, `worst_samples`, `smallest`, `located`, `left_out` and `doubts` came
later, too, and after them `tuning`, `bounds`, `load`, `settings` of a row, `ratio_to_default`, `doubt_kinds`,
`timeline`, `recommendation` and `baseline`; then `failure` of a tried route and `operator` of a smallest piece;
`inner_ranges` last.

A number is null where there is none to give: a runtime that did not answer (the sentence is then in the gate's
row, and in `doubts` for latency), or a signal-to-noise ratio of answers that are the same to the last bit.
NaN and infinity are no JSON: they become null where null is allowed, and are refused elsewhere (docs/run-json.md).

This module is longer than 400 lines because the records of one document are read, and published, together.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from ...models.errors import BadRequest
from ...models.library_messages import one_line_texts
from ...models.untrusted_files import read_plain
from .compare.change_records import RunComparison
from .doubt_kinds import DoubtKind
from .failure_kinds import FailureKind
from .load_cases import LoadEngine, LoadScenario
from .ratio import Comparison

SCHEMA: Final = 1
_MOST_DIGITS = 20  # of an integer: those of 64 bits

Name: TypeAlias = Annotated[str, Field(min_length=1)]
Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Instant: TypeAlias = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)$")]
Count: TypeAlias = Annotated[int, Field(ge=0)]
Batch: TypeAlias = Annotated[int, Field(ge=1)]
NotNegative: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Interval: TypeAlias = tuple[FiniteFloat, FiniteFloat]  # low, high


class Verdict(StrEnum):
    """Verdict on a comparison, a gate rule or a run."""

    PASS = "pass"  # noqa: S105  (no password)
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class Status(StrEnum):
    """Status of an artifact.

    Verified: it keeps its rule; a note may stand beside. Degraded: it is right for fewer sizes or values than were
    asked for, or keeps its rule and is measurably worse in the metric. Unverified: the evidence is not enough.
    """

    VERIFIED = "verified"
    DEGRADED = "degraded"
    FAILED = "failed"
    UNVERIFIED = "unverified"


class RouteStatus(StrEnum):
    """Status of a route that was looked at. Unverified: nothing speaks against its artifact, and nothing for it."""

    VERIFIED = "verified"
    DEGRADED = "degraded"  # of a file from before notes: right for numbers, and loses NaN or infinities
    UNVERIFIED = "unverified"
    WRONG = "wrong"
    FAILED = "failed"
    MISSING = "missing"  # a library that a step needs is not here
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class TensorRow:
    """An input or output; a string in `shape` names a dynamic axis."""

    name: Name
    dtype: Name
    shape: tuple[Count | Name, ...]


@dataclass(frozen=True)
class SignatureRow:
    """Inputs and outputs in the model's order."""

    inputs: tuple[TensorRow, ...]
    outputs: tuple[TensorRow, ...]


@dataclass(frozen=True)
class WeightsRow:
    """The weights of a file in one dtype: floats, or integers that stand for floats."""

    dtype: Name
    tensors: Count
    bytes: Count


@dataclass(frozen=True)
class RouteFailure:
    """Why a route gave no result that may be used: the step, the kind of its failure, and its own sentence."""

    step: Name
    kind: FailureKind
    message: str
    log: str | None = None  # of the step, relative to the folder


@dataclass(frozen=True)
class TriedRow:
    """A route that was looked at, in the order of cost, and what came of it."""

    route: tuple[str, ...]
    status: RouteStatus
    reason: str  # one sentence; for "verified" what was agreed, for "unverified" why that is no evidence
    log: str | None = None  # of the route's own last action, relative to the folder
    failure: RouteFailure | None = None


@dataclass(frozen=True)
class ArtifactRow:
    """A wanted target. `path` is relative to the run's folder, and null where no route led to it."""

    name: Name  # the target, as in "tflite:int8"
    format: str
    precision: str
    path: str | None
    sha256: Sha256 | None  # of the payload: of the file, or of the sorted list of a folder's files
    bytes: Count | None
    status: Status
    route: tuple[str, ...]
    tried: tuple[TriedRow, ...]
    seconds: NotNegative
    signature: SignatureRow | None
    batches_verified: tuple[Batch, ...]
    flex: tuple[Name, ...] = ()  # of a TFLite file: the operators that TensorFlow's Flex delegate must bring
    weights: tuple[WeightsRow, ...] = ()  # of a reduced copy in ONNX or TFLite: by dtype, the most bytes first


@dataclass(frozen=True)
class Tolerance:
    """The rule that a drift row was held against; null where it does not apply."""

    sqnr_db: FiniteFloat | None  # at least
    metric_loss: NotNegative | None  # at most, absolute


@dataclass(frozen=True)
class MetricRow:
    """The task's own metric on the same samples, and the paired difference candidate - reference."""

    name: Name
    reference: FiniteFloat
    candidate: FiniteFloat
    delta: FiniteFloat
    ci95: Interval
    unit: str | None = None  # "share" is read in per cent; null: of a file from before units
    higher_is_better: bool = True
    p_value: NotNegative | None = None  # of McNemar's exact test, where every score is 0 or 1
    samples_needed: Count | None = None  # that would decide, where the interval spans what may be lost
    detectable_loss: NotNegative | None = None  # the smallest that these samples show to be more than may be lost


@dataclass(frozen=True)
class DriftRow:
    """One artifact in one runtime at one batch size, all outputs together, the worst output counting."""

    artifact: Name
    runtime: Name
    batch: Batch
    samples: Count
    max_abs: NotNegative | None
    rms: NotNegative | None
    cosine: FiniteFloat | None
    sqnr_db: FiniteFloat | None  # null: no noise at all, or no answer
    non_finite: Count | None  # elements that are NaN or infinite on one side only, or differ in kind or sign
    tolerance: Tolerance
    verdict: Verdict
    metric: MetricRow | None
    log: str | None = None  # of the comparison, relative to the folder
    mismatch: str | None = None  # how names, shapes or dtypes of the answers differ, so that no numbers compare
    derivation: str | None = None  # how the tolerance follows from the model's noise floor
    lost: str | None = None  # a note: what the copy answers to NaN or infinity, or the order of its outputs
    settings: dict[str, bool | int | str] = field(default_factory=dict)  # of the runtime; empty: the defaults


@dataclass(frozen=True)
class ProbeResultRow:
    """One probe of one artifact in one runtime: what was asked, how well the answers agree, and the limit for that."""

    artifact: Name
    runtime: Name
    batch: Batch
    sizes: dict[Name, Count]  # of axes that are not as the data has them
    values: Name  # "whole test set", "samples" (its first ones), or how the inputs differ from those
    samples: Count
    max_abs: NotNegative | None
    sqnr_db: FiniteFloat | None  # null: no noise at all, or no answer
    non_finite: Count | None
    tolerance: Tolerance
    derivation: str | None  # how the tolerance follows from the model's noise floor
    verdict: Verdict
    reason: str | None  # one sentence where it did not pass, or passed with a difference that is told


@dataclass(frozen=True)
class AxisRow:
    """The sizes of a dynamic axis that a copy was asked. Ranges are [low, high]; high is null where no end is known."""

    axis: Name
    declared: tuple[Count, Count | None]
    sizes: tuple[Count, ...]
    refused: tuple[Count, ...]  # at which the model itself gives no answer
    not_asked: tuple[tuple[Count, Count | None], ...]  # below the least and above the largest of the other two


@dataclass(frozen=True)
class InputValuesRow:
    """The numbers that an input held; null where there was none (an empty input)."""

    input: Name
    dtype: Name
    least: int | FiniteFloat | None
    most: int | FiniteFloat | None
    least_magnitude: NotNegative | None  # of floats, without zeros
    non_finite: bool  # NaN or an infinity was asked, too
    declared: tuple[int | FiniteFloat, int | FiniteFloat] | None
    not_asked: tuple[tuple[int | FiniteFloat, int | FiniteFloat], ...]  # the ends of `declared` beyond least and most


@dataclass(frozen=True)
class ExercisedRow:
    """What an artifact was asked in a runtime, and what of the declared range was not."""

    artifact: Name
    runtime: Name
    samples: Count  # different ones
    calls: Count
    axes: tuple[AxisRow, ...]
    inputs: tuple[InputValuesRow, ...]
    stress: tuple[Name, ...]  # inputs with what they were filled with, as in "image nan"
    stress_not_asked: tuple[Name, ...]  # that the model answers, and that a reduced precision is not asked
    constants: Count = 0  # limits, thresholds, epsilons and tails that the copy, else the model, compares values with
    constants_not_reached: Count = 0  # of these: no input was found on both sides
    functions_not_asked: tuple[Name, ...] = ()  # of a SavedModel, which take or give other than `serving_default`


@dataclass(frozen=True)
class ErrorRow:
    """How |candidate - reference| is spread over the elements of an output, on the whole test set."""

    artifact: Name
    runtime: Name
    output: Name
    elements: Count
    equal: Count
    non_finite: Count  # NaN or infinite on one side only
    rms: NotNegative  # root mean square of the reference's output
    bins: tuple[tuple[int, Count], ...]  # [exponent, elements]: errors from 2^(exponent - 1) to below 2^exponent


@dataclass(frozen=True)
class WorstSampleRow:
    """A sample of the test set with one of the largest errors, the worst first."""

    artifact: Name
    runtime: Name
    sample: Count  # counted from 0
    output: Name
    error: NotNegative | None  # its largest |candidate - reference|; null: NaN or infinite on one side only
    candidate: FiniteFloat | None  # the element with that error
    reference: FiniteFloat | None
    label: str | None
    picture: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/=]+$")] | None  # PNG in base64, of an input that is an image


@dataclass(frozen=True)
class InnerValueRow:
    """A value inside a copy: the largest number that an operator wrote."""

    tensor: str
    operator: str  # in words, with the model's line where that is known
    largest: NotNegative  # of the finite ones
    beyond: bool  # NaN or infinite in some


@dataclass(frozen=True)
class InnerRangeRow:
    """A reduced copy in the arithmetic that it declares: some samples, each operator's results rounded to it."""

    artifact: Name
    runtime: Name
    arithmetic: Name  # "float16", "bfloat16"
    limit: NotNegative  # the largest number of the arithmetic
    samples: Count
    sqnr_db: FiniteFloat | None  # against the runtime's own answers
    non_finite: Count  # elements of the answers that are NaN or infinite in that arithmetic only
    beyond: Count  # values inside that are NaN or infinite
    note: str | None  # where the largest is above half of the limit, and on what was not asked in this arithmetic
    tensors: tuple[InnerValueRow, ...]  # up to ten, those beyond the range first, then the largest


@dataclass(frozen=True)
class LeftOutRow:
    """A target that nobody named and that reduces nothing of this model: its copy is neither validated nor timed."""

    target: Name
    reason: str  # one sentence


@dataclass(frozen=True)
class SmallestRow:
    """The smallest piece of the model at which the routes to a target without an artifact fail."""

    target: Name
    route: tuple[str, ...]  # up to the step that fails
    operators: Count | None  # of a graph or an exported program; null for a module
    message: str  # one sentence: the operator or the module, its source line, how it fails
    script: str  # that shows it, relative to the folder
    fix: str
    operator: str | None = None  # null: a module, or a file from before this field


@dataclass(frozen=True)
class LocatedRow:
    """The first place at which a copy that failed departs from its model. Without an operator none was found."""

    artifact: Name
    runtime: Name
    message: str  # one sentence: operator, module, source line and error, or why there is no place
    operator: Name | None = None  # PyTorch's
    module: str | None = None
    line: str | None = None  # of the model's code
    error_class: Name | None = None
    nodes: tuple[Name, ...] = ()  # of the copy


@dataclass(frozen=True)
class LatencyRow:
    """One artifact in one runtime at one batch size. Raw samples lie in the run's latency.npz."""

    artifact: Name
    runtime: Name
    server: Literal["embedded", "binary", "remote"] | None
    device: Name  # where it really ran
    threads: Count
    batch: Batch
    rounds: Count  # of all processes
    samples: Count
    p50_s: NotNegative | None
    p90_s: NotNegative | None
    p99_s: NotNegative | None
    throughput_per_s: NotNegative | None  # samples of the task, not calls: batch / mean seconds of a call
    ratio_to_reference: NotNegative | None  # seconds per call over the reference's; below 1 is faster
    ratio_ci95: Interval | None
    peak_rss_bytes: Count | None
    doubts: tuple[str, ...]  # the weightiest first
    log: str | None = None  # of the process that was measured, relative to the folder
    processes: Count = 0  # in which it was measured, one after the other
    reference: str | None = None  # what the ratio is held against: "ARTIFACT in RUNTIME"
    comparison: Comparison | None = None
    settling_s: NotNegative | None = None  # of measuring, that would decide an inconclusive comparison
    load_s: NotNegative | None = None  # modules and model, median over processes
    first_call_s: NotNegative | None = None
    steady_rss_bytes: Count | None = None  # after the warm-up; None of a server
    size_bytes: Count | None = None  # of the artifact
    p999_s: NotNegative | None = None  # None: too few samples to bound it
    p50_ci95: Interval | None = None  # by order statistics; None: too few samples
    p90_ci95: Interval | None = None
    p99_ci95: Interval | None = None
    p999_ci95: Interval | None = None
    doubt_kinds: tuple[DoubtKind, ...] = ()  # of `doubts`, one each; empty: of a file from before kinds
    settings: dict[str, bool | int | str] = field(default_factory=dict)  # of the runtime; empty: the defaults
    ratio_to_default: NotNegative | None = None  # as it was where the settings were tuned; below 1 is faster
    ratio_to_default_ci95: Interval | None = None
    energy_j: NotNegative | None = None  # of the whole GPU for a sample of the task; None: no GPU that counts it
    comparison_interval: Interval | None = None  # of the ratio, which decides `comparison`: wider than ratio_ci95


@dataclass(frozen=True)
class TuningRow:
    """Settings of a runtime that a search tried, beside the defaults of the same artifact and runtime."""

    artifact: Name
    runtime: Name
    batch: Batch
    settings: dict[str, bool | int | str]  # empty: the defaults
    p50_s: NotNegative | None
    ratio_to_default: NotNegative | None
    ci95: Interval | None  # None: one process of each, which left it out
    verdict: Comparison | None  # None: it gave no answer
    verified: bool | None  # None: it was not asked, since it was not faster
    reason: str  # why it was kept, or was not
    kept: bool = False


@dataclass(frozen=True)
class BoundRow:
    """The batch size of the largest throughput whose p99 keeps the latency bound."""

    artifact: Name
    runtime: Name
    settings: dict[str, bool | int | str]
    bound_s: NotNegative
    batch: Batch | None  # None: even the smallest is above the bound
    p99_s: NotNegative | None
    throughput_per_s: NotNegative | None
    reason: str


@dataclass(frozen=True)
class LoadRow:
    """One artifact in one runtime under one load. Its requests lie in the run's load.npz.

    Latency counts from the time at which a request was intended. A percentile that the requests do not support is null,
    and so are all of "offline".
    """

    artifact: Name
    runtime: Name
    server: Literal["embedded", "binary", "remote"] | None
    device: Name
    threads: Count
    batch: Batch  # samples of a request
    scenario: LoadScenario
    engine: LoadEngine
    concurrency: Count | None  # closed: connections; multi-stream: samples per query
    rate_per_s: NotNegative | None  # intended
    bound_s: NotNegative | None  # server: of the 99th percentile
    seconds: NotNegative
    requests: Count
    refused: Count
    lost: Count  # without an answer, or not in time
    p50_s: NotNegative | None
    p90_s: NotNegative | None
    p99_s: NotNegative | None
    p999_s: NotNegative | None
    p50_ci95: Interval | None
    p90_ci95: Interval | None
    p99_ci95: Interval | None
    p999_ci95: Interval | None
    early_stopping_s: NotNegative | None  # bounds the scenario's percentile at 99 % confidence, as MLPerf has it
    throughput_per_s: NotNegative | None  # samples that were answered
    valid: bool | None  # server: whether the 99th percentile keeps its bound; null: it cannot be said
    harness_p50_s: NotNegative | None  # of the same load on a model that computes nothing
    late_p99_s: NotNegative | None  # how late the generator itself sent
    doubts: tuple[str, ...]
    log: str | None = None  # of the process that sent, relative to the folder


@dataclass(frozen=True)
class GateRow:
    """One release rule on one artifact, or on one artifact in one runtime."""

    rule: Name
    limit: FiniteFloat | str
    got: FiniteFloat | str | None
    verdict: Verdict
    artifact: Name
    runtime: str | None
    unit: str | None = None  # of limit and got, where they are a metric's
    samples_needed: Count | None = None  # that would decide a metric's loss
    before: FiniteFloat | str | None = None  # of `no_worse metric`: the metric of the baseline's model, and of this one
    after: FiniteFloat | str | None = None


@dataclass(frozen=True)
class TimelineRow:
    """A stage of the run, or a step that was done in it: found in the store, it took no time and has no row."""

    name: Name
    stage: str  # that was under way when it began; "" between stages. A stage has its own name
    start_s: NotNegative  # since the run began
    seconds: NotNegative
    is_stage: bool = False
    doubts: tuple[str, ...] = ()  # why it failed, or what the machine did meanwhile


@dataclass(frozen=True)
class RunnerUpRow:
    """A copy that was not chosen."""

    artifact: Name
    runtime: Name
    batch: Batch | None  # None: at no batch size
    reason: str


@dataclass(frozen=True)
class ChoiceRow:
    """What to release for one way of being asked: in process, or behind one protocol."""

    where: Name  # "in process", or "served by oip-grpc"
    device: Name
    threads: Count
    artifact: str | None  # None, like what follows: there is none to release
    runtime: str | None
    batch: Batch | None
    reason: str  # one sentence: why it is this one, or why there is none
    settled: bool  # whether the samples tell it apart as the fastest, and its ratio to the reference is decided
    remarks: tuple[str, ...] = ()  # what is not settled, and what speaks against its numbers
    p50_s: NotNegative | None = None
    p99_most_s: NotNegative | None = None  # the upper end of the p99's 95 % interval
    cost_per_million: NotNegative | None = None  # of samples, in the currency of the price
    runners_up: tuple[RunnerUpRow, ...] = ()


@dataclass(frozen=True)
class Recommendation:
    """Which copies to release under a user's constraint (docs/gate.md)."""

    latency_bound_s: NotNegative | None  # for the upper end of p99's 95 % interval
    metric_loss_points: NotNegative | None  # percentage points of a share; of another metric in its own unit
    price_per_hour: NotNegative | None  # of the machine, in any currency
    choices: tuple[ChoiceRow, ...]


@dataclass(frozen=True)
class Environment:
    """The machine and what was installed on it; enough to say whether two runs may be compared."""

    python: str
    platform: str
    cpu: str
    cores: Count
    memory_bytes: Count
    gpus: tuple[str, ...] = ()
    packages: dict[str, str] = field(default_factory=dict)
    node: str = ""  # of a cluster, that latencies were measured on, alone; empty: the machine of the command


@dataclass(frozen=True)
class SampleSetRow:
    """The test set that a run was asked. Digests do not depend on the order of the samples."""

    samples: Count
    inputs_sha256: Sha256
    labels_sha256: Sha256 | None  # of the labels in the order of the inputs; null: there are none


@dataclass(frozen=True)
class SourceRow:
    """What a run's copies were made from, and what it and they were asked (outcomes.npz has the scores by sample)."""

    sha256: Sha256  # of the weights and of what makes the model
    test_set: SampleSetRow


@dataclass(frozen=True)
class RunResult:
    """All that a run found out. What `--json` prints, and what every report is made from."""

    # Holds for every record below too: a key that is not known, or a number in quotes, is refused.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    schema: Literal[1]
    id: Name
    transload_version: str
    verdict: Verdict
    exit_code: Annotated[int, Field(ge=0, le=4)]  # models.errors.Exit
    started_at: Instant  # ISO 8601, UTC
    seconds: NotNegative
    environment: Environment
    artifacts: tuple[ArtifactRow, ...]
    drift: tuple[DriftRow, ...]
    latency: tuple[LatencyRow, ...]
    gate: tuple[GateRow, ...]
    probes: tuple[ProbeResultRow, ...] = ()
    exercised: tuple[ExercisedRow, ...] = ()
    errors: tuple[ErrorRow, ...] = ()
    worst_samples: tuple[WorstSampleRow, ...] = ()
    smallest: tuple[SmallestRow, ...] = ()
    located: tuple[LocatedRow, ...] = ()
    left_out: tuple[LeftOutRow, ...] = ()
    load: tuple[LoadRow, ...] = ()
    tuning: tuple[TuningRow, ...] = ()
    bounds: tuple[BoundRow, ...] = ()
    doubts: tuple[str, ...] = ()  # that every verdict is under, as "not sandboxed: ..."
    timeline: tuple[TimelineRow, ...] = ()  # by start
    recommendation: Recommendation | None = None
    baseline: RunComparison | None = None  # how it compares with the run that --baseline names
    source: SourceRow | None = None  # null: of a file from before this field
    inner_ranges: tuple[InnerRangeRow, ...] = ()


@cache
def _adapter() -> TypeAdapter[RunResult]:
    return TypeAdapter(RunResult)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of run.json, published as docs/run.schema.json."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_adapter().json_schema()}


def schema_text() -> str:
    """Return the text of docs/run.schema.json: `python -m transload.pipeline.result.schema > docs/run.schema.json`."""
    return json.dumps(json_schema(), indent=1) + "\n"


def to_json(result: RunResult) -> bytes:
    """Return the result as UTF-8 JSON, one indented document, which has been read back.
    Raises ValueError where a number that must be there is none (NaN, infinity), or a field holds what it may not: a bug
    of the caller, and never a file that no reader takes."""
    text = _adapter().dump_json(result, indent=1)
    try:
        _adapter().validate_json(text)
    except ValidationError as error:
        raise ValueError(f"the result does not fit run.json: {_first(error)}") from error
    return text + b"\n"


def printable_result(content: bytes) -> RunResult:
    """Read a run.json whose texts anybody has written: each becomes one line that steers no terminal and no CI.
    Raises ValidationError where it is none, another ValueError where it has a number that no file or memory has."""
    result = _adapter().validate_json(content)
    document = json.loads(content, parse_int=_counted)
    plain = one_line_texts(document)
    return result if plain == document else _adapter().validate_json(json.dumps(plain))


def _counted(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"it has an integer of {len(digits)} digits")
    return int(digits)


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or "the document"
    return f"{where}: {first['msg']}"


def read_result(path: Path) -> RunResult:
    """Read the run.json at `path`. Raises BadRequest where there is none, or one of another schema."""
    try:
        return printable_result(read_plain(path))
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}", fix="name a folder under runs/") from error
    except ValidationError as error:
        raise BadRequest(
            f"{path} is no run.json of schema {SCHEMA}: {_first(error)}",
            fix="update transload, or run again",
        ) from error
    except ValueError as error:
        raise BadRequest(f"{path} is no run.json of a run: {error}", fix="run again") from error


if __name__ == "__main__":
    print(schema_text(), end="")
