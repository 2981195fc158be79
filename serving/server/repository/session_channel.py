"""A session in another process: arrays over a Unix socket, without a copy more than the kernel makes.

Both sides know the signature, so that a message is nothing but the sizes of the tensors and their bytes:

    request    for each input its sizes (one int64 per axis), then the bytes of each input
    reply      1 byte status; 0: for each output its sizes, then the bytes of each output
               else: int64 length, then JSON {"kind", "what", "fix"}
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ....models.errors import ERRORS, SessionLost, SessionTimeout, TransloadError
from ....models.signature import Array, Signature, TensorSpec
from ...checked_session import CheckedSession
from ...memory_return import MemoryReturn
from ...session import Session

_LENGTH = struct.Struct("=q")
_ANSWER, _ERROR = b"\0", b"\1"
_BUFFER_BYTES = 4 << 20  # of the socket, each way: most requests go in one piece
_MOST_PARTS = 64  # of one sendmsg; the kernel takes 1024


class MessageLayout:
    """The tensors of one direction, as they lie in a message."""

    def __init__(self, specs: Sequence[TensorSpec]) -> None:
        self._dtypes = [np.dtype(spec.dtype) for spec in specs]
        self._ranks = [len(spec.shape) for spec in specs]
        self._sizes = struct.Struct(f"={sum(self._ranks)}q")

    def parts(self, arrays: Sequence[Array]) -> list[Any]:
        """Return the buffers of a message."""
        sizes = self._sizes.pack(*(size for array in arrays for size in array.shape))
        return [sizes, *(np.ascontiguousarray(array).data.cast("B") for array in arrays if array.size)]

    def receive(self, connection: socket.socket) -> list[Array]:
        """Return the arrays of a message. Raises EOFError where the other side is gone."""
        sizes = self._sizes.unpack(receive(connection, self._sizes.size))
        arrays, at = [], 0
        for dtype, rank in zip(self._dtypes, self._ranks, strict=True):
            array = np.empty(sizes[at : at + rank], dtype)
            at += rank
            if array.size:
                receive_into(connection, array.data.cast("B"))
            arrays.append(array)
        return arrays


def send(connection: socket.socket, parts: Sequence[Any]) -> None:
    """Send buffers, one after the other."""
    for start in range(0, len(parts), _MOST_PARTS):
        chosen = parts[start : start + _MOST_PARTS]
        sent = connection.sendmsg(chosen)
        for part in chosen:
            size = len(part)
            if sent < size:
                connection.sendall(memoryview(part)[sent:])
            sent = max(sent - size, 0)


def receive(connection: socket.socket, size: int) -> bytes:
    """Return `size` bytes. Raises EOFError where the other side is gone."""
    data = connection.recv(size)
    if len(data) == size:
        return data
    if size and not data:
        raise EOFError
    message = bytearray(size)
    message[: len(data)] = data
    receive_into(connection, memoryview(message)[len(data) :])
    return bytes(message)


def receive_into(connection: socket.socket, view: memoryview) -> None:
    """Fill `view`. Raises EOFError where the other side is gone."""
    while view:
        count = connection.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]


class ChannelSession(CheckedSession):
    """The caller's side. `lost` is set when the other process is gone, or gave no answer in `timeout_s`."""

    def __init__(  # noqa: PLR0917  (what a session is: where, as what, for how long)
        self, path: Path, signature: Signature, device: str, runtime: str, timeout_s: float, lost: threading.Event
    ) -> None:
        super().__init__(runtime, signature, device)
        self._timeout_s, self._lost = timeout_s, lost
        self._inputs, self._answers = MessageLayout(signature.inputs), MessageLayout(signature.outputs)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _set_buffers(self._socket)
        self._socket.connect(os.fspath(path))
        self._socket.settimeout(timeout_s)

    def _answer(self, values: Sequence[Array]) -> Sequence[Array]:
        try:
            send(self._socket, self._inputs.parts(values))
            if receive(self._socket, 1) == _ANSWER:
                return self._answers.receive(self._socket)
            (length,) = _LENGTH.unpack(receive(self._socket, _LENGTH.size))
            record = json.loads(receive(self._socket, length))
        except TimeoutError as error:
            self._give_up()
            raise SessionTimeout(
                f"{self._runtime} gave no answer in {self._timeout_s:g} s", fix="allow more time, or read the log"
            ) from error
        except (OSError, EOFError) as error:
            self._give_up()
            raise SessionLost(f"the process of {self._runtime} ended", fix="open the session again") from error
        raise ERRORS[record["kind"]](record["what"], fix=record["fix"])

    def _give_up(self) -> None:
        """What would come now is the answer to another request."""
        self._socket.close()
        self._lost.set()

    def _release(self) -> None:
        self._socket.close()


class SessionHost:
    """The other side: a session that is asked over the socket at `path`, by one caller after the other."""

    def __init__(self, session: Session, path: Path) -> None:
        self._session = session
        self._memory = MemoryReturn()
        self._inputs, self._answers = MessageLayout(session.signature.inputs), MessageLayout(session.signature.outputs)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _set_buffers(self._listener)
        self._listener.bind(os.fspath(path))
        self._listener.listen(1)
        threading.Thread(target=self._serve, name="channel", daemon=True).start()

    def describe(self) -> dict[str, Any]:
        """Return what the caller has to know: {signature, device}."""
        return {"signature": self._session.signature.to_json(), "device": self._session.device}

    def close(self) -> None:
        """Let go of the session."""
        self._listener.close()
        self._session.close()

    def _serve(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                connection, _ = self._listener.accept()
                with connection, suppress(OSError, EOFError):
                    while True:
                        self._answer_once(connection)

    def _answer_once(self, connection: socket.socket) -> None:
        values = self._inputs.receive(connection)
        feeds = {spec.name: value for spec, value in zip(self._session.signature.inputs, values, strict=True)}
        try:
            answers = self._run(feeds)
        except TransloadError as error:
            text = json.dumps({"kind": _kind(error), "what": error.what, "fix": error.fix}).encode()
            send(connection, [_ERROR, _LENGTH.pack(len(text)), text])
        else:
            send(connection, [_ANSWER, *self._answers.parts(answers)])
            self._memory.add_request(sum(array.nbytes for array in (*values, *answers)))

    def _run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the answers in the signature's order, in its dtypes and ranks. Raises SessionLost where they differ:
        the message has no room for others."""
        answers = self._session.run(feeds)
        for spec in self._session.signature.outputs:
            value = answers[spec.name]
            if value.dtype.name != spec.dtype or value.ndim != len(spec.shape):
                raise SessionLost(
                    f"the answer {spec.name} is {value.dtype.name}{list(value.shape)}, its record says {spec}",
                    fix="convert the model again",
                )
        return [answers[spec.name] for spec in self._session.signature.outputs]


def _kind(error: TransloadError) -> str:
    return next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in ERRORS)


def _set_buffers(end: socket.socket) -> None:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        end.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
