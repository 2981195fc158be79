"""Arrays of strings as bytes, and as text in JSON.

An array of strings has the dtype object, and each of its elements is Python's `bytes`: TensorFlow's strings have no
encoding. As raw bytes each lies behind its length (uint32, little-endian), as the Open Inference Protocol has BYTES.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...models.errors import BadRequest
from ...models.signature import Array

MOST_STRINGS = 1 << 22  # of one tensor: an empty string takes 8 bytes of an array, and one byte or four of a request
_LENGTH = struct.Struct("<I")
_BYTES_SUFFIX = "_bytes"  # of the name of an output that TF Serving writes in base64


def string_array(values: Sequence[bytes], shape: Sequence[int]) -> Array:
    """Return an array of strings. Raises ValueError where their count does not fit the shape."""
    array = np.empty(len(values), object)
    array[:] = values
    return array.reshape(shape)


def size_of(array: Array) -> int:
    """Return about how many bytes an array's values are; its strings may be those of `with_texts`."""
    if not array.dtype.hasobject:
        return array.nbytes
    return sum([len(value["b64"] if isinstance(value, dict) else value) for value in array.flat]) + array.nbytes


def raw_bytes(array: Array) -> bytes:
    """Return the raw bytes of an array of any dtype."""
    if not array.dtype.hasobject:
        return array.tobytes()
    return b"".join([part for value in array.flat for part in (_LENGTH.pack(len(value)), value)])


def read_strings(data: bytes | bytearray | memoryview, shape: Sequence[int], start: int = 0) -> tuple[Array, int]:
    """Return the strings that lie in `data` from `start` on, and where they end. Raises ValueError where it is none."""
    count, view, values = math.prod(shape), memoryview(data), []
    if min(shape, default=0) < 0 or count * _LENGTH.size > len(view) - start:
        raise ValueError("there are fewer bytes than the lengths of its strings take")
    for _ in range(count):
        first = start + _LENGTH.size
        if first > len(view):
            break
        start = first + _LENGTH.unpack_from(view, first - _LENGTH.size)[0]
        values.append(bytes(view[first:start]))
    if start > len(view) or len(values) < count:
        raise ValueError("its bytes end within a string")
    return string_array(values, shape), start


def json_string(value: Any) -> bytes | None:
    """Return the bytes that a string in JSON stands for, or {"b64": TEXT}; None where it is neither.
    Raises BadRequest in TF Serving's words where the text is no base64."""
    if isinstance(value, str):
        return value.encode()
    if not is_base64(value):
        return None
    text = value["b64"]
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)  # the padding may be left out
    except ValueError as error:
        raise BadRequest("Unable to base64 decode", fix="encode the bytes with base64.b64encode") from error


def is_base64(value: Any) -> bool:
    """Whether a value is TF Serving's form of binary data: an object with the key "b64" alone, and a string."""
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def with_texts(arrays: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return arrays as TF Serving's JSON has them: strings as text, or as {"b64": TEXT} where the array's name ends in
    `_bytes`. So is a string that is no UTF-8, which there makes a document that is no JSON."""
    if not any(array.dtype.hasobject for array in arrays.values()):
        return arrays
    return {name: _texts(name, array) if array.dtype.hasobject else array for name, array in arrays.items()}


def _texts(name: str, array: Array) -> Array:
    texts = np.empty(array.shape, object)
    for at, value in enumerate(array.flat):
        texts.flat[at] = _text(value, as_bytes=name.endswith(_BYTES_SUFFIX))
    return texts


def _text(value: bytes, *, as_bytes: bool) -> str | dict[str, str]:
    try:
        if not as_bytes:
            return value.decode()
    except UnicodeDecodeError:
        pass
    return {"b64": base64.b64encode(value).decode()}
