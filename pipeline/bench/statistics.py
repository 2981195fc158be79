"""From samples to numbers that may be compared, and the doubts that speak against them.

Every number is made of all samples: none is thrown away as an outlier. The method's measured reasons, and where each
limit comes from: docs/design/latency.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ...models.signature import Array
from .comparison import LEAST_PROCESSES
from .percentiles import percentile
from .rounds import ProcessSamples, Series

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


def doubts(series: Series, interval: tuple[float, float] | None = None, *, load: Load | None = None) -> tuple[str, ...]:
    """Why these numbers should not be believed yet, each with its number and what mends it; empty where nothing
    speaks against them. `interval` is that of the ratio to the reference."""
    return tuple(_doubts(series, interval, load)) if len(series.samples_s) else ()


def _doubts(series: Series, interval: tuple[float, float] | None, load: Load | None) -> Iterator[str]:
    samples_s = series.samples_s
    if len(samples_s) < _P99_SAMPLES:
        yield (
            f"a p99 from {len(samples_s)} calls is a guess: {_P99_SAMPLES} bound it at 99 % confidence, "
            "so measure longer"
        )
    low, mid, high = np.percentile(samples_s, (25, 50, 75))
    if high - low > _SPREAD * mid:
        yield f"the middle half of the calls spreads over {(high - low) / mid:.0%} of the median: close other programs"
    yield from _doubt_modes(samples_s)
    yield from _doubt_trend(series)
    call_s, first_s = max(float(mid), _TICK_S), median_of(series, lambda process: process.first_call_s)
    if (share := median_of(series, lambda process: process.timer_s) / call_s) > _TIMER:
        yield f"reading the clock is {share:.1%} of a call: compare ratios and not microseconds, or use a larger batch"
    if (times := first_s / call_s) > _FIRST_CALLS and first_s > _FIRST_S:
        yield f"the first call took {first_s:.2f} s, {times:.0f} times the median: warm it up before use"
    if (processes := len(series.processes)) < LEAST_PROCESSES:
        yield f"{processes} processes give no interval: use --processes {LEAST_PROCESSES}, or more"
    if interval is not None and interval[1] / interval[0] - 1 > _WIDE:
        least, most = interval
        yield f"the ratio lies anywhere in {least:.2f} to {most:.2f}: measure longer (--budget), on a quiet machine"
    if load is not None and load.other_cores > 0.25 * load.cores:
        yield f"other programs used {load.other_cores:.1f} of {load.cores} cores: measure on a quiet machine"


def _doubt_modes(samples_s: Array) -> Iterator[str]:
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
        yield (
            f"the calls fall in two heaps, {_ms(float(first.mean()))} and {_ms(float(second.mean()))} ms: "
            "a median tells of neither, so look for a clock or a thread that switches"
        )


def _doubt_trend(series: Series) -> Iterator[str]:
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
        yield f"the rounds drift by {drift:+.0%} from first to last: let the machine come to rest and measure longer"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"
