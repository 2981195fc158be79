"""When requests are to be sent: pure functions from a rate to seconds after the start."""

from __future__ import annotations

import math

import numpy as np

from ....models.signature import Array


def constant_arrivals(rate_per_s: float, seconds: float) -> Array:
    """Return evenly spaced times in [0, seconds), the first at 0; at least one."""
    return np.arange(max(1, math.ceil(rate_per_s * seconds - 1e-9)), dtype=np.float64) / rate_per_s


def poisson_arrivals(rate_per_s: float, seconds: float, rng: np.random.Generator) -> Array:
    """Return the times of a Poisson process in [0, seconds): gaps are exponential, of mean 1 / rate; at least one."""
    count = rate_per_s * seconds
    times = np.zeros(0)
    while not len(times) or times[-1] < seconds:
        gaps = rng.exponential(1 / rate_per_s, size=int(count + 4 * math.sqrt(count)) + 16)
        times = np.concatenate([times, np.cumsum(gaps) + (times[-1] if len(times) else 0.0)])
    inside = times[times < seconds]
    return inside if len(inside) else times[:1]
