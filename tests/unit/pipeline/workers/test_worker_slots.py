"""Slots let in so many workers, and none beside another while memory is short."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from transload.pipeline.workers.worker_slots import WorkerSlots


def entered(slots: WorkerSlots, how_many: int, wait_s: float = 0.3) -> int:
    """How many of some workers got in at once, each of which stays until all have been counted."""
    inside, count, leave = threading.Semaphore(0), 0, threading.Event()

    def work() -> None:
        with slots.occupied():
            inside.release()
            leave.wait(60)

    threads = [threading.Thread(target=work) for _ in range(how_many)]
    for each in threads:
        each.start()
    while inside.acquire(timeout=wait_s):
        count += 1
    leave.set()
    for each in threads:
        each.join()
    return count


def test_no_more_than_so_many_at_once() -> None:
    assert entered(WorkerSlots(2, free_bytes=lambda: 99 << 30), 4) == 2


def test_where_memory_is_short_one_alone_starts_and_the_others_follow_it() -> None:
    slots = WorkerSlots(4, least_free_bytes=100, free_bytes=lambda: 99)
    assert entered(slots, 3) == 1
    with slots.occupied():  # all have left
        pass


def test_one_that_waits_for_memory_starts_when_it_comes_free() -> None:
    free, started = [0], threading.Event()
    slots = WorkerSlots(2, least_free_bytes=100, free_bytes=lambda: free[0])

    def work() -> None:
        with slots.occupied():
            started.set()

    with ExitStack() as stack:
        stack.enter_context(slots.occupied())
        threading.Thread(target=work).start()
        assert not started.wait(0.2)
        free[0] = 100
        assert started.wait(60)


def test_stop_ends_the_workers_of_every_model() -> None:
    slots, ended = WorkerSlots(1), []
    slots.on_stop(lambda: ended.append("a"))
    slots.on_stop(lambda: ended.append("b"))
    slots.stop()
    assert ended == ["a", "b"]
