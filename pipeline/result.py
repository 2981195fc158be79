"""The result of a run: run.json, schema 1. Seconds and bytes; a person's units exist only in rendering.

Schema history.  1: first version.

A number is null where there is none to give: a runtime that did not answer (the sentence is then in the gate's
row, and in `doubts` for latency), or a signal-to-noise ratio of answers that are the same to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from ..models.errors import BadRequest

SCHEMA = 1


class Verdict(StrEnum):
    """Of a comparison, a gate rule, a run."""

    PASS = "pass"  # noqa: S105  (no password)
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class Status(StrEnum):
    """Of an artifact. Verified: it keeps its rule. Degraded: it keeps its rule and is measurably worse all the same.
    Unverified: the evidence is not enough, or it never got that far."""

    VERIFIED = "verified"
    DEGRADED = "degraded"
    FAILED = "failed"
    UNVERIFIED = "unverified"


@dataclass(frozen=True)
class TensorRow:
    """An input or output; a string in `shape` names a dynamic axis."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class SignatureRow:
    """Inputs and outputs in the model's order."""

    inputs: tuple[TensorRow, ...]
    outputs: tuple[TensorRow, ...]


@dataclass(frozen=True)
class TriedRow:
    """A route that was looked at, in the order of cost, and what came of it."""

    route: tuple[str, ...]
    status: Literal["verified", "wrong", "failed", "missing", "not tried"]
    reason: str  # one sentence; for "verified" what was agreed


@dataclass(frozen=True)
class ArtifactRow:
    """A wanted target. `path` is relative to the run's folder, and null where no route led to it."""

    name: str  # the target, as in "tflite:int8"
    format: str
    precision: str
    path: str | None
    sha256: str | None  # of the payload: of the file, or of the sorted list of a folder's files
    bytes: int | None
    status: Status
    route: tuple[str, ...]
    tried: tuple[TriedRow, ...]
    seconds: float
    signature: SignatureRow | None
    batches_verified: tuple[int, ...]


@dataclass(frozen=True)
class Tolerance:
    """The rule that a drift row was held against; null where it does not apply."""

    sqnr_db: float | None  # at least
    metric_loss: float | None  # at most, absolute


@dataclass(frozen=True)
class MetricRow:
    """The task's own metric on the same samples, and the paired difference candidate - reference."""

    name: str
    reference: float
    candidate: float
    delta: float
    ci95: tuple[float, float]


@dataclass(frozen=True)
class DriftRow:
    """One artifact in one runtime at one batch size, all outputs together, the worst output counting."""

    artifact: str
    runtime: str
    batch: int
    samples: int
    max_abs: float | None
    rms: float | None
    cosine: float | None
    sqnr_db: float | None  # null: no noise at all, or no answer
    non_finite: int | None  # elements that are NaN or infinite on one side only, or differ in kind or sign
    tolerance: Tolerance
    verdict: Verdict
    metric: MetricRow | None


@dataclass(frozen=True)
class LatencyRow:
    """One artifact in one runtime at one batch size. Raw samples lie in the run's latency.npz."""

    artifact: str
    runtime: str
    server: Literal["embedded", "binary", "remote"] | None
    device: str  # where it really ran
    threads: int
    batch: int
    rounds: int
    samples: int
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None
    throughput_per_s: float | None  # samples of the task, not calls: batch / mean seconds of a call
    ratio_to_reference: float | None  # seconds per call over the reference's; below 1 is faster
    ratio_ci95: tuple[float, float] | None
    peak_rss_bytes: int | None
    doubts: tuple[str, ...]


@dataclass(frozen=True)
class GateRow:
    """One release rule on one artifact, or on one artifact in one runtime."""

    rule: str
    limit: float | str
    got: float | str | None
    verdict: Verdict
    artifact: str
    runtime: str | None


@dataclass(frozen=True)
class Environment:
    """The machine and what was installed on it; enough to say whether two runs may be compared."""

    python: str
    platform: str
    cpu: str
    cores: int
    memory_bytes: int
    gpus: tuple[str, ...] = ()
    packages: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunResult:
    """All that a run found out. What `--json` prints, and what every report is made from."""

    schema: int
    id: str
    transload_version: str
    verdict: Verdict
    exit_code: int
    started_at: str  # ISO 8601, UTC
    seconds: float
    environment: Environment
    artifacts: tuple[ArtifactRow, ...]
    drift: tuple[DriftRow, ...]
    latency: tuple[LatencyRow, ...]
    gate: tuple[GateRow, ...]


@cache
def _adapter() -> TypeAdapter[RunResult]:
    return TypeAdapter(RunResult)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of run.json, published as docs/run.schema.json."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_adapter().json_schema()}


def to_json(result: RunResult) -> bytes:
    """The result as UTF-8 JSON, one indented document."""
    return _adapter().dump_json(result, indent=1) + b"\n"


def read_result(path: Path) -> RunResult:
    """The run.json at `path`.

    Raises BadRequest where there is none, or one of another schema.
    """
    try:
        return _adapter().validate_json(path.read_bytes())
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}", fix="name a folder under runs/") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise BadRequest(
            f"{path} is no run.json of schema {SCHEMA}: {where}: {first['msg']}",
            fix="update transload, or run again",
        ) from error
