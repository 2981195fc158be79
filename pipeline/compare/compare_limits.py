"""How much a figure may change. Imports little: the command line reads the defaults from here."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...models.errors import BadRequest


@dataclass(frozen=True)
class CompareLimits:
    """How much a figure may change before it counts as better or worse."""

    drift_db: float = 6.0  # 6 dB: errors twice as large
    metric_loss: float = 0.01  # in the metric's own unit
    latency: float = 0.05  # share
    size: float = 0.05  # share
    memory: float = 0.10  # share

    def __post_init__(self) -> None:
        for name, limit in vars(self).items():
            if not 0 <= limit < math.inf:
                raise BadRequest(f"the limit {name} is {limit}", fix="use a finite number from 0 up")
