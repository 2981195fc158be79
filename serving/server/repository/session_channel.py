"""A session in another process, over socket pairs: asked by threads that wait, and by an event loop that does not.

No socket has a name that another process could connect to. A connection is a new pair, one end of which goes to the
other process over the pair that it was started with."""

from __future__ import annotations

import socket
import struct
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ....models.errors import SessionLost, SessionTimeout, TransloadError
from ....models.signature import Array, Signature
from ...checked_session import CheckedSession, FeedCheck
from ...malloc_trim import HeapTrimmer
from ...session import Session
from ..serving_error import Code, ServingError, unavailable
from .body_decoders import DECODERS
from .channel_messages import (
    Message,
    MessageBuffer,
    MessageLayout,
    is_document,
    pack_document,
    pack_error,
    unpack_document,
)

_BUFFER_BYTES = 4 << 20  # of the socket, each way: most requests go in one piece
MOST_PARTS = 64  # of one sendmsg; the kernel takes 1024


def connect(line: socket.socket, number: int = 0) -> socket.socket:
    """Return a connection to the process that takes them from the other end of `line`, for its session of a number."""
    connection, theirs = socket.socketpair()
    with theirs:
        for end in (connection, theirs):
            _set_buffers(end)
        try:
            socket.send_fds(line, [bytes([number])], [theirs.fileno()], socket.MSG_DONTWAIT)
        except OSError:
            connection.close()
            raise
    return connection


def send(connection: socket.socket, parts: Sequence[Any]) -> None:
    """Send buffers, one after the other."""
    for start in range(0, len(parts), MOST_PARTS):
        chosen = parts[start : start + MOST_PARTS]
        sent = connection.sendmsg(chosen)
        for part in chosen:
            size = len(part)
            if sent < size:
                connection.sendall(memoryview(part)[sent:])
            sent = max(sent - size, 0)


def receive(connection: socket.socket, buffer: MessageBuffer) -> list[Message]:
    """Return the next messages, one at least. Raises EOFError where the other side is gone, SessionLost where what
    comes is no message."""
    while True:
        count = connection.recv_into(buffer.room())
        if not count:
            raise EOFError
        if messages := buffer.add(count):
            return messages


class ChannelSession(CheckedSession):
    """The side of threads, one call at a time, which closes `line` with it. `lost` is set when the other process is
    gone, or gave no answer in `timeout_s`."""

    def __init__(  # noqa: PLR0917  (what a session is: where, as what, for how long)
        self,
        line: socket.socket,
        signature: Signature,
        device: str,
        runtime: str,
        timeout_s: float,
        lost: threading.Event,
        number: int = 0,
    ) -> None:
        super().__init__(runtime, signature, device)
        self.line, self.timeout_s, self.lost, self.number = line, timeout_s, lost, number
        self._inputs, self._answers = MessageLayout(signature.inputs), MessageLayout(signature.outputs)
        self._buffer = MessageBuffer()
        self._socket = self._connect()

    def _connect(self) -> socket.socket:
        connection = connect(self.line, self.number)
        # Not settimeout, by which Python asks poll before each call.
        limit = struct.pack("@ll", int(self.timeout_s), int(self.timeout_s % 1 * 1e6))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            connection.setsockopt(socket.SOL_SOCKET, option, limit)
        return connection

    def decode(self, name: str, body: bytes, options: Mapping[str, Any]) -> tuple[list[Array], Any]:
        """Have the other process decode the body of a request; return the inputs in the signature's order, and what
        else it says. By any number of threads: each call has a connection of its own, and no other waits for it.
        Raises as the decoder, BadRequest where the inputs do not fit the signature, and as `run`."""
        buffer = MessageBuffer()
        try:
            with self._connect() as connection:
                send(connection, pack_document({"decoder": name, "options": options}, body))
                messages = receive(connection, buffer)
                document = unpack_document(messages[0])[0] if is_document(messages[0]) else None
                if document is not None and len(messages) < 2:
                    messages += receive(connection, buffer)
        except (BlockingIOError, TimeoutError) as error:
            raise SessionTimeout(
                f"a body was not read in {self.timeout_s:g} s", fix="send less at once, or raw bytes"
            ) from error
        except (ConnectionError, EOFError, SessionLost) as error:
            self.lost.set()
            raise SessionLost(f"the process of {self._runtime} ended", fix="open the session again") from error
        except OSError as error:  # this process has no socket left, which is no fault of the other
            raise unavailable(f"a body cannot be handed on: {error.strerror}") from error
        return self._inputs.unpack(messages[-1]), document

    def _answer(self, values: Sequence[Array]) -> Sequence[Array]:
        try:
            send(self._socket, self._inputs.pack(values))
            (message,) = receive(self._socket, self._buffer)
        except (BlockingIOError, TimeoutError) as error:
            self._give_up()
            raise SessionTimeout(
                f"{self._runtime} gave no answer in {self.timeout_s:g} s", fix="allow more time, or read the log"
            ) from error
        except (OSError, EOFError, SessionLost) as error:
            self._give_up()
            raise SessionLost(f"the process of {self._runtime} ended", fix="open the session again") from error
        return self._answers.unpack(message)

    def _give_up(self) -> None:
        """What would come now is the answer to another request."""
        self._socket.close()
        self.lost.set()

    def _release(self) -> None:
        self._socket.close()
        self.line.close()


