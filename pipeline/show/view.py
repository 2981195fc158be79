"""What every report shows, worked out once: which rows lie beside each other, what failed, what is in doubt.

Latencies lie beside each other only where they were measured on one device with one number of threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..drift.metrics.metric_kinds import SHARE
from ..result.facts import own_facts
from ..result.gate import answered, is_reference, no_route_left, worst_verdict
from ..result.schema import (
    ArtifactRow,
    ChoiceRow,
    DriftRow,
    LatencyRow,
    MetricRow,
    RouteStatus,
    RunResult,
    SmallestRow,
    Status,
    Verdict,
)
from . import units

Links: TypeAlias = Mapping[str, str]  # a name, and the path that belongs to it, relative to the run's folder


@dataclass(frozen=True)
class Speed:
    """One artifact in one runtime, under the run's main condition."""

    runtime: str
    by_batch: Mapping[int, LatencyRow]


@dataclass(frozen=True)
class Line:
    """One artifact, as it stands in the decision table."""

    name: str
    format: str
    row: ArtifactRow | None  # None: the reference, which is no artifact of this run
    verdict: Verdict | None  # of all gate rows on it
    worst: DriftRow | None  # the least SQNR, over runtimes and batches
    metric: DriftRow | None  # the one that loses most of the metric
    speeds: tuple[Speed, ...]

    @property
    def status(self) -> str:
        """The artifact's status, or "reference"."""
        return str(self.row.status) if self.row else "reference"


@dataclass(frozen=True)
class Condition:
    """What latencies must have in common before they may be compared."""

    device: str
    threads: int

    def __str__(self) -> str:
        return f"{units.plain(self.device)}, {self.threads} thread{'' if self.threads == 1 else 's'}"


@dataclass(frozen=True)
class Finding:
    """Something that kept the run from passing, or an artifact from being made."""

    subject: str  # "onnx in onnxruntime"
    verdict: Verdict
    sentence: str
    log: str | None
    smallest: SmallestRow | None = None  # where the model fails
    located: str | None = None  # where the copy departs from the model, as a sentence


def condition(row: LatencyRow) -> Condition:
    """Return the condition that this row was measured under."""
    return Condition(row.device, row.threads)


def main_condition(result: RunResult) -> Condition | None:
    """Return the reference's condition; if no reference was timed, that of most rows."""
    timed = [row for row in result.latency if answered(row)]
    for row in timed:
        if is_reference(row):
            return condition(row)
    counted = Counter(condition(row) for row in timed).most_common(1)
    return counted[0][0] if counted else None


def elsewhere(result: RunResult) -> tuple[LatencyRow, ...]:
    """Return the timed rows that may not lie beside the others."""
    main = main_condition(result)
    return tuple(row for row in result.latency if answered(row) and condition(row) != main)


def batches(result: RunResult) -> tuple[int, ...]:
    """Return the batch sizes of the decision table: the smallest and the largest that were timed."""
    sizes = sorted({row.batch for row in result.latency if answered(row)})
    return tuple(sizes if len(sizes) <= 2 else (sizes[0], sizes[-1]))


def lines(result: RunResult) -> tuple[Line, ...]:
    """Return the reference first, then the artifacts in the run's order."""
    known = {row.name: row for row in result.artifacts}
    spoken_of = [row.artifact for row in result.latency] + [row.artifact for row in result.drift]
    extra = [name for name in dict.fromkeys(spoken_of) if name not in known]
    return tuple(_line(result, name, known.get(name)) for name in (*extra, *known))


def _line(result: RunResult, name: str, row: ArtifactRow | None) -> Line:
    judged = [row.verdict for row in result.gate if row.artifact == name]
    drift = [row for row in result.drift if row.artifact == name and answered(row)]
    broken = [row for row in drift if row.mismatch is not None] or [row for row in drift if row.non_finite]
    noisy = broken or [row for row in drift if row.sqnr_db is not None]
    worst = min(noisy, key=lambda row: -1e9 if row.sqnr_db is None else row.sqnr_db) if noisy else None
    measured = [(-_loss(row.metric), at) for at, row in enumerate(drift) if row.metric is not None]
    return Line(
        name=name,
        format=row.format if row else "other",
        row=row,
        verdict=worst_verdict(judged) if judged else None,
        worst=worst or (drift[0] if drift else None),
        metric=drift[min(measured)[1]] if measured else None,
        speeds=_speeds(result, name),
    )


