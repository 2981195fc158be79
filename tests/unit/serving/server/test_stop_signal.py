"""A server that waits for a signal ends at it, at whatever instant it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from transload.serving.server.stop_signal import stop_on_signals

SIGNALLED_AS_IT_BEGINS_TO_WAIT = """
import os, signal
from transload.serving.server.stop_signal import stop_on_signals

waiting, about_to_wait = os.pipe()
server = os.getpid()
if os.fork() == 0:
    os.close(about_to_wait)
    while os.read(waiting, 1):
        os.kill(server, signal.SIGTERM)
    os._exit(0)
for _ in range(3000):
    with stop_on_signals() as stop:
        os.write(about_to_wait, b"x")
        assert stop.wait(10)
print("ended")
"""


def test_a_signal_that_has_come_is_seen_by_all_who_ask() -> None:
    with stop_on_signals() as stop:
        assert stop.wait(0) is False
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait() is True
        assert stop.wait(0) is True


def test_a_hangup_has_something_done_and_ends_nothing() -> None:
    hangups: list[int] = []
    with stop_on_signals(lambda: hangups.append(1)) as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.wait(10) is False
        assert hangups == [1]
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait() is True
    assert hangups == [1, 1]


def test_a_hangup_ends_a_server_that_has_nothing_to_do_at_it() -> None:
    with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.wait() is True


def test_another_signal_does_not_end_it() -> None:
    former = signal.signal(signal.SIGUSR1, lambda *_: None)
    with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert stop.wait(0) is False
    signal.signal(signal.SIGUSR1, former)


def test_the_former_handlers_are_back_at_the_end() -> None:
    former = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with stop_on_signals():
        assert signal.getsignal(signal.SIGTERM) != former[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == former


def test_a_signal_that_comes_as_the_wait_begins_ends_it() -> None:
    """A handler that sets a threading.Event fails at this: it finds its own thread in the event's lock, or asleep."""
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED_AS_IT_BEGINS_TO_WAIT], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "ended\n", done.stderr
