"""From samples to numbers that may be compared, and the doubts that speak against them.

Every number is made of all samples: none is thrown away as an outlier. The method's measured reasons, and where each
limit comes from: docs/design/latency.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ....models.signature import Array
from ...result.doubt_kinds import DoubtKind, LatencyDoubt, by_weight
from ...result.ratio import LEAST_PROCESSES
from .percentiles import percentile
from .rounds import ProcessSamples, Series
from .throttling import Throttling

_P99_SAMPLES = 662  # MLPerf's early stopping: 0.99^n (1 + n/99) <= 0.01, so that a p99 is bounded at 99 % confidence
_SPREAD = 0.10
_TIMER = 0.01
_WIDE = 0.10
_TREND = 0.05
_TREND_Z = 2.576  # Mann-Kendall at 1 %
_TREND_ROUNDS = 8
_FIRST_CALLS, _FIRST_S = 20, 0.05
_ASHMAN, _MINORITY = 4.0, 0.10  # one normal split in two gives 2.7, a uniform 3.5, an exponential about 3.3
_MODES_OF = 20_000
_TICK_S = 1e-12  # a clock may read 0
_HELD, _CLOCK_FALL = 0.01, 0.10  # shares of the time, and of the clock


@dataclass(frozen=True, slots=True)
class Summary:
    """Seconds of a call, and samples of the task a second."""

    p50_s: float
    p90_s: float
    p99_s: float
    throughput_per_s: float
    p999_s: float | None = None  # None: too few samples to bound it
    p50_ci95: tuple[float, float] | None = None
    p90_ci95: tuple[float, float] | None = None
    p99_ci95: tuple[float, float] | None = None
    p999_ci95: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """What other programs used of the machine while the rounds went on (load.py), in processors' worth."""

    other_cores: float
    cores: int


def summary(samples_s: Array, batch: int) -> Summary:
    """Percentiles with intervals (percentiles.py) and throughput of shape (calls,), at least one."""
    p50, p90, p99, p999 = (percentile(samples_s, quantile) for quantile in (0.5, 0.9, 0.99, 0.999))
    return Summary(
        p50.value, p90.value, p99.value, batch / max(float(np.mean(samples_s)), _TICK_S),
        p999.value if p999.ci95 else None, p50.ci95, p90.ci95, p99.ci95, p999.ci95,
    )  # fmt: skip


def median_of(series: Series, fact: Callable[[ProcessSamples], float]) -> float:
    """Return the median of what `fact` says of each process; 0 of a series without processes."""
    values = [fact(process) for process in series.processes.values()]
    return float(np.median(values)) if values else 0.0


def find_doubts(
    series: Series,
    interval: tuple[float, float] | None = None,
    *,
    load: Load | None = None,
    throttling: Throttling | None = None,
) -> tuple[LatencyDoubt, ...]:
    """Return why these numbers should not be believed yet, the weightiest first, each with its number and what mends
    it; empty where nothing speaks against them. `interval` is that of the ratio to the reference."""
    if not len(series.samples_s):
        return ()
    return by_weight((*_doubt_samples(series, interval), *doubt_machine(load, throttling)))


def _doubt_samples(series: Series, interval: tuple[float, float] | None) -> Iterator[LatencyDoubt]:
    samples_s = series.samples_s
    if (count := len(samples_s)) < _P99_SAMPLES:
        bound = f"{_P99_SAMPLES} bound it at 99 % confidence"
        yield LatencyDoubt(DoubtKind.FEW_CALLS, f"a p99 from {count} calls is a guess: {bound}, so measure longer")
    low, mid, high = np.percentile(samples_s, (25, 50, 75))
    if high - low > _SPREAD * mid:
        spread = f"the middle half of the calls spreads over {(high - low) / mid:.0%} of the median"
        yield LatencyDoubt(DoubtKind.SPREAD, f"{spread}: close other programs")
    yield from _doubt_modes(samples_s)
    yield from _doubt_trend(series)
    call_s, first_s = max(float(mid), _TICK_S), median_of(series, lambda process: process.first_call_s)
    if (share := median_of(series, lambda process: process.timer_s) / call_s) > _TIMER:
        mend = "compare ratios and not microseconds, or use a larger batch"
        yield LatencyDoubt(DoubtKind.CLOCK, f"reading the clock is {share:.1%} of a call: {mend}")
    if (times := first_s / call_s) > _FIRST_CALLS and first_s > _FIRST_S:
        took = f"the first call took {first_s:.2f} s, {times:.0f} times the median"
        yield LatencyDoubt(DoubtKind.FIRST_CALL, f"{took}: warm it up before use")
    if (processes := len(series.processes)) < LEAST_PROCESSES:
        mend = f"use --processes {LEAST_PROCESSES}, or more"
        yield LatencyDoubt(DoubtKind.FEW_PROCESSES, f"{processes} processes give no interval: {mend}")
    if interval is not None and interval[1] / interval[0] - 1 > _WIDE:
        width = f"the 95 % interval of the ratio is {interval[1] / interval[0] - 1:.0%} wide"
        yield LatencyDoubt(DoubtKind.WIDE_RATIO, f"{width}: measure longer (--budget), on a quiet machine")