def _loss(metric: MetricRow) -> float:
    return -metric.delta if metric.higher_is_better else metric.delta


def _speeds(result: RunResult, name: str) -> tuple[Speed, ...]:
    main = main_condition(result)
    by_runtime: dict[str, dict[int, LatencyRow]] = {}
    for row in result.latency:
        if row.artifact == name and (condition(row) == main or not answered(row)):
            by_runtime.setdefault(row.runtime, {})[row.batch] = row
    return tuple(Speed(runtime, by_batch) for runtime, by_batch in by_runtime.items())


def findings(result: RunResult, logs: Links) -> tuple[Finding, ...]:
    """Return what failed, then what is open, each fact once: the sentences of an artifact and runtime in one."""
    told: dict[tuple[str, str | None, Verdict], list[str]] = {}
    for row in own_facts(result.gate):
        told.setdefault((row.artifact, row.runtime, row.verdict), []).append(units.sentence(row))
    for artifact in result.artifacts:
        if artifact.status in (Status.FAILED, Status.UNVERIFIED) and not any(key[0] == artifact.name for key in told):
            verdict = Verdict.FAIL if artifact.status is Status.FAILED else Verdict.INCONCLUSIVE
            told[(artifact.name, None, verdict)] = [_reason(artifact)]
    pieces = {row.target: row for row in result.smallest}
    places = {(row.artifact, row.runtime): units.plain(row.message) for row in result.located}
    unsorted = [
        Finding(
            units.plain(f"{name} in {runtime}" if runtime else name),
            verdict,
            "; ".join(sentences),
            logs.get(f"{name} in {runtime}") or logs.get(name),
            None if runtime else pieces.get(name),
            places.get((name, runtime or "")) if verdict is Verdict.FAIL else None,
        )
        for (name, runtime, verdict), sentences in told.items()
    ]
    return tuple(sorted(unsorted, key=lambda finding: finding.verdict is not Verdict.FAIL))


def _reason(artifact: ArtifactRow) -> str:
    """Return why an artifact is failed or unverified, where its own route says so."""
    tried = next((row for row in artifact.tried if row.route == artifact.route), None)
    because = f": {units.plain(tried.reason)}" if tried and tried.status is RouteStatus.UNVERIFIED else ""
    return f"it is {artifact.status}{because}"


def recommendations(result: RunResult) -> tuple[str, ...]:
    """Return a sentence for each way of being asked: what to release there, and why."""
    choices = result.recommendation.choices if result.recommendation else ()
    places = [(choice.where, choice.device, choice.threads) for choice in choices]
    several = len({(device, threads) for _, device, threads in places}) > 1
    return tuple(
        units.plain(
            f"{choice.where}{f' on {Condition(choice.device, choice.threads)}' if several else ''}: {choice.reason}"
            f"{''.join(f'; {remark}' for remark in choice.remarks)}{_cost(choice)}"
        )
        for choice in choices
    )


def _cost(choice: ChoiceRow) -> str:
    return "" if choice.cost_per_million is None else f"; {units.digits(choice.cost_per_million)} per million samples"


def constraint(result: RunResult) -> str:
    """Return the constraint of the recommendation in words; empty where there is none."""
    wanted = result.recommendation
    if wanted is None:
        return ""
    parts = []
    if wanted.latency_bound_s is not None:
        parts.append(
            f"a p99 of at most {units.duration(wanted.latency_bound_s)}, by the upper end of its 95 % interval"
        )
    if wanted.metric_loss_points is not None:
        unit = next((units.unit_of(row.metric) for row in result.drift if row.metric), "")
        shown = "pp" if unit == SHARE else unit
        parts.append(f"a loss of at most {wanted.metric_loss_points:g} {shown}".rstrip())
    if wanted.price_per_hour is not None:
        parts.append(f"{wanted.price_per_hour:g} an hour for the machine")
    return ", ".join(parts)


