"""Judge a change by its limit: a difference with an interval, a difference that is exact, a ratio of two times."""

from __future__ import annotations

import math

from ..ratio import Ratio
from .change_records import Change, Interval


def judge_difference(change: float, interval: Interval, limit: float, *, higher_is_better: bool) -> Change:
    """Judge a difference: the same where its interval lies within the limit, better or worse where the interval
    excludes 0 and the difference goes beyond the limit."""
    low, high = interval
    if -limit <= low and high <= limit:
        return Change.SAME
    if abs(change) <= limit or low <= 0 <= high:
        return Change.INCONCLUSIVE
    return by_sign(-change if higher_is_better else change)


def judge_ratio(ratio: float, limit: float) -> Change:
    """Judge a figure that is exact; as logarithms, so that both directions have one limit."""
    change = math.log(ratio) if ratio > 0 else -math.inf
    return Change.SAME if abs(change) <= math.log1p(limit) + 1e-12 else by_sign(change)


def judge_times(ratio: Ratio, limit: float) -> Change:
    """Judge the times of two artifacts that were measured side by side, by the interval that allows several looks."""
    if ratio.verdict_interval is None:
        return Change.INCONCLUSIVE
    low, high = (math.log(end) for end in ratio.verdict_interval)
    return judge_difference(math.log(ratio.center), (low, high), math.log1p(limit), higher_is_better=False)


def by_sign(cost: float) -> Change:
    """Judge what a change costs: more is worse."""
    if cost == 0:
        return Change.SAME
    return Change.WORSE if cost > 0 else Change.BETTER


def difference(old: tuple[float, Interval], new: tuple[float, Interval]) -> tuple[float, Interval]:
    """Return new - old of two independent estimates with its interval, from theirs, which need not be symmetric.
    Zou and Donner 2008, "Construction of confidence limits about effect measures" (MOVER)."""
    (was, (was_low, was_high)), (now, (now_low, now_high)) = old, new
    change = now - was
    low, high = math.hypot(now - now_low, was_high - was), math.hypot(now_high - now, was - was_low)
    return change, (change - low, change + high)
