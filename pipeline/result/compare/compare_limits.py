"""How much a figure may change. Imports little: the command line reads the defaults from here."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....models.errors import BadRequest
from ...drift.metrics.metric_text import format_loss

SCORE_LOSS = 0.01  # of a score that may be lost by default: 1 percentage point of a share
ERROR_LOSS = 0.02  # share by which an error may grow by default


@dataclass(frozen=True)
class CompareLimits:
    """How much a figure may change before it counts as better or worse."""

    drift_db: float = 6.0  # 6 dB: errors twice as large
    metric_loss: float | None = None  # in the metric's own unit; None: the default for its direction
    latency: float = 0.05  # share
    size: float = 0.05  # share
    memory: float = 0.10  # share

    def __post_init__(self) -> None:
        for name, limit in vars(self).items():
            if limit is not None and not 0 <= limit < math.inf:
                raise BadRequest(f"the limit {name} is {limit}", fix="use a finite number from 0 up")

    def loss_limit(self, before: float, unit: str, *, higher_is_better: bool) -> tuple[float, str]:
        """Return how much of a metric may be lost that was `before`, and the words that say so."""
        if self.metric_loss is not None:
            return self.metric_loss, f"limit {format_loss(self.metric_loss, unit)}"
        if higher_is_better:
            return SCORE_LOSS, f"limit {format_loss(SCORE_LOSS, unit)}, the default for a score"
        limit = ERROR_LOSS * abs(before)
        return limit, f"limit {format_loss(limit, unit)}, the default for an error: {ERROR_LOSS:.0%}"
