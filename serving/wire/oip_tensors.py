"""Tensors of the Open Inference Protocol to numpy and back, for every dtype of models.signature.DTYPES, and BYTES.

Values come as raw bytes (little-endian, row-major) or typed, as a packed list of numbers. Either is read only if it
holds as many values as its shape asks for: the size is checked before memory is spent on the values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...models.errors import BadRequest
from ...models.signature import Array
from .byte_strings import MOST_STRINGS, raw_bytes, read_strings, string_array
from .oip_messages import Message, unread
from .tensor_proto import TooLarge

_FIX = "see https://github.com/kserve/open-inference-protocol"
_MOST_AXES = 64  # numpy's limit
_SHOWN = 60  # characters of a client's text that a sentence repeats
_SMALL_BYTES = 1 << 16  # of a message, that parsing cannot turn into much
_MOST_FIELDS = 1 << 16  # that a larger message may have, and values that may come one by one
_VARINTS = 1 << 20  # bytes of variable-length integers that are decoded at once
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types


@dataclass(frozen=True, slots=True)
class Datatype:
    """A datatype of the protocol, and the field of InferTensorContents that carries its values."""

    name: str
    dtype: np.dtype[np.generic]
    field: int  # 0: it has none, and comes raw only
    stored: np.dtype[np.generic]  # what that field holds


DATATYPES = [
    Datatype(name, np.dtype(dtype), field, np.dtype(stored))
    for name, dtype, field, stored in (
        ("BOOL", "bool", 1, "uint64"),
        ("UINT8", "uint8", 4, "uint32"),
        ("UINT16", "uint16", 4, "uint32"),
        ("UINT32", "uint32", 4, "uint32"),
        ("UINT64", "uint64", 5, "uint64"),
        ("INT8", "int8", 2, "int32"),
        ("INT16", "int16", 2, "int32"),
        ("INT32", "int32", 2, "int32"),
        ("INT64", "int64", 3, "int64"),
        ("FP16", "float16", 0, "float16"),
        ("FP32", "float32", 6, "float32"),
        ("FP64", "float64", 7, "float64"),
        ("BYTES", "object", 8, "object"),
    )
]
BY_NAME = {kind.name: kind for kind in DATATYPES}
BY_DTYPE = {kind.dtype.name: kind for kind in DATATYPES}
NAME_OF = {kind.dtype: kind.name for kind in DATATYPES}  # numpy works a dtype's name out at each look
_FIELDS = {
    1: "bool_contents", 2: "int_contents", 3: "int64_contents", 4: "uint_contents", 5: "uint64_contents",
    6: "fp32_contents", 7: "fp64_contents", 8: "bytes_contents",
}  # fmt: skip


def refuse(text: str) -> BadRequest:
    """Return the error that refuses a request."""
    return BadRequest(text, fix=_FIX)


_UNSERVED = ("sequence_id", "sequence_start", "sequence_end", "priority")  # Triton's extensions


class RequestParameters(NamedTuple):
    """The parameters of a request that are honoured."""

    signature_name: str = ""  # of those of a SavedModel; empty: the one that is served by default
    timeout_s: float | None = None  # for which the client waits


def read_parameters(values: Mapping[str, Any]) -> RequestParameters:
    """Read the parameters of a request, by name; 0, "" and false stand for none. `timeout` is in microseconds, as
    Triton has it. Raises BadRequest of those that would change the answer and are not served; others are left aside."""
    for name in _UNSERVED:
        if values.get(name):
            raise refuse(f"parameter {name}: neither sequences nor priorities are served")
    signature_name, timeout_us = values.get("signature_name") or "", values.get("timeout") or 0
    if not isinstance(signature_name, str):
        raise refuse("the parameter signature_name is a string")
    if type(timeout_us) is not int or not 0 <= timeout_us < 1 << 63:
        raise refuse(f"the parameter timeout is a whole number of microseconds, got {timeout_us!r:.30}")
    return RequestParameters(signature_name, timeout_us / 1e6 if timeout_us else None)


def shown(text: str) -> str:
    """Return a client's text as a sentence repeats it: cut, and on one line."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


@dataclass(frozen=True, slots=True)
class Claim:
    """What a tensor says that it is: its name, datatype and shape, which are checked, and so its size."""

    name: str
    kind: Datatype
    shape: tuple[int, ...]
    count: int

    @property
    def size_bytes(self) -> int:
        """The size of the array."""
        return self.count * self.kind.dtype.itemsize


