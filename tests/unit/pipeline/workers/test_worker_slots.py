"""Slots let in so many workers, and none beside another while memory is short."""

from __future__ import annotations

import io
import threading
from contextlib import ExitStack

from transload.pipeline.progress import Progress
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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_of_several_models_begin_with_their_names() -> None:
    told = io.StringIO()
    progress = Progress(told)
    one, two = (progress.of(name, 5) for name in ("small", "net"))
    with one.stage("convert", 2) as first, two.stage("model"):
        one.step("onnx")
        two.note("the steps of acme are left out")
        first.note = "2 of 2 targets made"
    lines = told.getvalue().splitlines()
    assert lines[0] == "net    note: the steps of acme are left out"
    assert lines[1].startswith("net    model ")
    assert lines[2].startswith("small  convert ")
    assert lines[2].endswith(" s  2 of 2 targets made")


def test_a_terminal_sees_what_is_done_last_and_quiet_sees_nothing() -> None:
    terminal, silent = Terminal(), Terminal()
    for stream, quiet in ((terminal, False), (silent, True)):
        part = Progress(stream, quiet=quiet).of("net")
        with part.stage("convert", 2):
            part.step("onnx")
    assert "\rnet  convert    1/2 onnx" in terminal.getvalue()
    assert terminal.getvalue().endswith("s\n")
    assert silent.getvalue() == ""