def metric_name(result: RunResult) -> str:
    """Return the name of the task's metric; "task metric" if none was measured."""
    return next((units.plain(row.metric.name) for row in result.drift if row.metric), "task metric")


def reference_score(result: RunResult) -> str:
    """Return the reference's own metric, as every candidate was compared with it; a dash if none was measured."""
    metric = next((row.metric for row in result.drift if row.metric), None)
    return units.NONE if metric is None else units.score(replace(metric, candidate=metric.reference))


def servers(result: RunResult) -> str:
    """Who answered the served runtimes, as a sentence; empty where nothing was served."""
    kinds = sorted({row.server for row in result.latency if row.server})
    who = {
        "embedded": "transload's own TF Serving front, on loopback",
        "binary": "tensorflow_model_server, on loopback",
        "remote": "a server that this run did not start",
    }
    return f"Served by {'; '.join(who[kind] for kind in kinds)}." if kinds else ""


def flex(result: RunResult) -> str:
    """Which artifacts run in TensorFlow's interpreter alone, as a sentence; empty where none does."""
    needs = "; ".join(f"{row.name} {words}" for row in result.artifacts if (words := units.needs_flex(row)))
    where = "what needs it is run in tflite-flex, another build of TFLite, with latencies of its own."
    return f"{needs}: {where}" if needs else ""


def weights(result: RunResult) -> str:
    """What the reduced copies store in which precision, as a sentence; empty where none was counted."""
    counted = "; ".join(f"{row.name} {words}" for row in result.artifacts if (words := units.stored_weights(row)))
    return f"{counted}." if counted else ""


def left_out(result: RunResult) -> str:
    """Which targets of the default list were left out, and why, as a sentence of each; empty where none was."""
    reasons = (f"{row.target} was not named, and is left out: {row.reason}." for row in result.left_out)
    return units.plain(" ".join(reasons))


def lost(result: RunResult) -> str:
    """The notes on what artifacts answer to NaN or infinity, and on the order of outputs; empty where there is none."""
    losses = dict.fromkeys(f"{row.artifact} in {row.runtime}: {row.lost}." for row in result.drift if row.lost)
    return units.plain(" ".join(losses))


def detectable(result: RunResult) -> str:
    """What the losses behind MDE are, as a sentence; empty where none stands in the table."""
    rows = [row for row in result.drift if row.metric is not None and row.metric.detectable_loss is not None]
    if not rows:
        return ""
    samples = f"{rows[0].samples:,} test samples"
    return f"MDE: the smallest loss that these {samples} show to be more than may be lost, with 80 % power."


def remarks(result: RunResult) -> tuple[str, ...]:
    """Return the sentences on the table of artifacts; some are empty."""
    return flex(result), lost(result), left_out(result), detectable(result)


def headline(result: RunResult) -> str:
    """Return the verdict's reason in one line, without the verdict's word."""
    good = sum(row.status in (Status.VERIFIED, Status.DEGRADED) for row in result.artifacts)
    counted = f"{good} of {len(result.artifacts)} artifacts keep their tolerance"
    if not result.artifacts:
        return "nothing was made, so nothing was judged"
    gone = [row.name for row in result.artifacts if no_route_left(row)]
    if gone:
        return units.plain(f"no route left to {listed(gone)}; {counted}")
    bad = [row for row in result.gate if row.verdict is result.verdict and row.verdict is not Verdict.PASS]
    if bad:
        word = "failed" if result.verdict is Verdict.FAIL else "undecided"
        names = listed(list(dict.fromkeys(row.artifact for row in bad)))
        rules = listed(list(dict.fromkeys(units.rule_words(row.rule).partition(" at ")[0] for row in bad)))
        return units.plain(f"{rules} {word} for {names}; {counted}")
    kept = sum(row.verdict is Verdict.PASS for row in result.gate)
    return f"{counted}; {kept} of {len(result.gate)} checks passed"


def listed(names: list[str], most: int = 3) -> str:
    """Return names as words: "a, b, c and 2 more"."""
    shown = names[:most] + ([f"{len(names) - most} more"] if len(names) > most else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
