"""No record is lost or counted twice, however many threads bring them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from transload.serving.server.pending_records import PendingRecords


def test_records_are_counted_in_their_order() -> None:
    counted: list[int] = []
    pending = PendingRecords(counted.append)
    for number in range(1000):
        pending.add(number)
    assert counted == [*range(len(counted))]
    assert 1000 - len(counted) < 256
    pending.flush()
    assert counted == [*range(1000)]


def test_every_record_of_many_threads_is_counted_once() -> None:
    counted: list[int] = []
    pending = PendingRecords(counted.append)

    def bring(start: int) -> None:
        for number in range(start, start + 10_000):
            pending.add(number)

    with ThreadPoolExecutor(8) as threads:
        for start in range(0, 80_000, 10_000):
            threads.submit(bring, start)
        for _ in range(50):
            threads.submit(pending.flush)
    pending.flush()
    assert sorted(counted) == [*range(80_000)]
