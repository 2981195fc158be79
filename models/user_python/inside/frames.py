r"""Messages between transload and the interpreter that it is lent to: a line of JSON, and the bytes of tensors.

    {"message": {...}, "tensors": [{"dtype": "float32", "shape": [2, 3]}, ...]}\n<bytes of the first tensor>...

Nothing is pickled. numpy is not needed: a torch whose numpy does not fit still answers. A model of TensorFlow
has arrays of numpy in their place: a tensor below is one or the other.
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


def read_frame(stream: BinaryIO, *, as_numpy: bool = False) -> tuple[dict[str, Any], list[Any]] | None:
    """Read a message and its tensors; None where the other side has closed. Raises BrokenFrame."""
    line = stream.readline(MOST_LINE_BYTES)
    if not line:
        return None
    try:
        document = json.loads(line)
        message, rows = document["message"], document["tensors"]
        tensors = [_read_tensor(stream, row["dtype"], row["shape"], as_numpy=as_numpy) for row in rows]
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
    if hasattr(tensor, "tobytes"):
        return tensor.tobytes()  # type: ignore[no-any-return]  # of numpy
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    count = plain.numel() * plain.element_size()
    return ctypes.string_at(plain.data_ptr(), count) if count else b""


def _read_tensor(stream: BinaryIO, dtype: str, shape: Sequence[int], *, as_numpy: bool) -> Any:
    if not all(type(size) is int and size >= 0 for size in shape):
        raise BrokenFrame("a shape holds something else than sizes")
    count = math.prod(shape) * _SIZES[dtype]
    if count > _MOST_TENSOR_BYTES:
        raise BrokenFrame("a tensor is too large")
    content = bytearray(count)
    view, at = memoryview(content), 0
    while at < count:
        size = stream.readinto(view[at:])  # type: ignore[attr-defined]  # typeshed's BinaryIO lacks it
        if not size:
            raise BrokenFrame("a tensor is cut short")
        at += size
    return _tensor_of(content, dtype, tuple(shape), as_numpy=as_numpy)


def _tensor_of(content: bytearray, dtype: str, shape: tuple[int, ...], *, as_numpy: bool) -> Any:
    if as_numpy:
        import numpy as np

        return np.frombuffer(content, dtype=dtype).reshape(shape)
    import torch

    kind = getattr(torch, dtype)
    return torch.frombuffer(content, dtype=kind).reshape(shape) if content else torch.empty(shape, dtype=kind)
