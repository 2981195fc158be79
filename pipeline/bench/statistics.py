"""From samples to numbers that may be compared, and the doubts that speak against them.

Every number is made of all samples: none is thrown away as an outlier. The method's measured reasons, and where each
limit comes from: docs/design/latency.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...models.signature import Array
from .rounds import LEAST_ROUNDS, Series

_RESAMPLES = 4999
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


@dataclass(frozen=True, slots=True)
class Load:
    """What other programs used of the machine while the rounds went on (load.py), in processors' worth."""

    other_cores: float
    cores: int


def summary(samples_s: Array, batch: int) -> Summary:
    """Percentiles (linear interpolation) and throughput of shape (calls,), at least one."""
    p50, p90, p99 = (float(value) for value in np.percentile(samples_s, (50, 90, 99)))
    return Summary(p50, p90, p99, batch / max(float(np.mean(samples_s)), _TICK_S))


def ratio(candidate: Series, reference: Series, *, seed: int = 0) -> tuple[float, tuple[float, float] | None] | None:
    """Seconds of a call over the reference's, and its 95 % interval; below 1 is faster.
    The (geometric) median over rounds of the candidate's median over the reference's in the same round, and the
    percentile bootstrap over rounds (4999 resamples, seeded). None without a common round; the interval is None below
    five of them."""
    common = sorted(candidate.rounds.keys() & reference.rounds.keys())
    if not common:
        return None
    logs = np.array([_log_median(candidate, at) - _log_median(reference, at) for at in common])
    center = math.exp(float(np.median(logs)))
    if len(common) < LEAST_ROUNDS:
        return center, None
    picks = np.random.default_rng(seed).integers(0, len(logs), size=(_RESAMPLES, len(logs)))
    low, high = np.percentile(np.median(logs[picks], axis=1), (2.5, 97.5))
    return center, (math.exp(float(low)), math.exp(float(high)))


def _log_median(series: Series, at: int) -> float:
    return math.log(max(float(np.median(series.rounds[at])), _TICK_S))


def doubts(series: Series, interval: tuple[float, float] | None = None, *, load: Load | None = None) -> tuple[str, ...]:
    """Why these numbers should not be believed yet, each with its number and what mends it; empty where nothing
    speaks against them. `interval` is that of the ratio to the reference."""
    return tuple(_doubts(series, interval, load)) if len(series.samples_s) else ()


def _doubts(series: Series, interval: tuple[float, float] | None, load: Load | None) -> Iterator[str]:
    samples_s = series.samples_s
    if len(samples_s) < _P99_SAMPLES:
        yield (
            f"a p99 from {len(samples_s)} calls is a guess: {_P99_SAMPLES} bound it at 99 % confidence, "
            "so measure more rounds"
        )
    low, mid, high = np.percentile(samples_s, (25, 50, 75))
    if high - low > _SPREAD * mid:
        yield f"the middle half of the calls spreads over {(high - low) / mid:.0%} of the median: close other programs"
    yield from _doubt_modes(samples_s)
    yield from _doubt_trend(series)
    call_s, first_s = max(float(mid), _TICK_S), series.first_call_s or 0.0
    if (share := series.timer_s / call_s) > _TIMER:
        yield f"reading the clock is {share:.1%} of a call: compare ratios and not microseconds, or use a larger batch"
    if (times := first_s / call_s) > _FIRST_CALLS and first_s > _FIRST_S:
        yield f"the first call took {first_s:.2f} s, {times:.0f} times the median: warm it up before use"
    if len(series.rounds) < LEAST_ROUNDS:
        yield f"{len(series.rounds)} rounds give no interval: measure at least {LEAST_ROUNDS}"
    if interval is not None and interval[1] / interval[0] - 1 > _WIDE:
        least, most = interval
        yield f"the ratio lies anywhere in {least:.2f} to {most:.2f}: measure more rounds on a quiet machine"
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
    if len(series.rounds) < _TREND_ROUNDS:
        return
    at = np.array(sorted(series.rounds), dtype=np.float64)
    medians = np.array([float(np.median(series.rounds[int(index)])) for index in at])
    i, j = np.triu_indices(len(at), 1)
    score = abs(float(np.sum(np.sign(medians[j] - medians[i]))))
    sigma = math.sqrt(len(at) * (len(at) - 1) * (2 * len(at) + 5) / 18)
    slope = float(np.median((medians[j] - medians[i]) / (at[j] - at[i])))
    drift = slope * float(at[-1] - at[0]) / max(float(np.median(medians)), _TICK_S)
    if score > _TREND_Z * sigma and abs(drift) > _TREND:
        yield f"the rounds drift by {drift:+.0%} from first to last: let the machine come to rest and measure longer"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"
