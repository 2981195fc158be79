"""Numbers as a person reads them. Seconds and bytes come in; milliseconds and megabytes exist only here."""

from __future__ import annotations

import re

from ...models.library_messages import one_line
from ..drift.metrics.metric_kinds import SHARE
from ..drift.metrics.metric_text import format_change, format_interval, format_loss, format_value
from ..result.gate import answered
from ..result.schema import (
    ArtifactRow,
    ChoiceRow,
    DriftRow,
    ErrorRow,
    ExercisedRow,
    GateRow,
    Interval,
    LatencyRow,
    MetricRow,
    RunnerUpRow,
    Verdict,
)

NONE = "\u2013"
_MINUS = "\u2212"
_TIMES = "\u00d7"


def duration(seconds: float | None) -> str:
    """Format a latency: "124 µs", "1.24 ms", "2.31 s"; three significant digits."""
    if seconds is None:
        return NONE
    for unit, scale in (("µs", 1e6), ("ms", 1e3)):
        if float(f"{seconds * scale:.3g}") < 1000:
            return f"{digits(seconds * scale)} {unit}"
    return f"{digits(seconds)} s"


def stretch(seconds: float) -> str:
    """How long something took that a person waited for: "0.4 s", "12 s", "2 min 05 s"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    rounded = round(seconds)
    return f"{rounded} s" if rounded < 60 else f"{rounded // 60} min {rounded % 60:02d} s"


def instant(text: str) -> str:
    """Format an ISO 8601 moment in UTC: "2026-11-21 04:09 UTC"."""
    return f"{text[:10]} {text[11:16]} UTC"


def needs_flex(row: ArtifactRow) -> str:
    """Describe what a TFLite file needs beside TFLite: "needs TensorFlow's Flex delegate for Erf"; empty if nothing."""
    names = ", ".join(plain(name.removeprefix("Flex")) for name in row.flex)
    return f"needs TensorFlow's Flex delegate for {names}" if names else ""


def stored_weights(row: ArtifactRow) -> str:
    """Describe the weights of a reduced copy: "weights: 4 int8 (149 KB), 6 float32 (2.73 KB)"; empty if uncounted."""
    parts = ", ".join(f"{stored.tensors} {plain(stored.dtype)} ({size(stored.bytes)})" for stored in row.weights)
    return f"weights: {parts}" if parts else ""


def energy(joules: float | None) -> str:
    """Joules of a sample as "1.25 J", "38.1 mJ" or "412 uJ"."""
    if joules is None:
        return NONE
    for factor, unit in ((1.0, "J"), (1e3, "mJ")):
        if joules * factor >= 1:
            return f"{digits(joules * factor)} {unit}"
    return f"{digits(joules * 1e6)} uJ"


def size(count: float | None) -> str:
    """Bytes as "512 B", "45.2 KB", "1.21 MB": 1 KB is 1000 bytes."""
    if count is None:
        return NONE
    for unit in ("B", "KB", "MB"):
        if float(f"{count:.3g}") < 1000:
            return f"{digits(count)} {unit}"
        count /= 1000
    return f"{digits(count)} GB"


def digits(value: float) -> str:
    """Three significant digits, never an exponent below a million."""
    text = f"{value:.3g}"
    return signed(f"{float(text):.0f}" if "e+" in text and abs(value) < 1e6 else text)


def signed(text: str) -> str:
    """Replace a hyphen in front of a number by a minus sign."""
    return text.replace("-", _MINUS)


def decibel(value: float | None) -> str:
    """Format a signal-to-noise ratio: "58.2 dB"."""
    return NONE if value is None else signed(f"{value:.1f} dB" if abs(value) < 99.95 else f"{value:.0f} dB")


def sqnr(row: DriftRow | None) -> str:
    """Format the SQNR of a drift row: "identical" if nothing differs, "no answer" if there was none,
    "other form" if names, shapes or dtypes differ."""
    if row is None:
        return NONE
    if not answered(row):
        return "no answer"
    if row.mismatch is not None:
        return "other form"
    if row.non_finite and row.lost is None:
        return "NaN or inf"
    return "identical" if row.sqnr_db is None and row.max_abs == 0 else decibel(row.sqnr_db)


def unit_of(metric: MetricRow) -> str:
    """Return a metric's unit. Files from before units had shares, as far as the values can be some."""
    if metric.unit is not None:
        return plain(metric.unit)
    return SHARE if 0 <= metric.reference <= 1 and 0 <= metric.candidate <= 1 else ""


def score(metric: MetricRow) -> str:
    """Format the candidate's metric: "98.06 %" of a share, else "12.31", with its unit."""
    return signed(format_value(metric.candidate, unit_of(metric)))


def change(metric: MetricRow) -> str:
    """Format the difference candidate - reference: "+0.28 pp", "±0"."""
    return signed(format_change(metric.delta, unit_of(metric)))


def change_interval(metric: MetricRow) -> str:
    """Its 95 % interval: "[-0.83, +0.28]"."""
    return signed(format_interval(*metric.ci95, unit_of(metric)))


def detectable(metric: MetricRow) -> str:
    """Format the smallest loss that the samples show: "MDE 1.20 pp"; empty where there is none."""
    least = metric.detectable_loss
    return "" if least is None else f"MDE {format_loss(least, unit_of(metric))}"


