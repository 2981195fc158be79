"""Which waiting step gets the cores that come free."""

from __future__ import annotations

from transload.pipeline.schedule.backup_rule import BackupRule
from transload.pipeline.schedule.step_queue import StepQueue

RULE = BackupRule(most_share=0.5)


def test_the_longest_chain_goes_first_and_equal_ones_in_their_order() -> None:
    queue = StepQueue(1, RULE)
    running = queue.join(0.0)
    short, long, equal = queue.join(1.0), queue.join(9.0), queue.join(9.0)
    order = []
    for _ in range(3):
        (running,) = running.leave()
        order.append(running)
    assert order == [long, equal, short]
    assert running.leave() == []


def test_steps_run_side_by_side_within_the_cores() -> None:
    queue = StepQueue(4, RULE)
    tickets = [queue.join(0.0, 2) for _ in range(3)]
    assert [ticket.granted.is_set() for ticket in tickets] == [True, True, False]
    queue.resize(6)
    assert tickets[2].wait(0)


def test_cores_are_idle_while_no_step_waits_for_them() -> None:
    queue = StepQueue(2, RULE)
    first = queue.join(0.0)
    idle = [queue.has_idle_cores]
    wide = queue.join(0.0, 2)
    idle.append(queue.has_idle_cores)
    wide.leave()
    queue.join(0.0, is_copy=True)
    idle.append(queue.has_idle_cores)
    first.leave()
    assert [*idle, queue.has_idle_cores] == [True, False, False, True]


def test_a_step_that_is_wider_than_the_cluster_runs_alone_and_is_not_overtaken() -> None:
    queue = StepQueue(2, RULE)
    running, wide, narrow = queue.join(0.0), queue.join(5.0, 8), queue.join(1.0)
    assert not wide.granted.is_set()
    assert not narrow.granted.is_set()
    assert running.leave() == [wide]
    assert wide.leave() == [narrow]


def test_leaving_twice_or_before_the_turn_gives_nothing_back_twice() -> None:
    queue = StepQueue(1, RULE)
    running, quitter, last = queue.join(0.0), queue.join(9.0), queue.join(1.0)
    assert quitter.leave() == []
    assert running.leave() == [last]
    assert running.leave() == []
    assert not queue.join(0.0).granted.is_set()


def test_a_copy_goes_before_steps_with_shorter_chains_within_its_share() -> None:
    queue = StepQueue(2, RULE)
    first, second = queue.join(0.0), queue.join(0.0)
    copy, other_copy = queue.join(9.0, is_copy=True), queue.join(8.0, is_copy=True)
    longer, shorter = queue.join(10.0), queue.join(1.0)
    assert first.leave() == [longer]
    assert second.leave() == [copy]
    assert longer.leave() == [shorter]  # half of the cores is the copies' share
    assert shorter.leave() == [other_copy]  # nothing else waits
