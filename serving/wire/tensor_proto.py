"""Conversion of TensorProto to numpy and back, for strings and every dtype of models.signature.DTYPES.

The rules are those of tensorflow::Tensor::FromProto: `tensor_content` counts if it is there, else the typed values;
fewer values than elements are filled up with the last one, none at all means zeros. More values than elements are an
error here; TensorFlow drops them, in silence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...models.errors import BadRequest
from ...models.signature import Array
from .byte_strings import MOST_STRINGS, string_array
from .tfserving_messages import Message, packed, stock

_FIX = "make the tensor with tf.make_tensor_proto"
_LARGEST_BYTES = 64 << 20  # that a tensor of few values may unfold into


@dataclass(frozen=True, slots=True)
class DtypeWire:
    """How TensorFlow keeps one dtype: its number in types.proto, its name there, and its field of values."""

    number: int
    dtype: np.dtype[np.generic]
    name: str
    field: str


KINDS = [
    DtypeWire(number, np.dtype(dtype), name, field)
    for number, dtype, name, field in (
        (1, "float32", "float", "float_val"),
        (2, "float64", "double", "double_val"),
        (3, "int32", "int32", "int_val"),
        (4, "uint8", "uint8", "int_val"),
        (5, "int16", "int16", "int_val"),
        (6, "int8", "int8", "int_val"),
        (7, "object", "string", "string_val"),
        (9, "int64", "int64", "int64_val"),
        (10, "bool", "bool", "bool_val"),
        (17, "uint16", "uint16", "int_val"),
        (19, "float16", "half", "half_val"),
        (22, "uint32", "uint32", "uint32_val"),
        (23, "uint64", "uint64", "uint64_val"),
    )
]
BY_NUMBER = {kind.number: kind for kind in KINDS}
BY_DTYPE = {kind.dtype.name: kind for kind in KINDS}


def encode(array: Array, tensor: Message) -> None:
    """Write `array` into an empty TensorProto, as tensor_content; strings one by one."""
    tensor.MergeFromString(_head(array.dtype, array.shape))
    if array.dtype.hasobject:
        tensor.string_val.extend(array.ravel().tolist())
    else:
        tensor.tensor_content = array.tobytes()


@lru_cache(maxsize=1024)
def _head(dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> bytes:
    """Return the bytes of a TensorProto without its values. They are the same for most answers of a model."""
    tensor = stock().TensorProto(dtype=BY_DTYPE[dtype.name].number)
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    data: bytes = tensor.SerializeToString()
    return data


def field_head(number: int, size: int) -> bytes:
    """Return what comes before a value of `size` bytes in a message: the number of its field (to 15), and the size."""
    head = bytearray([number << 3 | 2])
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((*head, size))


def output_parts(name: str, array: Array) -> tuple[bytes, bytes]:
    """Return the bytes of an output of a PredictResponse, which is the parts of all and its model_spec, joined."""
    if array.dtype.hasobject:
        reply = stock().PredictResponse()
        encode(array, reply.outputs[name])
        return reply.SerializeToString(), b""
    return _output_head(name, array.dtype, array.shape), array.tobytes()


@lru_cache(maxsize=1024)
def _output_head(name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> bytes:
    """Return the bytes of an output before its values: an entry of a map, with name and tensor as fields 1 and 2."""
    size = math.prod(shape) * dtype.itemsize
    key, head = name.encode(), _head(dtype, shape) + field_head(4, size)
    entry = field_head(1, len(key)) + key + field_head(2, len(head) + size) + head
    return field_head(1, len(entry) + size) + entry


def decode(tensor: Message, name: str) -> Array:
    """Decode a TensorProto of either pool to an array. It may be read-only, and lie in the message's memory.
    Raises BadRequest where shape, dtype and values do not fit each other, with TF Serving's own words first."""
    kind = BY_NUMBER.get(tensor.dtype)
    if kind is None:
        raise _broken(name, f"dtype number {tensor.dtype} is not carried")
    sizes = tensor.tensor_shape
    shape = tuple([dim.size for dim in sizes.dim])
    if sizes.unknown_rank or min(shape, default=0) < 0:
        raise _broken(name, "its shape is not known")
    count = math.prod(shape)
    values = getattr(tensor, kind.field)
    content = tensor.tensor_content or (values if isinstance(values, bytes) else b"")
    if content and not kind.dtype.hasobject:
        if len(content) != count * kind.dtype.itemsize:
            raise _broken(name, f"{len(content)} bytes are not {list(shape)} of {kind.name}")
        return np.frombuffer(content, kind.dtype).reshape(shape)
    if kind.dtype.hasobject:
        return _filled(_strings(values, name), count, name).reshape(shape)
    half = kind.name == "half"  # the bits of each, as an integer
    try:
        array = np.array(values or [], np.uint16 if half else kind.dtype)
    except OverflowError as error:
        raise _broken(name, f"{error}") from error
    return _filled(array.view(kind.dtype), count, name).reshape(shape)


class TooLarge(BadRequest):
    """A request that would take more memory than one may."""


def _strings(values: Sequence[bytes], name: str) -> Array:
    if len(values) > MOST_STRINGS:
        raise TooLarge(f"tensor parsing error: {name}: a tensor has at most {MOST_STRINGS} strings", fix=_FIX)
    return string_array(values, [len(values)])


def _filled(values: Array, count: int, name: str) -> Array:
    if len(values) > count:
        raise _broken(name, f"it has {len(values)} values for {count} elements")
    if len(values) == count:
        return values
    last = values[-1] if len(values) else b"" if values.dtype.hasobject else values.dtype.type(0)
    if count * (values.itemsize + (len(last) if values.dtype.hasobject else 0)) > _LARGEST_BYTES:
        raise TooLarge(
            f"tensor parsing error: {name}: it has {len(values)} values for {count} elements, and is not filled up "
            f"beyond {_LARGEST_BYTES} bytes",
            fix=_FIX,
        )
    return np.concatenate([values, np.full(count - len(values), last, values.dtype)])


def _broken(name: str, why: str) -> BadRequest:
    return BadRequest(f"tensor parsing error: {name}: {why}", fix=_FIX)


def parse(data: bytes, message: str) -> Message:
    """Parse a PredictRequest or PredictResponse (`message`) by the pool that reads it fast and right.

    In the packed pool, values that were sent one by one, or in several chunks, are lost or cut. Each such tensor
    has another number of bytes than its shape asks for, and so has one that leaves values out; then the message
    is read again as published.
    Raises google.protobuf.message.DecodeError."""
    fast = getattr(packed(), message).FromString(data)
    tensors = fast.inputs if message == "PredictRequest" else fast.outputs
    for tensor in tensors.values():
        if not _read_right(tensor):
            return getattr(stock(), message).FromString(data)
    return fast


def _read_right(tensor: Message) -> bool:
    if tensor.dtype not in (1, 2):
        return True
    values: bytes = tensor.float_val if tensor.dtype == 1 else tensor.double_val
    if not values:  # the content is looked at last: each look copies it
        return bool(tensor.tensor_content)
    wanted: int = math.prod([dim.size for dim in tensor.tensor_shape.dim]) * BY_NUMBER[tensor.dtype].dtype.itemsize
    return len(values) == wanted


def decode_all(tensors: Mapping[str, Message]) -> dict[str, Array]:
    """Every tensor of a message by its name."""
    return {name: decode(tensor, name) for name, tensor in tensors.items()}
