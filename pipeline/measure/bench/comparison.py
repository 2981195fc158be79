"""Two series compared: the ratio of their times, its interval, and what may be said of it.

One observation is one set of processes: the median over its rounds of the candidate's time over the reference's in the
same round, as a logarithm. Rounds in one set of processes are no further observations of what those processes were born
with. The intervals are Student's, over the sets. What they hold: docs/design/latency.md, `make calibration`.
"""

from __future__ import annotations

import math

import numpy as np

from ....models.signature import Array
from ...result.ratio import LEAST_PROCESSES, SAME_WITHIN, Comparison, Ratio
from .rounds import ProcessSamples, Series

# Sets of processes after which it is asked whether a ratio is settled: each look could raise a false alarm, so all of
# them, and the one at the end of the budget, share the 1 % (Bonferroni).
LOOKS = (3, 5, 8, 12, 18, 27, 40)
VERDICT_CONFIDENCE = 1 - 0.01 / (len(LOOKS) + 1)
_TICK_S = 1e-12  # a clock may read 0
_MOST_PROCESSES = 10_000


def compare(
    candidate: Series, reference: Series, *, same_within: float = SAME_WITHIN, confidence: float = VERDICT_CONFIDENCE
) -> Ratio | None:
    """Compare two series. A verdict of FASTER or SLOWER on equals is given in at most 1 % of measurements.
    SAME: the interval lies within 1 / (1 + same_within) and 1 + same_within. FASTER, SLOWER: it does not, and lies on
    one side of 1. None without a round in common. `confidence` is that of each look; a larger one where several
    candidates are compared, and one false alarm among them is an alarm."""
    return compare_logs(log_ratios(candidate, reference), same_within=same_within, confidence=confidence)


def log_ratios(candidate: Series, reference: Series) -> Array:
    """Return the observations, shape (sets of processes,)."""
    common = sorted(candidate.processes.keys() & reference.processes.keys())
    pairs = [_log_ratio(candidate.processes[at], reference.processes[at]) for at in common]
    return np.array([value for value in pairs if value is not None])


def compare_logs(
    logs: Array, *, same_within: float = SAME_WITHIN, confidence: float = VERDICT_CONFIDENCE
) -> Ratio | None:
    """See `compare`. `logs`: natural logarithms of ratios, shape (sets of processes,)."""
    if not len(logs):
        return None
    center = float(np.mean(logs))
    if len(logs) < LEAST_PROCESSES:
        return Ratio(math.exp(center), None, Comparison.INCONCLUSIVE)
    ci95 = _interval(logs, 0.95)
    low, high = _interval(logs, confidence)
    most = math.log1p(same_within)
    comparison = Comparison.INCONCLUSIVE
    if -most <= low and high <= most:
        comparison = Comparison.SAME
    elif low > 0 or high < 0:
        comparison = Comparison.SLOWER if low > 0 else Comparison.FASTER
    settling = _settling_processes(logs, most, confidence) if comparison is Comparison.INCONCLUSIVE else None
    ends = [(math.exp(interval[0]), math.exp(interval[1])) for interval in (ci95, (low, high))]
    return Ratio(math.exp(center), ends[0], comparison, settling, ends[1])


def _log_ratio(candidate: ProcessSamples, reference: ProcessSamples) -> float | None:
    """Return the median over the common rounds; None where there is none."""
    common = candidate.rounds.keys() & reference.rounds.keys()
    logs = [_log_median(candidate.rounds[at]) - _log_median(reference.rounds[at]) for at in common]
    return float(np.median(logs)) if logs else None


def _log_median(samples_s: Array) -> float:
    return math.log(max(float(np.median(samples_s)), _TICK_S))


def _interval(logs: Array, confidence: float) -> tuple[float, float]:
    center, half = float(np.mean(logs)), _half_width(float(np.std(logs, ddof=1)), len(logs), confidence)
    return center - half, center + half


def _half_width(deviation: float, count: int, confidence: float) -> float:
    from scipy import stats

    return float(stats.t.ppf((1 + confidence) / 2, count - 1)) * deviation / math.sqrt(count)


def _settling_processes(logs: Array, most: float, confidence: float) -> int:
    """Estimate how many sets of processes would decide, if they scatter as these do: the interval then excludes 1, or
    lies within `most` of it."""
    center, deviation = abs(float(np.mean(logs))), float(np.std(logs, ddof=1))
    room = max(center, most - center)
    count = len(logs)
    while count < _MOST_PROCESSES and _half_width(deviation, count, confidence) > room:
        count += max(1, count // 10)
    return count