class SessionHost:
    """The other side: a session that is asked over connections that come by `line`, by one caller at a time. So are the
    `other_sessions`, which a connection may ask for in its place, by their numbers from 1."""

    def __init__(
        self, session: Session, line: socket.socket | None, other_sessions: Mapping[str, Session] | None = None
    ) -> None:
        self._session, self._other_sessions = session, other_sessions or {}
        self._hosts = [SessionHost(other, None) for other in self._other_sessions.values()]
        self._names = [spec.name for spec in session.signature.inputs]
        # numpy works a dtype's name out at each look, which takes longer than all else here.
        self._outputs = [(spec, np.dtype(spec.dtype)) for spec in session.signature.outputs]
        self._lock, self._decoding = threading.Lock(), threading.Lock()
        self._memory = HeapTrimmer()
        self._inputs, self._answers = MessageLayout(session.signature.inputs), MessageLayout(session.signature.outputs)
        self._line = line
        if line is not None:
            threading.Thread(target=self._accept, args=(line,), name="channel", daemon=True).start()

    def describe(self) -> dict[str, Any]:
        """Return what the caller has to know: {signature, device, other_signatures by name}."""
        further = {name: session.signature.to_json() for name, session in self._other_sessions.items()}
        signature = self._session.signature.to_json()
        return {"signature": signature, "device": self._session.device, "other_signatures": further}

    def close(self) -> None:
        """Let go of the session."""
        if self._line is not None:
            self._line.close()
        self._session.close()

    def _accept(self, line: socket.socket) -> None:
        with suppress(OSError):  # the line is closed
            while True:
                chosen, numbers, *_ = socket.recv_fds(line, 1, 1)
                if not numbers:
                    return
                connection, host = socket.socket(fileno=numbers[0]), [self, *self._hosts][chosen[0]]
                threading.Thread(target=host._serve, args=(connection,), name="channel", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = MessageBuffer()
        with connection, suppress(OSError, EOFError):
            while True:
                for message in receive(connection, buffer):
                    self._answer_once(connection, message)

    def _decode(self, message: Message) -> list[Any]:
        """Return the buffers of the reply to a body: what it says beside the inputs, and these."""
        try:
            request, body = unpack_document(message)
            signature, decode = self._session.signature, DECODERS[request["decoder"]]
            with self._decoding:  # another request waits for one body at a time to let go of Python's lock
                feeds, document = decode(signature, bytes(body), **request["options"])
            values = FeedCheck(signature.inputs)(feeds)
        except (TransloadError, ServingError) as error:
            return pack_error(error)
        except Exception:  # noqa: BLE001  (a fault of ours is no reason to lose the model)
            traceback.print_exc()
            return pack_error(ServingError(Code.INTERNAL, "internal error"))
        return [*pack_document(document), *self._inputs.pack(values)]

    def _answer_once(self, connection: socket.socket, message: Message) -> None:
        if is_document(message):
            send(connection, self._decode(message))
            self._memory.add_request(len(message))
            return
        try:
            values = self._inputs.unpack(message)
            with self._lock:
                answers = self._run(dict(zip(self._names, values, strict=True)))
        except TransloadError as error:
            send(connection, pack_error(error))
        else:
            parts = self._answers.pack(answers)
            send(connection, parts)
            self._memory.add_request(len(message) + sum(map(len, parts)))

    def _run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the answers in the signature's order, in its dtypes and ranks. Raises SessionLost where they differ:
        the message has no room for others."""
        answers = self._session.run(feeds)
        for spec, dtype in self._outputs:
            value = answers[spec.name]
            if value.dtype != dtype or value.ndim != len(spec.shape):
                raise SessionLost(
                    f"the answer {spec.name} is {value.dtype.name}{list(value.shape)}, its record says {spec}",
                    fix="convert the model again",
                )
        return [answers[spec.name] for spec, _ in self._outputs]


def _set_buffers(end: socket.socket) -> None:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        end.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