def task_metric(metric: MetricRow | None) -> str:
    """Format a metric with its name and change: "f1 0.98 (+0.003 [-0.01, +0.02])"; empty if there is none."""
    if metric is None:
        return ""
    parts = [f"{change(metric)} {change_interval(metric)}", *filter(None, [detectable(metric)])]
    return f"{plain(metric.name)} {score(metric)} ({', '.join(parts)})"


def ratio(value: float | None) -> str:
    """Format a ratio to the reference, "0.42" with a times sign; below 1 is faster."""
    if value is None:
        return NONE
    return (f"{value:.2f}" if value < 9.995 else digits(value)) + _TIMES


def ratio_interval(row: LatencyRow) -> str:
    """Format the 95 % interval of the ratio; empty if it has none. Beside a word of `comparison` stands the wider one
    that decides it (`deciding_interval`)."""
    return _bracketed(row.ratio_ci95)


def deciding_interval(row: LatencyRow) -> str:
    """Format the interval by which `comparison` is said, at 99.875 % for several looks; empty without."""
    return _bracketed(row.comparison_interval)


def _bracketed(interval: Interval | None) -> str:
    return "" if interval is None else f"[{interval[0]:.2f}, {interval[1]:.2f}]"


def comparison(row: LatencyRow) -> str:
    """Say how a row compares with its reference: "faster", "inconclusive: about 90 s would settle it"; empty of the
    reference itself."""
    if row.comparison is None or row.ratio_ci95 == (1.0, 1.0):
        return ""
    if row.settling_s is None:
        return row.comparison
    return f"{row.comparison}: about {row.settling_s:.0f} s would settle it"


def quantity(rule: str, value: float | str | None, unit: str | None = None) -> str:
    """Format a gate row's `limit` or `got`, in the unit of its rule; of a metric in the metric's."""
    if value is None or isinstance(value, str):
        return NONE if value is None else plain(value)
    name = rule.partition(" batch=")[0]
    if name in ("metric_loss", "no_worse metric", "no_worse metric drift"):
        return signed(format_loss(value, plain(unit or "")))
    if name in ("metric_min", "metric_max"):
        return format_value(value, plain(unit or ""))
    return _FORMATS.get(name, digits)(value)


_FORMATS = {
    "latency_p99": duration, "size": size, "peak_memory": size, "sqnr_db": decibel, "latency_ratio": ratio,
    "size_ratio": ratio,
    "no_worse drift": decibel, "no_worse latency": ratio, "no_worse size": ratio, "no_worse memory": ratio,
}  # fmt: skip


def where(row: GateRow | LatencyRow | DriftRow | ExercisedRow | ErrorRow | ChoiceRow | RunnerUpRow) -> str:
    """Name the subject of a row: "onnx in onnxruntime", or "onnx"."""
    if row.artifact is None:
        return "none"
    return plain(f"{row.artifact} in {row.runtime}" if row.runtime else row.artifact)


def sentence(row: GateRow) -> str:
    """Describe a gate row in words."""
    if row.rule == "answers":
        return quantity(row.rule, row.got)
    values = f"{quantity(row.rule, row.got, row.unit)}, limit {quantity(row.rule, row.limit, row.unit)}"
    if isinstance(row.before, float) and isinstance(row.after, float):
        unit = plain(row.unit or "")
        values = f"{signed(format_value(row.before, unit))} -> {signed(format_value(row.after, unit))}, loss {values}"
    said = f"{rule_words(row.rule)}: {values}"
    why = _WHY_OPEN.get(row.rule.partition(" batch=")[0]) if row.verdict is Verdict.INCONCLUSIVE else None
    if why and row.samples_needed is not None:
        why = f"the 95 % interval reaches over the limit: about {row.samples_needed:,} samples would decide it"
    return f"{said}; {why}" if why and isinstance(row.got, float) else said


_WHY_OPEN = {
    "metric_loss": "the 95 % interval reaches over the limit, so more test samples are needed",
    "latency_ratio": "the 95 % interval reaches over the limit, so a longer --budget is needed",
    "metric_min": "the 95 % interval reaches over the limit, so more test samples are needed",
    "metric_max": "the 95 % interval reaches over the limit, so more test samples are needed",
    "latency_p99": "this p99 is in doubt, so a longer --budget is needed",
    "no_worse latency": "the 95 % interval reaches over the limit, so a longer budget_s is needed",
    "no_worse metric": "the 95 % interval reaches over the limit, so more test samples are needed",
    "no_worse metric drift": "the 95 % interval reaches over the limit, so more test samples are needed",
}


_WORDS = {
    "answers": "answering",
    "drift": "drift",
    "verified": "status",
    "sqnr_db": "SQNR",
    "metric_loss": "metric loss",
    "latency_ratio": "latency ratio",
    "metric_min": "least metric",
    "metric_max": "largest metric",
    "latency_p99": "p99",
    "peak_memory": "peak memory",
    "size_ratio": "size ratio to pt2",
    **{f"no_worse {figure}": f"{figure} against the baseline" for figure in ("drift", "latency", "size", "memory")},
    "no_worse metric": "metric against the baseline",
    "no_worse metric drift": "loss on its own source, against the baseline's,",
    "no_worse presence": "what the baseline had",
}


def rule_words(rule: str) -> str:
    """Spell a rule's name as words: "latency_ratio batch=8" as "latency ratio at batch 8"."""
    name, _, batch = rule.partition(" batch=")
    return plain(f"{_WORDS.get(name, name)}{f' at batch {batch}' if batch else ''}")


def plain(text: str) -> str:
    """Text on one line, without the characters that steer a terminal."""
    return one_line(re.sub(r"\s+", " ", text).strip())
