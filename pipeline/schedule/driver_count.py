"""How many processes order the steps of a list: one is too few for a large cluster."""

from __future__ import annotations

from math import ceil

CORES_OF_DRIVER = 64  # that one process can keep busy with the steps of a list (docs/scale.md)


def driver_count(cores: int) -> int:
    """Return how many processes a cluster of so many cores needs."""
    return max(1, ceil(cores / CORES_OF_DRIVER))
