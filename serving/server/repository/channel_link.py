"""The side of an event loop: many requests may be on their way to the process of a model, and the loop goes on."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from ....models.errors import SessionLost, TransloadError
from ....models.signature import Array
from .channel_messages import MessageBuffer, MessageLayout
from .session_channel import MOST_PARTS, ChannelSession, connect

# Called with the answers or the error, and with the seconds in which the process had no other request of the loop.
Receiver: TypeAlias = Callable[[list[Array] | TransloadError, float], None]


class ChannelLink:
    """A connection to the process of `channel`. It is made and used in the thread of `loop`, `close` in any.
    Answers come in the order of the requests. Where the process ends, or one answer takes longer than the channel
    allows, the channel is lost, and every request fails."""

    def __init__(self, channel: ChannelSession, loop: asyncio.AbstractEventLoop) -> None:
        self._channel, self._loop = channel, loop
        self._inputs, self._answers = MessageLayout(channel.signature.inputs), MessageLayout(channel.signature.outputs)
        self._buffer = MessageBuffer()
        self._receivers: deque[Receiver] = deque()  # of the requests that have no answer yet
        self._unsent: deque[memoryview] = deque()
        self._start = 0.0  # when the process got the first of them, or was done with the one before it
        self._timer: asyncio.TimerHandle | None = None
        self._socket = connect(channel.line, channel.number)
        self._socket.setblocking(False)
        loop.add_reader(self._socket.fileno(), self._receive)

    def send(self, values: Sequence[Array], receiver: Receiver) -> None:
        """Send a request; `receiver` is called later, in the loop."""
        if self._channel.lost.is_set():
            self._loop.call_soon(receiver, self._lost(), 0.0)
            return
        if not self._receivers:
            self._start = time.perf_counter()
            if self._timer is None:
                self._timer = self._loop.call_later(self._channel.timeout_s, self._check_time)
        self._receivers.append(receiver)
        parts = self._inputs.pack(values)
        if self._unsent:
            self._unsent.extend(map(memoryview, parts))
            return
        try:
            sent = self._socket.sendmsg(parts[:MOST_PARTS])
        except BlockingIOError:
            sent = 0
        except OSError:
            self._loop.call_soon(self._give_up)  # not now: the caller goes on first
            return
        if sent < sum(map(len, parts)):
            self._unsent.extend(map(memoryview, parts))
            self._drop_sent(sent)
            self._loop.add_writer(self._socket.fileno(), self._send_rest)

    def _send_rest(self) -> None:
        try:
            while self._unsent:
                self._drop_sent(self._socket.send(self._unsent[0]))
        except BlockingIOError:
            return
        except OSError:
            self._give_up()
            return
        self._loop.remove_writer(self._socket.fileno())

    def _drop_sent(self, count: int) -> None:
        while count and count >= len(self._unsent[0]):
            count -= len(self._unsent.popleft())
        if count:
            self._unsent[0] = self._unsent[0][count:]

    def _receive(self) -> None:
        try:
            count = self._socket.recv_into(self._buffer.room())
            messages = self._buffer.add(count)
        except BlockingIOError:
            return
        except (OSError, SessionLost):
            count = 0
        if not count:
            self._give_up()
            return
        for message in messages:
            if not self._receivers:
                self._give_up()  # an answer that nobody asked for: no later one can be trusted
                return
            now = time.perf_counter()
            seconds, self._start = now - self._start, now
            receiver = self._receivers.popleft()
            outcome: list[Array] | TransloadError
            try:
                outcome = self._answers.unpack(message)
            except TransloadError as error:
                outcome = error
            receiver(outcome, seconds)

    def _check_time(self) -> None:
        """One timer for all requests, which is set again when it fires."""
        self._timer = None
        if not self._receivers:
            return
        left = self._start + self._channel.timeout_s - time.perf_counter()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_time)
        else:
            self._give_up()

    def _give_up(self) -> None:
        self._channel.lost.set()
        self._close()

    def close(self) -> None:
        """Close the connection; requests without an answer fail. Safe to call twice."""
        with suppress(RuntimeError):  # the loop is closed, and its sockets are watched no more
            self._loop.call_soon_threadsafe(self._close)
            return
        self._socket.close()

    def _close(self) -> None:
        if self._socket.fileno() < 0:
            return
        for stop in (self._loop.remove_reader, self._loop.remove_writer):
            stop(self._socket.fileno())
        self._socket.close()
        if self._timer is not None:
            self._timer.cancel()
        self._unsent.clear()
        while self._receivers:
            self._receivers.popleft()(self._lost(), 0.0)

    def _lost(self) -> TransloadError:
        return SessionLost("the process of the model ended", fix="open the session again")
