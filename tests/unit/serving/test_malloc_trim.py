"""What large requests took is given back, and small ones cost nothing."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil

from transload.serving.malloc_trim import HeapTrimmer, trim_heap


def test_large_requests_that_follow_each_other_share_one_call() -> None:
    calls: list[float] = []
    memory = HeapTrimmer(0.2, lambda: calls.append(time.monotonic()))
    start = time.monotonic()
    for _ in range(3):
        memory.add_request(2 << 20)
        memory.add_request(100)
    time.sleep(0.5)
    assert len(calls) == 1
    assert calls[0] - start >= 0.2
    memory.add_request(2 << 20)
    time.sleep(0.5)
    assert len(calls) == 2


def test_a_small_request_starts_nothing() -> None:
    calls: list[None] = []
    HeapTrimmer(0, lambda: calls.append(None)).add_request(1000)
    time.sleep(0.1)
    assert calls == []


def test_the_heap_is_given_back() -> None:
    blocks = [bytearray(50_000) for _ in range(2000)]  # too small for maps of their own
    last = bytearray(50_000)  # above them: the top of the heap is in use
    del blocks
    before = psutil.Process().memory_info().rss
    trim_heap()
    assert len(last) == 50_000
    assert psutil.Process().memory_info().rss < before - 50e6


_BODIES_IN_A_THREAD = """
import threading
from transload.serving.malloc_trim import map_large_blocks

def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def take_bodies():
    for _ in range(3):
        pieces = [bytes(1 << 18) for _ in range(40)]
        body = b"".join(pieces) + b"x"
        copy = bytearray(body)
        del pieces, body, copy
    taken.set()
    stop.wait()

map_large_blocks()
taken, stop = threading.Event(), threading.Event()
thread = threading.Thread(target=take_bodies)
before = resident_bytes()
thread.start()
taken.wait()
print(resident_bytes() - before)
stop.set()
"""


def test_what_a_thread_took_for_large_bodies_goes_back() -> None:
    done = subprocess.run([sys.executable, "-c", _BODIES_IN_A_THREAD], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 4e6  # 10.6e6 without map_large_blocks
