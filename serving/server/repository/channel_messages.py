"""The messages between a server and the process of a model: arrays as sizes and bytes, many in one read.

Both sides know the signature, so that a message is nothing but

    head       int64 bytes of the whole message, int64 kind (0 arrays, 1 an error, 2 a document, 3 a refusal), then for
               arrays each size (int64)
    arrays     the bytes of each, of strings as wire/byte_strings.py has them; or JSON
               {"kind", "what", "fix"} of an error, {"code", "what"} of a refusal; or a line
               of JSON, and bytes

Head and arrays begin at multiples of 16 bytes of the message, so that arrays are read in the memory in which they came.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from ....models.errors import ERRORS, SessionLost, TransloadError
from ....models.signature import Array, TensorSpec
from ...wire.byte_strings import raw_bytes, read_strings
from ...wire.tensor_proto import TooLarge
from ..serving_error import Code, ServingError

_HEAD = struct.Struct("=qq")
_ARRAYS, _ERROR, _DOCUMENT, _REFUSAL = range(4)
_ERRORS: Mapping[str, type[TransloadError]] = {**ERRORS, "TooLarge": TooLarge}
# Of a message that is not what it is read as: nothing that the process of a model says is trusted.
_FAULTS = (ValueError, LookupError, TypeError, OverflowError, MemoryError, struct.error)
_ALIGNMENT = 16
_PADDING = [bytes(size) for size in range(_ALIGNMENT)]
_SMALL_BYTES = 1 << 12  # of an array, that is copied: a view of it costs more
_BUFFER_BYTES = 1 << 16  # longer messages get memory of their own, and are read into it
_MOST_BYTES = 1 << 34  # a longer one is a fault of the other side

Message: TypeAlias = bytearray


class MessageLayout:
    """The arrays of one direction, as they lie in a message."""

    def __init__(self, specs: Sequence[TensorSpec]) -> None:
        ends = [*accumulate(len(spec.shape) for spec in specs)]
        self._fields = [  # dtype, and where its sizes are among all
            (np.dtype(spec.dtype), end - len(spec.shape), end) for spec, end in zip(specs, ends, strict=True)
        ]
        self._has_strings = any(dtype.hasobject for dtype, *_ in self._fields)
        count = sum(len(spec.shape) for spec in specs)
        padding = -(_HEAD.size + 8 * count) % _ALIGNMENT
        self._head = struct.Struct(f"=qq{count}q{padding}x")

    def pack(self, arrays: Sequence[Array]) -> list[Any]:
        """Return the buffers of a message, to be sent one after the other."""
        parts: list[Any] = [b""]
        total = self._head.size
        for array in map(_as_bytes, arrays) if self._has_strings else arrays:
            size = array.nbytes
            if size:
                parts.append(array.tobytes() if size <= _SMALL_BYTES else np.ascontiguousarray(array).data.cast("B"))
                if padding := -size % _ALIGNMENT:
                    parts.append(_PADDING[padding])
                    total += padding
                total += size
        parts[0] = self._head.pack(total, _ARRAYS, *(size for array in arrays for size in array.shape))
        return parts

    def unpack(self, message: Message) -> list[Array]:
        """Return the arrays of a message; they lie in its memory.
        Raises the error that it carries, SessionLost where it is not of this layout."""
        try:
            if _HEAD.unpack_from(message)[1] == _ARRAYS:
                return self._read_arrays(message)
            record = json.loads(message[_HEAD.size :])
            sent = _ERRORS[record["kind"]](record["what"], fix=record["fix"])
        except _FAULTS as error:
            raise _not_as_expected() from error
        raise sent

    def _read_arrays(self, message: Message) -> list[Array]:
        sizes = self._head.unpack_from(message)[2:]
        arrays, offset = [], self._head.size
        for dtype, start, end in self._fields:
            if dtype.hasobject:
                strings, end_of_strings = read_strings(message, sizes[start:end], offset)
                arrays.append(strings)
                offset = end_of_strings + -(end_of_strings - offset) % _ALIGNMENT
                continue
            # It raises where the message has fewer bytes than the sizes need.
            array: Array = np.ndarray(sizes[start:end], dtype, message, offset)
            arrays.append(array)
            offset += array.nbytes + -array.nbytes % _ALIGNMENT
        return arrays


def _as_bytes(array: Array) -> Array:
    return np.frombuffer(raw_bytes(array), np.uint8) if array.dtype.hasobject else array


def _not_as_expected() -> SessionLost:
    return SessionLost("a message differs from the signature", fix="open the session again")


def is_document(message: Message) -> bool:
    """Whether `unpack_document` reads a message."""
    return bool(_HEAD.unpack_from(message)[1] >= _DOCUMENT)


def pack_document(document: Any, data: bytes = b"") -> list[Any]:
    """Return the buffers of a message that carries a JSON document, and bytes behind it."""
    return _pack(_DOCUMENT, json.dumps(document).encode() + b"\n", data)


def unpack_document(message: Message) -> tuple[Any, memoryview]:
    """Return a document and the bytes behind it. Raises the ServingError of a refusal, SessionLost where it is none."""
    try:
        end = message.index(b"\n", _HEAD.size) + 1
        document = json.loads(message[_HEAD.size : end])
        if _HEAD.unpack_from(message)[1] == _DOCUMENT:
            return document, memoryview(message)[end:]
        refusal = ServingError(Code(document["code"]), str(document["what"]))
    except _FAULTS as error:
        raise _not_as_expected() from error
    raise refusal


def pack_error(error: TransloadError | ServingError) -> list[Any]:
    """Return the buffers of a message that carries an error."""
    if isinstance(error, ServingError):
        return _pack(_REFUSAL, json.dumps({"code": error.code, "what": error.text}).encode() + b"\n")
    kind = next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in _ERRORS)
    return _pack(_ERROR, json.dumps({"kind": kind, "what": error.what, "fix": error.fix}).encode())


def _pack(kind: int, *parts: bytes) -> list[Any]:
    return [_HEAD.pack(_HEAD.size + sum(map(len, parts)), kind), *parts]


class MessageBuffer:
    """Puts messages together from what a socket gives: receive into `room`, then `add` the count of bytes.
    A long message is received where it stays; of short ones a read brings as many as have come."""

    def __init__(self) -> None:
        self._bytes = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._bytes)
        self._count = 0  # of bytes that have come and belong to no message yet
        self._long: Message | None = None  # that is being received, `_count` bytes of it

    def room(self) -> memoryview:
        """Return the memory to receive into."""
        return (self._view if self._long is None else memoryview(self._long))[self._count :]

    def add(self, count: int) -> list[Message]:
        """Take `count` bytes that were received; return the messages that are whole now.
        Raises SessionLost where they are none."""
        self._count += count
        if self._long is not None:
            if self._count < len(self._long):
                return []
            message, self._long, self._count = self._long, None, 0
            return [message]
        messages: list[Message] = []
        start = 0
        while self._count - start >= _HEAD.size:
            (size,) = struct.unpack_from("=q", self._bytes, start)
            if not _HEAD.size <= size <= _MOST_BYTES:
                raise SessionLost(f"a message of {size} bytes came", fix="open the session again")
            if size > _BUFFER_BYTES:
                self._long = bytearray(size)
                self._count -= start
                self._long[: self._count] = self._view[start : start + self._count]
                return messages
            if start + size > self._count:
                break
            messages.append(self._bytes[start : start + size])
            start += size
        if start:
            self._count -= start
            self._bytes[: self._count] = self._bytes[start : start + self._count]
        return messages
