"""TF Serving's JSON: tensors as nested lists, in rows (`instances`) or in columns (`inputs`).

What numpy reads at once is read so; what it does not is walked as TF Serving walks it, to refuse it in the same words
(tensorflow_serving/util/json_tensor.cc). NaN, Infinity and -Infinity are allowed in both directions, as there;
JSON itself has none of them. Two things are wider than there: float16 and uint16 are read, and an empty list stands for
a batch of none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import orjson

from ...models.errors import BadRequest
from ...models.signature import Array, TensorSpec, shape_text
from .tensor_proto import BY_DTYPE, TooLarge

_FIX = "see https://www.tensorflow.org/tfx/serving/api_rest"
_MOST_AXES = 64  # numpy's limit
_PIECE_BYTES = 1 << 16  # of arrays, that are written at once
_MOST_MARKS = 1 << 22  # `[`, `{` and `"` of a document: empty objects take 30 times their bytes
_MARKS = b'[{"'
_MOST_WIDE_BYTES = 8 << 20  # of a document with NaN or Infinity, which is parsed three times, and slowly
_TOKENS = re.compile(rb'"(?:\\.|[^"\\])*"|-?\b(?:Inf(?:inity)?|NaN)\b')
_KINDS = {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}  # what may be read into what, by numpy's letters
_LEAST_OVERFLOW = {2: 6e4, 4: 3e38, 8: math.inf}  # by the bytes of a float: values below stay finite in it
_EXACT = {"float32": (1 << 24) - 1, "float64": (1 << 53) - 1, "float16": (1 << 11) - 1}  # integers without a gap


def refuse(text: str) -> BadRequest:
    """Return an error in TF Serving's words."""
    return BadRequest(text, fix=_FIX)


def is_base64(value: Any) -> bool:
    """Whether a value is TF Serving's form of binary data: an object with the key "b64" alone, and a string."""
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def loads(body: bytes) -> Any:
    """Parse JSON, with NaN, Inf, Infinity and their negatives as numbers.
    Raises BadRequest; TooLarge where the document would take many times its bytes."""
    if not body:
        raise refuse("JSON Parse error: The document is empty")
    if len(body) > _MOST_MARKS and len(body) - len(body.translate(None, _MARKS)) > _MOST_MARKS:
        raise TooLarge(f"a JSON document has at most {_MOST_MARKS} lists, objects and quotation marks", fix=_FIX)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        try:
            if len(body) > _MOST_WIDE_BYTES:
                raise ValueError
            # Python's parser takes more than these words: half of a surrogate pair, integers beyond all floats.
            orjson.loads(_TOKENS.sub(lambda m: m[0] if m[0].startswith(b'"') else b"null", body))
            return json.loads(_TOKENS.sub(lambda m: m[0] + b"inity" if m[0].endswith(b"Inf") else m[0], body))
        except (ValueError, RecursionError):
            raise refuse(f"JSON Parse error: {error.msg} at offset: {error.pos}") from error


def dumps(document: Any, arrays: Sequence[Array]) -> bytes:
    """JSON of a document that holds `arrays`; numbers that are not finite are written as NaN and Infinity."""
    data = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY, default=_listed)
    if b"null" not in data:  # which orjson writes for what is not finite; a look at the text costs less than at arrays
        return data
    if all(array.dtype.kind != "f" or np.isfinite(array).all() for array in arrays):
        return data
    return json.dumps(document, default=_listed, separators=(",", ":")).encode()


def dumps_arrays(document: Any, arrays: Sequence[Array]) -> bytes:
    """`dumps` of a document that holds whole arrays; long ones are written in pieces, see `write_rows`."""
    if sum([array.nbytes for array in arrays]) <= _PIECE_BYTES:
        return dumps(document, arrays)
    return orjson.dumps(document, default=lambda array: orjson.Fragment(_write_array(array)))


def _write_array(array: Array) -> bytes:
    if not array.ndim or array.nbytes <= _PIECE_BYTES:
        return dumps(array, [array])
    if array[0].nbytes > _PIECE_BYTES:
        return b"[" + b",".join([_write_array(row) for row in array]) + b"]"
    return write_rows([array], lambda part: part[0])


