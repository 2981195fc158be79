r"""Messages between transload and the interpreter that it is lent to: a line of JSON, and the bytes of tensors.

    {"message": {...}, "tensors": [{"dtype": "float32", "shape": [2, 3]}, ...]}\n<bytes of the first tensor>...

Nothing is pickled. numpy is not needed: a torch whose numpy does not fit still answers.
"""

from __future__ import annotations

import ctypes
import json
import math
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

MOST_LINE_BYTES = 64 << 20
_MOST_TENSOR_BYTES = 1 << 40
# Dtypes that are carried, by the name that torch has for them, with the bytes of an element.
_SIZES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
    "bool": 1, "complex64": 8, "complex128": 16,
}  # fmt: skip


class BrokenFrame(ValueError):
    """Bytes that are no message."""


def write_frame(stream: BinaryIO, message: dict[str, Any], tensors: Sequence[torch.Tensor] = ()) -> None:
    """Write a message with its tensors. Raises TypeError for a dtype that is not carried."""
    rows = [{"dtype": dtype_name(tensor), "shape": list(tensor.shape)} for tensor in tensors]
    stream.write(json.dumps({"message": message, "tensors": rows}).encode() + b"\n")
    for tensor in tensors:
        stream.write(_bytes_of(tensor))
    stream.flush()


def read_frame(stream: BinaryIO) -> tuple[dict[str, Any], list[torch.Tensor]] | None:
    """Read a message and its tensors; None where the other side has closed. Raises BrokenFrame."""
    line = stream.readline(MOST_LINE_BYTES)
    if not line:
        return None
    try:
        document = json.loads(line)
        message, rows = document["message"], document["tensors"]
        tensors = [_read_tensor(stream, row["dtype"], row["shape"]) for row in rows]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise BrokenFrame(str(error)[:200]) from error
    if not isinstance(message, dict):
        raise BrokenFrame("a message is no object")
    return message, tensors


def dtype_name(tensor: torch.Tensor) -> str:
    """Return the name of a tensor's dtype. Raises TypeError for one that is not carried."""
    name = str(tensor.dtype).replace("torch.", "")
    if name not in _SIZES:
        raise TypeError(f"tensors of {tensor.dtype} are not carried")
    return name


def _bytes_of(tensor: torch.Tensor) -> bytes:
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    count = plain.numel() * plain.element_size()
    return ctypes.string_at(plain.data_ptr(), count) if count else b""


def _read_tensor(stream: BinaryIO, dtype: str, shape: Sequence[int]) -> torch.Tensor:
    import torch

    if not all(type(size) is int and size >= 0 for size in shape):
        raise BrokenFrame("a shape holds something else than sizes")
    count = math.prod(shape) * _SIZES[dtype]
    if count > _MOST_TENSOR_BYTES:
        raise BrokenFrame("a tensor is too large")
    kind = getattr(torch, dtype)
    if not count:
        return torch.empty(tuple(shape), dtype=kind)
    content = bytearray(count)
    view, at = memoryview(content), 0
    while at < count:
        size = stream.readinto(view[at:])  # type: ignore[attr-defined]  # typeshed's BinaryIO lacks it
        if not size:
            raise BrokenFrame("a tensor is cut short")
        at += size
    return torch.frombuffer(content, dtype=kind).reshape(tuple(shape))
