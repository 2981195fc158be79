"""The limits of the release rules: a number for all, or a table by target, by batch size, or by both (docs/gate.md).

A limit that nothing can break is refused like one that is no number: it would say that something is checked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ...models.errors import BadRequest
from ...models.formats import parse_target
from ..drift.metrics.metric_kinds import MetricKind
from ..drift.metrics.metric_text import format_value
from .schema import Verdict
from .size_text import parse_size

PerBatch: TypeAlias = float | dict[str, float]
Limit: TypeAlias = float | dict[str, PerBatch]  # keys: targets, batch sizes, DEFAULT
DEFAULT = "default"  # the key of the limit for whatever a table does not name
SOURCE = "source"  # the key of the model that the copies were made from


@dataclass(frozen=True)
class LimitKind:
    """What the limits of a rule may be: above `above` (at it, too, where `from_above`), and below `below`."""

    example: str
    above: float = 0.0
    below: float = math.inf
    from_above: bool = False
    by_batch: bool = False
    parse: Callable[[str], float] | None = None  # of a text

    def read(self, value: object) -> float:
        """Return one limit. Raises ValueError with the mend."""
        if isinstance(value, str) and self.parse:
            try:
                value = self.parse(value)
            except BadRequest as error:
                raise ValueError(f"{error.what}; {error.fix}") from error
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{value!r} is no finite number; write it as in {self.example}")
        if value < self.above or (value == self.above and not self.from_above):
            side = "may not be below" if self.from_above else "must be above"
            raise ValueError(f"the limit {value:g} {side} {self.above:g}; write it as in {self.example}")
        if value >= self.below:
            raise ValueError(f"nothing can break the limit {value:g}; write it as in {self.example}, or leave it out")
        return float(value)


def parse_latency(text: str) -> float:
    """Return the seconds of a latency as in "10ms", "0.5s" or "250us". Raises BadRequest."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s)", text.strip())
    if not match or not float(match[1]):
        raise BadRequest(f"{text!r} is no latency", fix="write it as in 10ms, 250us or 0.5s")
    return float(match[1]) / {"us": 1e6, "ms": 1e3, "s": 1.0}[match[2]]


# The upper ends are beyond what a run can measure: a call ends after an hour, no machine here has a petabyte.
KINDS: Mapping[str, LimitKind] = {
    "sqnr_db": LimitKind("60.0"),
    "metric_loss": LimitKind("0.01", from_above=True),
    "metric_min": LimitKind("0.97", above=-math.inf),
    "metric_max": LimitKind("0.1", from_above=True),
    "latency_ratio": LimitKind("0.5", below=1e4, by_batch=True),
    "latency_p99": LimitKind('"10ms"', below=3600.0, by_batch=True, parse=parse_latency),
    "size": LimitKind('"5MB"', below=1e15, parse=parse_size),
    "size_ratio": LimitKind("0.5", below=1e4),
    "peak_memory": LimitKind('"500MB"', below=1e15, by_batch=True, parse=parse_size),
}
METRIC_RULES = ("metric_loss", "metric_min", "metric_max")
BENCH_RULES = ("latency_ratio", "latency_p99", "peak_memory")


def read_limit(rule: str, value: object) -> Limit | None:
    """Return the limit of a rule as TOML or Python has it, with every number checked and every target in one spelling.
    Raises ValueError with the mend."""
    kind = KINDS[rule]
    if not isinstance(value, Mapping):
        return None if value is None else kind.read(value)
    if not value:
        raise ValueError(f"a table without a limit; write it as in {{ onnx = {kind.example} }}")
    batches = [key for key in value if _is_batch(key)]
    if batches:
        if not kind.by_batch:
            raise ValueError(f"{batches[0]!r} is a batch size, and {rule} has no batch; name targets")
        if len(batches) < len([key for key in value if key != DEFAULT]):
            raise ValueError("targets beside batch sizes; write the batch sizes into the table of each target")
        return {str(key): kind.read(limit) for key, limit in value.items()}
    return {_target_key(rule, key): _read_per_batch(rule, kind, limit) for key, limit in value.items()}


def _is_batch(key: object) -> bool:
    return str(key).isdecimal()


def _target_key(rule: str, key: object) -> str:
    if key == DEFAULT or (key == SOURCE and rule in ("metric_min", "metric_max")):
        return str(key)
    try:
        return str(parse_target(str(key)))
    except BadRequest as error:
        raise ValueError(f"{error.what}; {error.fix}") from error