def write_rows(arrays: Sequence[Array], rows_of: Callable[[Sequence[Array]], Any]) -> bytes:
    """Return a JSON list of a row for each row of arrays of equal length. `rows_of` makes rows of a part of the arrays.
    A piece takes a millisecond; other threads get Python's lock in between."""
    rows = max(_PIECE_BYTES // max(sum([array[:1].nbytes for array in arrays]), 16), 1)
    pieces = [b"["]
    for start in range(0, len(arrays[0]), rows):
        part = [array[start : start + rows] for array in arrays]
        pieces += (dumps(rows_of(part), part)[1:-1], b",")
    pieces[max(len(pieces) - 1, 1) :] = [b"]"]
    return b"".join(pieces)


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()  # not contiguous, or without dimensions
    raise TypeError(type(value).__name__)


def to_array(value: Any, spec: TensorSpec, samples: int | None = None) -> Array:
    """Convert a JSON value to the array of an input or output. `samples` is the number of rows, where it came in rows.
    Raises BadRequest in TF Serving's words."""
    if len(_shape(value)) > _MOST_AXES:
        raise refuse(f"JSON Value: lists lie within each other more than {_MOST_AXES} deep")
    array = _at_once(value, spec.dtype)
    if array is None:
        array = _walked(value, spec.dtype, samples)
    inner = spec.shape[1:]
    if samples is None and array.shape == (0,) and spec.shape and all(isinstance(axis, int) for axis in inner):
        return array.reshape(0, *inner)  # an empty list has lost its inner sizes
    return array


def _at_once(value: Any, dtype: str) -> Array | None:
    """Convert the value at once, or return None if something about it needs a closer look.
    Text does: numpy would give every element the room of the longest, 22 GB for a body of 360 KB."""
    if _holds_text(value):
        return None
    try:
        raw = np.array(value)
    except (ValueError, OverflowError):
        return None
    wanted = np.dtype(dtype)
    if raw.size == 0:
        return raw.astype(wanted)
    if raw.dtype.kind not in _KINDS[wanted.kind]:
        return None
    # Finite, and so after it is rounded: one pass tells what takes four of _kept and a context for its warnings.
    floats = raw.dtype.kind == "f" == wanted.kind
    if floats and np.maximum.reduce(np.abs(raw), axis=None) < _LEAST_OVERFLOW[wanted.itemsize]:
        return raw.astype(wanted, copy=False)
    with np.errstate(over="ignore"):
        converted = raw.astype(wanted, copy=False)
    return converted if _kept(raw, converted) else None


def _holds_text(value: Any) -> bool:
    if not isinstance(value, list):
        return isinstance(value, str)
    kinds = set(map(type, value))
    return str in kinds or (list in kinds and any(_holds_text(item) for item in value if type(item) is list))


def _kept(raw: Array, converted: Array) -> bool:
    """Whether the conversion lost nothing that TF Serving would not lose: a float may be rounded, no more."""
    if converted.dtype.kind == "f":
        if raw.dtype.kind in "iu":
            return bool((np.abs(raw.astype(np.float64)) <= _EXACT[converted.dtype.name]).all())
        return bool((np.isfinite(raw) == np.isfinite(converted)).all())
    return bool((raw == converted).all())


def _walked(value: Any, dtype: str, samples: int | None) -> Array:
    """Read a value element by element. It raises where _at_once found nothing to say; else it is right, and slow."""
    flat: list[Any] = []
    if samples is None:
        shape = _shape(value)
        _fill(value, 0, shape, dtype, flat)
        return np.array(flat, dtype).reshape(shape)
    first = _shape(value[0])
    for at, item in enumerate(value):
        try:
            shape = _shape(item)
            _fill(item, 0, shape, dtype, flat)
        except BadRequest as error:
            raise _in_row(at, error.what) from error
        if math.prod(shape) != math.prod(first):
            raise _in_row(at, f"Expecting tensor size: {math.prod(first)} but got: {math.prod(shape)}")
        if shape != first:
            raise _in_row(at, f"Expecting shape {shape_text(first)} but got: {shape_text(shape)}")
    return np.array(flat, dtype).reshape(len(value), *first)


def _in_row(at: int, why: str) -> BadRequest:
    return refuse(f"Failed to process element: {at} of 'instances' list. Error: INVALID_ARGUMENT: {why}")


def _shape(value: Any) -> list[int]:
    """As TF Serving takes it: of the first element at each level."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def _fill(value: Any, level: int, shape: Sequence[int], dtype: str, flat: list[Any]) -> None:
    if not isinstance(value, list):
        if level != len(shape):
            raise refuse(
                f"JSON Value: {json.dumps(value)} found at incorrect level: {level + 1} in the JSON DOM. "
                f"Expected at level: {len(shape)}"
            )
        flat.append(_leaf(value, dtype))
        return
    if level >= len(shape):
        raise refuse(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise refuse(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: {shape[level]}"
        )
    for item in value:
        _fill(item, level + 1, shape, dtype, flat)


def _leaf(value: Any, dtype: str) -> Any:
    if not _FITS[np.dtype(dtype).kind](value, dtype):
        kind = str(value) if isinstance(value, bool) else _NAMES[type(value)]
        raise refuse(f"JSON Value: {json.dumps(value)} Type: {kind} is not of expected type: {BY_DTYPE[dtype].name}")
    if dtype not in _EXACT or not math.isfinite(value):
        return value
    if abs(value) > (_EXACT[dtype] if isinstance(value, int) else float(np.finfo(dtype).max)):
        raise refuse(
            f"Cannot convert JSON value: {json.dumps(value)} to {BY_DTYPE[dtype].name} without loss of precision."
        )
    return value


def _is_integer(value: Any, dtype: str) -> bool:
    limits = np.iinfo(dtype)
    return isinstance(value, int) and not isinstance(value, bool) and limits.min <= value <= limits.max


_FITS: dict[str, Callable[[Any, str], bool]] = {
    "f": lambda value, _: isinstance(value, int | float) and not isinstance(value, bool),
    "i": _is_integer,
    "u": _is_integer,
    "b": lambda value, _: isinstance(value, bool),
}
_NAMES = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number", type(None): "Null"}