def read_claim(name: str, datatype: str, shape: Sequence[int], most_bytes: int) -> Claim:
    """Check name, datatype and shape of a tensor that is at most `most_bytes` long.
    Raises BadRequest; TooLarge where it would be longer."""
    kind = BY_NAME.get(datatype)
    if kind is None:
        names = ", ".join(BY_NAME)
        raise refuse(f"tensor {shown(name)}: the datatype {shown(datatype)} is not known; use one of {names}")
    if len(shape) > _MOST_AXES:
        raise refuse(f"tensor {shown(name)}: its shape has {len(shape)} axes, and at most {_MOST_AXES} are read")
    if shape and min(shape) < 0:
        raise refuse(f"tensor {shown(name)}: its shape {list(shape)} has a negative size")
    if math.prod([size or 1 for size in shape]) * kind.dtype.itemsize > most_bytes:  # numpy counts the same way
        raise TooLarge(f"tensor {shown(name)}: {list(shape)} of {datatype} is more than {most_bytes} bytes", fix=_FIX)
    if kind.dtype.hasobject and math.prod(shape) > MOST_STRINGS:
        raise TooLarge(f"tensor {shown(name)}: a tensor has at most {MOST_STRINGS} strings", fix=_FIX)
    return Claim(name, kind, tuple(shape), math.prod(shape))


def decode_raw(claim: Claim, data: bytes | memoryview) -> Array:
    """Read a tensor's raw bytes. The array is read-only, and lies in `data`, but for strings. Raises BadRequest."""
    if claim.kind.dtype.hasobject:
        return _decode_strings(claim, data)
    if len(data) != claim.size_bytes:
        raise refuse(f"tensor {shown(claim.name)}: {claim.size_bytes} bytes are expected, got {len(data)}")
    if claim.kind.name == "BOOL" and (np.frombuffer(data, np.uint8) > 1).any():
        raise refuse(f"tensor {shown(claim.name)}: a byte of BOOL is 0 or 1")
    return np.frombuffer(data, claim.kind.dtype).reshape(claim.shape)


def _decode_strings(claim: Claim, data: bytes | memoryview) -> Array:
    try:
        strings, end = read_strings(data, claim.shape)
        if end < len(data):
            raise ValueError(f"{len(data) - end} bytes are left over")
    except ValueError as error:
        raise refuse(f"tensor {shown(claim.name)}: {error}") from error
    return strings


def decode_typed(claim: Claim, contents: bytes) -> Array:
    """Read the serialized InferTensorContents of a tensor. Raises BadRequest."""
    kind = claim.kind
    if not kind.field:
        raise refuse(f"tensor {shown(claim.name)}: {kind.name} comes in raw_input_contents only")
    chunks = []
    missing = claim.count
    for number, values, _ in message_fields(memoryview(contents)):
        if number != kind.field:
            expected, actual = _FIELDS[kind.field], _FIELDS.get(number, f"field {number}")
            raise refuse(f"tensor {shown(claim.name)}: {kind.name} comes in {expected}, not in {actual}")
        missing -= _count(values, kind)
        if missing < 0:
            break
        chunks.append(_decode_values(claim, values))
    if missing:
        wrong = "more" if missing < 0 else f"{claim.count - missing}"
        raise refuse(f"tensor {shown(claim.name)}: {claim.count} values are expected, got {wrong}")
    array = chunks[0] if len(chunks) == 1 else np.concatenate([np.empty(0, kind.dtype), *chunks])
    return array.reshape(claim.shape)


def _count(values: memoryview, kind: Datatype) -> int:
    """Return how many packed values there are; strings come one by one."""
    if kind.dtype.hasobject:
        return 1
    if kind.field >= BY_NAME["FP32"].field:
        return len(values) // kind.dtype.itemsize
    return int(np.count_nonzero(np.frombuffer(values, np.uint8) < 0x80))


def _decode_values(claim: Claim, values: memoryview) -> Array:
    kind = claim.kind
    if kind.dtype.hasobject:
        return string_array([bytes(values)], (1,))
    if kind.field >= BY_NAME["FP32"].field:
        if len(values) % kind.dtype.itemsize:
            raise refuse(f"tensor {shown(claim.name)}: its values end within one")
        return np.frombuffer(values, kind.dtype)
    raw = np.frombuffer(values, np.uint8)
    if len(raw) and raw[-1] >= 0x80:
        raise refuse(f"tensor {shown(claim.name)}: its values end within one")
    parts = [_narrowed(claim, part) for part in _decode_varints(raw, claim.name)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, kind.dtype), *parts])


def _decode_varints(raw: Array, name: str) -> Iterator[Array]:
    """Yield the integers of `raw` as uint64, some at a time: base 128, the last byte of each is below 0x80."""
    while len(raw):
        part = raw[:_VARINTS]
        ends = np.flatnonzero(part < 0x80)
        if not len(ends):
            raise refuse(f"tensor {shown(name)}: one of its values has more than 10 bytes")
        part, raw = raw[: ends[-1] + 1], raw[ends[-1] + 1 :]
        if len(ends) == len(part):
            yield part.astype(np.uint64)
            continue
        starts = np.concatenate([[0], ends[:-1] + 1])
        lengths = ends - starts + 1
        if lengths.max() > 10:
            raise refuse(f"tensor {shown(name)}: one of its values has more than 10 bytes")
        values = (part[starts] & 0x7F).astype(np.uint64)
        for at in range(1, int(lengths.max())):
            longer = np.flatnonzero(lengths > at)
            values[longer] |= (part[starts[longer] + at] & 0x7F).astype(np.uint64) << np.uint64(7 * at)
        yield values


