"""A list has as many drivers as its cluster needs."""

from __future__ import annotations

from transload.pipeline.schedule.driver_count import driver_count


def test_a_driver_has_64_cores_at_most() -> None:
    assert [driver_count(cores) for cores in (0, 1, 64, 65, 1024)] == [1, 1, 1, 2, 16]
