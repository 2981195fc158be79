"""From a paired difference to a verdict: equivalence within an allowed loss, and the samples that would settle it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .metric_kinds import SHARE
from .metric_text import format_change, format_interval, format_loss

Z95 = 1.959963984540054  # two-sided 95 % of the normal distribution
Z99_5 = 2.5758293035489004  # one-sided 99.5 %
_Z_POWER = 0.8416212335729143  # 80 % of the normal distribution
_MOST_SAMPLES = 10**9  # beyond this nobody gathers them


def loss_interval(metric: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return (low, loss, high) of a metric's row: how much worse the candidate is, with its 95 % interval."""
    low, high = metric["ci95"]
    if metric.get("higher_is_better", True):
        return 0.0 - high, 0.0 - metric["delta"], 0.0 - low
    return low, metric["delta"], high


def judge_loss(metric: Mapping[str, Any], allowed: float) -> tuple[str, str | None]:
    """Return pass, fail or inconclusive with its sentence: the interval of the loss lies within `allowed`, beyond it,
    or spans it. An interval that ends on the limit keeps it."""
    low, _, high = loss_interval(metric)
    if high <= allowed:
        return "pass", None
    unit = metric.get("unit") or ""
    low_end, high_end = metric["ci95"]
    change = f"{format_change(metric['delta'], unit)} {format_interval(low_end, high_end, unit)}"
    changed, limit = f"{metric['name']} changed by {change}", f"the allowed loss of {format_loss(allowed, unit)}"
    if low > allowed:
        return "fail", f"{changed}, beyond {limit}"
    return "inconclusive", f"{changed}, which spans {limit}: {_what_decides(metric.get('samples_needed'))}"


def _what_decides(samples: int | None) -> str:
    if samples is None:
        return "it lies so near to the limit that more samples will not decide it"
    return f"about {samples:,} samples would decide it"


def samples_needed(
    samples: int, metric: Mapping[str, Any], allowed: float | None, *, alike: bool = False
) -> int | None:
    """Return how many samples would decide with 80 % power, if the difference and its spread stay as they were seen.

    None where the interval has decided, where nothing is allowed or asked, or where the loss lies on the limit.
    The usual power estimate of one mean: n (z_0.975 + z_0.80)^2 (se / gap)^2, where se is a half width of the interval
    over z_0.975, and gap the way from the loss to the limit. Where no sample differs the interval shrinks with 1/n and
    not with its root, so it is n half / gap (`alike`).
    """
    if allowed is None:
        return None
    low, loss, high = loss_interval(metric)
    if not low <= allowed < high:
        return None
    half, gap = (high - low) / 2, abs(allowed - loss)
    if gap <= 1e-12 * max(1.0, abs(loss)):
        return None
    times = half / gap if alike else ((Z95 + _Z_POWER) * half / Z95 / gap) ** 2
    count = max(samples + 1, math.ceil(samples * times))
    return _two_digits(count) if count <= _MOST_SAMPLES else None


def detectable_loss(samples: int, metric: Mapping[str, Any], allowed: float | None, *, z: float = Z95) -> float | None:
    """Return the smallest loss that these samples show to be beyond `allowed` (None: beyond 0) with 80 % power.
    `z`: the quantile of the normal distribution that the interval's deciding end is at.

    It solves loss = allowed + (z + z_0.80) sqrt(se^2 + loss size / n). Here se is a half width of the interval
    over z_0.975, as it was seen; a loss adds samples that differ, each by about `size`: 1 of a share, else the metric
    itself. Bloom, "Minimum detectable effects", Evaluation Review 19 (1995) 547-556.
    None where there is no such loss: more than all of a share.
    """
    low, high = metric["ci95"]
    is_share = metric.get("unit") == SHARE
    size = 1.0 if is_share else max(abs(metric["reference"]), abs(metric["candidate"]))
    limit, reach = allowed or 0.0, z + _Z_POWER
    spread, step = (reach * (high - low) / 2 / Z95) ** 2, reach**2 * size / samples
    half = limit + step / 2
    loss = half + math.sqrt(half**2 - limit**2 + spread)
    return None if is_share and loss > 1 else loss


def _two_digits(count: int) -> int:
    """Round up to two significant digits: an estimate has no more."""
    step = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // step) * step


def mcnemar(won: int, lost: int) -> float:
    """Return the exact two-sided p-value of McNemar's test.

    `won` samples only the candidate has right, `lost` only the reference. Under the null hypothesis each is as likely,
    so the smaller count is binomial (n, 1/2). McNemar, Psychometrika 12 (1947) 153-157, in its exact form.
    """
    from scipy.special import bdtr  # the binomial's cumulative distribution

    return min(1.0, 2 * float(bdtr(min(won, lost), won + lost, 0.5))) if won + lost else 1.0