def _narrowed(claim: Claim, values: Array) -> Array:
    """Convert uint64 to the dtype of a tensor. Raises BadRequest where a value is not within it."""
    kind = claim.kind
    if kind.name == "BOOL":
        return np.not_equal(values, 0)
    stored = values.astype(kind.stored)  # a negative number comes as 2**64 less
    narrow = stored.astype(kind.dtype)
    if kind.stored != kind.dtype and (narrow != stored).any():
        raise refuse(f"tensor {shown(claim.name)}: one of its values is not within {kind.name}")
    return narrow


def parse_request(data: bytes) -> tuple[Message, Sequence[bytes | memoryview]]:
    """Parse a ModelInferRequest, the typed contents of its tensors as bytes; return it and its raw contents, which lie
    in `data` where they are long. Raises BadRequest where it is broken, or holds much beside its tensors."""
    from google.protobuf.message import DecodeError

    raw: Sequence[memoryview] | None = None
    if len(data) > _SMALL_BYTES:
        data, raw = _split_raw(memoryview(data))
    try:
        request = unread().ModelInferRequest.FromString(data)
    except DecodeError as error:
        raise refuse(f"the request is no ModelInferRequest: {error}") from error
    return request, request.raw_input_contents if raw is None else raw


def _split_raw(data: memoryview) -> tuple[bytes, list[memoryview]]:
    """Return a request without its raw_input_contents (field 7), and those. Refuse one that would take many times its
    size: a request of countless empty fields. What counts is all but these and the contents (field 5) of inputs (5)."""
    rest, raw = [], []
    other = start = 0
    for number, value, end in message_fields(data):
        other += 2 + (0 if number == 7 else len(value))
        if number == 5:
            other -= sum(len(contents) for field, contents, _ in message_fields(value) if field == 5)
        if other > _SMALL_BYTES:
            raise TooLarge(f"the request has more than {_SMALL_BYTES} bytes beside its tensors", fix=_FIX)
        if number == 7:
            raw.append(value)
        else:
            rest.append(data[start:end])
        start = end
    return b"".join(rest), raw


def read_tensors(tensors: Sequence[Message], raw: Sequence[bytes | memoryview], most_bytes: int) -> dict[str, Array]:
    """Read the tensors of a request or response by name, together at most `most_bytes` long. Their values are in `raw`,
    or else in their contents. The arrays may be read-only. Raises BadRequest, TooLarge."""
    if raw and len(raw) != len(tensors):
        raise refuse(f"there are {len(tensors)} tensors and {len(raw)} raw contents: send one for each, or none")
    arrays: dict[str, Array] = {}
    for at, tensor in enumerate(tensors):
        claim = read_claim(tensor.name, tensor.datatype, tuple(tensor.shape), most_bytes)
        most_bytes -= claim.size_bytes
        if claim.name in arrays:
            raise refuse(f"tensor {shown(claim.name)} comes twice")
        if raw and tensor.contents:
            raise refuse(f"tensor {shown(claim.name)} comes raw and typed: send one of them")
        arrays[claim.name] = decode_raw(claim, raw[at]) if raw else decode_typed(claim, tensor.contents)
    return arrays


def add_tensor(name: str, array: Array, tensors: Message, raw: Message) -> None:
    """Add an array to the tensors and raw contents of a request or response."""
    tensors.add(name=name, datatype=NAME_OF[array.dtype], shape=array.shape)
    raw.append(raw_bytes(array))


def message_fields(data: memoryview) -> Iterator[tuple[int, memoryview, int]]:
    """Yield number, bytes and end of each field of a message. Raises BadRequest where it is broken."""
    at = 0
    for _ in range(_MOST_FIELDS):
        if at >= len(data):
            return
        tag, at = _varint(data, at)
        wire, start = tag & 7, at
        if wire == _BYTES:
            length, start = _varint(data, at)
            at = start + length
        elif wire == _VARINT:
            _, at = _varint(data, at)
        elif wire in {_FIXED32, _FIXED64}:
            at += 4 if wire == _FIXED32 else 8
        else:
            raise refuse("the message is broken: a field has an unknown wire type")
        if at > len(data):
            raise refuse("the message is broken: it ends within a field")
        yield tag >> 3, data[start:at], at
    raise TooLarge(f"the message has more than {_MOST_FIELDS} fields, or values that are not packed", fix=_FIX)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return a variable-length integer at `at`, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise refuse("the message is broken: it ends within a number")