def doubt_machine(load: Load | None, throttling: Throttling | None) -> Iterator[LatencyDoubt]:
    """Yield the doubts that all rows of a measurement share."""
    if load is not None and load.other_cores > 0.25 * load.cores:
        used = f"other programs used {load.other_cores:.1f} of {load.cores} cores"
        yield LatencyDoubt(DoubtKind.OTHER_LOAD, f"{used}: measure on a quiet machine")
    for text in _throttled(throttling) if throttling is not None and throttling.elapsed_s > 0 else ():
        yield LatencyDoubt(DoubtKind.THROTTLED, text)


def _throttled(throttling: Throttling) -> Iterator[str]:
    elapsed_s = throttling.elapsed_s
    if throttling.held_s > _HELD * elapsed_s:
        limit = "" if throttling.quota_cores is None else f" of {throttling.quota_cores:.3g} cores"
        yield (
            f"the container's limit{limit} held the processes back for {throttling.held_s:.2g} s of {elapsed_s:.3g} s: "
            "raise it, or use fewer threads"
        )
    if throttling.heat_events:
        yield f"the processors lowered their clocks for heat {throttling.heat_events} times: cool them better"
    if throttling.clock_fall > _CLOCK_FALL:
        yield f"the clock fell by {throttling.clock_fall:.0%} during the rounds: fix the processor's frequency"
    if throttling.gpu_held_s > _HELD * elapsed_s:
        share = min(1.0, throttling.gpu_held_s / elapsed_s)
        yield f"heat or power held the GPU's clock down in {share:.0%} of the time: fix its clock, or cool more"


def _doubt_modes(samples_s: Array) -> Iterator[LatencyDoubt]:
    """Two heaps far apart: Otsu's split, Ashman's D = sqrt(2) |m1 - m2| / sqrt(s1^2 + s2^2)."""
    values = np.sort(samples_s[:: max(1, len(samples_s) // _MODES_OF)])
    values = values[len(values) // 100 : len(values) - len(values) // 100]
    least = math.ceil(_MINORITY * len(values))
    if len(values) < 50:
        return
    cuts = np.arange(least, len(values) - least + 1)
    sums = np.cumsum(values)
    below, above = sums[cuts - 1] / cuts, (sums[-1] - sums[cuts - 1]) / (len(values) - cuts)
    cut = int(cuts[np.argmax(cuts * (len(values) - cuts) * (above - below) ** 2)])
    first, second = values[:cut], values[cut:]
    gap = float(second.mean() - first.mean())
    noise = math.sqrt(float(first.var()) + float(second.var()))
    if gap > 0.05 * float(np.median(values)) and math.sqrt(2) * gap > _ASHMAN * noise:
        heaps = f"the calls fall in two heaps, {_ms(float(first.mean()))} and {_ms(float(second.mean()))} ms"
        mend = "a median tells of neither, so look for a clock or a thread that switches"
        yield LatencyDoubt(DoubtKind.TWO_MODES, f"{heaps}: {mend}")


def _doubt_trend(series: Series) -> Iterator[LatencyDoubt]:
    """Mann-Kendall over the medians of the rounds, sized by the Theil-Sen slope."""
    medians = np.array([float(np.median(chunk)) for chunk in series.chunks])
    if len(medians) < _TREND_ROUNDS:
        return
    at = np.arange(len(medians), dtype=np.float64)
    i, j = np.triu_indices(len(at), 1)
    score = abs(float(np.sum(np.sign(medians[j] - medians[i]))))
    sigma = math.sqrt(len(at) * (len(at) - 1) * (2 * len(at) + 5) / 18)
    slope = float(np.median((medians[j] - medians[i]) / (at[j] - at[i])))
    drift = slope * float(at[-1] - at[0]) / max(float(np.median(medians)), _TICK_S)
    if score > _TREND_Z * sigma and abs(drift) > _TREND:
        mend = "let the machine come to rest and measure longer"
        yield LatencyDoubt(DoubtKind.DRIFT, f"the rounds drift by {drift:+.0%} from first to last: {mend}")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"