def _read_per_batch(rule: str, kind: LimitKind, value: object) -> PerBatch:
    if not isinstance(value, Mapping):
        return kind.read(value)
    if not kind.by_batch or not value:
        raise ValueError(f"{rule} takes one limit for a target; write it as in {kind.example}")
    if wrong := [key for key in value if key != DEFAULT and not _is_batch(key)]:
        raise ValueError(f"{wrong[0]!r} is no batch size; use whole numbers from 1 up, and {DEFAULT} for the others")
    return {str(key): kind.read(limit) for key, limit in value.items()}


def limit_for(limit: Limit | None, target: str, batch: int | None = None) -> float | None:
    """Return the limit of an artifact, or of the source, at a batch size; None where there is none."""
    keys = [str(batch)] if isinstance(limit, Mapping) and any(map(_is_batch, limit)) else [target, str(batch)]
    chosen: object = limit
    for key in keys:
        if isinstance(chosen, Mapping):
            chosen = chosen.get(key, chosen.get(DEFAULT))
    return chosen if isinstance(chosen, float | int) else None


def check_use(
    limits: Mapping[str, Limit | None], targets: Iterable[str], batches: Iterable[int], *, is_measured: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield (rule, sentence, mend) for each rule that a run would never apply: `targets` are made, `batches` are
    measured where `is_measured`."""
    names = {*targets, DEFAULT, SOURCE}
    sizes = {*map(str, batches), DEFAULT}
    for rule, limit in limits.items():
        if limit is not None and rule in BENCH_RULES and not is_measured:
            fix = f"leave --no-bench or bench.enabled = false out, or take {rule} out of [gate]"
            yield rule, f"{rule} judges measurements, and nothing is measured", fix
        for key in _keys(limit):
            if _is_batch(key) and key not in sizes:
                named = ", ".join(sorted(sizes - {DEFAULT}, key=int))
                yield rule, f"batch {key} is not measured", f"add it to bench.batches, or use one of {named}"
            elif not _is_batch(key) and key not in names:
                named = ", ".join(sorted(names - {DEFAULT, SOURCE}))
                yield rule, f"the target {key} is not made", f"add it to convert.targets, or use one of {named}"


def _keys(limit: object) -> Iterator[str]:
    for key, inner in limit.items() if isinstance(limit, Mapping) else ():
        yield key
        yield from _keys(inner)


def _numbers(limit: object) -> Iterator[float]:
    for inner in limit.values() if isinstance(limit, Mapping) else (limit,):
        if isinstance(inner, Mapping):
            yield from _numbers(inner)
        elif isinstance(inner, float | int):
            yield inner


def check_metric_limits(limits: Mapping[str, Limit | None], metric: MetricKind) -> None:
    """Raise BadRequest where a limit on the metric has the wrong direction, cannot be broken, or cannot be kept."""
    for rule, wants_high, other in (("metric_min", True, "metric_max"), ("metric_max", False, "metric_min")):
        for limit in _numbers(limits.get(rule)):
            if metric.higher_is_better != wants_high:
                better = "higher" if metric.higher_is_better else "lower"
                raise BadRequest(f"gate.{rule}: {metric.name} is better {better}", fix=f"write {other} = {limit:g}")
            least, most = metric.ends
            unbroken, unkept = (limit <= least, limit > most) if wants_high else (limit >= most, limit < least)
            if unbroken or unkept:
                words = "nothing can break" if unbroken else "nothing can keep"
                span = f"{metric.name} lies in {least:g}..{most:g}"
                fix = f"write 97 % as 0.97: {span}" if metric.unit else f"use a limit that something decides: {span}"
                raise BadRequest(f"gate.{rule}: {words} the limit {limit:g}", fix=fix)
    for limit in _numbers(limits.get("metric_loss")):
        least, most = metric.ends
        if limit >= most - least:
            fix = f"{metric.name} lies in {format_value(least, metric.unit)} to {format_value(most, metric.unit)}"
            raise BadRequest(
                f"gate.metric_loss: nothing can break the limit {limit:g}", fix=f"write 1 pp as 0.01: {fix}"
            )


def judge_at_most(value: float, limit: float) -> Verdict:
    """Judge a value by an upper limit."""
    return Verdict.PASS if value <= limit else Verdict.FAIL


def judge_interval(low: float, high: float, limit: float) -> Verdict:
    """Judge an interval by an upper limit; an interval that ends on the limit keeps it."""
    return Verdict.INCONCLUSIVE if low <= limit < high else judge_at_most(high, limit)
