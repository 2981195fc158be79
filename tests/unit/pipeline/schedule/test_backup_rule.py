"""When a step is late."""

from __future__ import annotations

from math import inf

from transload.pipeline.schedule.backup_rule import BackupRule, Pace


def test_a_step_is_late_after_its_time_a_part_of_it_and_a_margin() -> None:
    rule = BackupRule(factor=1.5, margin_s=10.0)
    assert rule.late_after_s(100.0) == 160.0
    assert rule.late_after_s(100.0, pace=2.0) == 310.0
    assert rule.late_after_s(100.0, pace=0.5) == 160.0
    assert rule.late_after_s(None) == inf


def test_where_cores_are_idle_a_step_is_late_once_its_time_is_over() -> None:
    rule = BackupRule(factor=1.5, margin_s=10.0, margin_of_idle_s=2.0)
    assert rule.late_after_s(100.0, has_idle_cores=True) == 102.0
    assert rule.late_after_s(100.0, pace=2.0, has_idle_cores=True) == 202.0
    assert rule.late_after_s(None, has_idle_cores=True) == inf


def test_a_step_that_nobody_knows_is_not_long() -> None:
    rule = BackupRule(long_s=100.0)
    assert [rule.is_long(seconds) for seconds in (None, 99.0, 100.0)] == [False, False, True]


def test_copies_may_take_one_core_at_least() -> None:
    assert [BackupRule(most_share=0.05).most_copies(cores) for cores in (1, 40, 1024)] == [1, 2, 51]


def test_the_pace_is_the_median_of_this_runs_steps_once_there_are_some() -> None:
    pace = Pace()
    for seconds in (20.0, 30.0, 500.0, 30.0):
        pace.add(seconds, 10.0)
    pace.add(3.0, None)
    assert pace.value == 1.0
    pace.add(30.0, 10.0)
    assert pace.value == 3.0
