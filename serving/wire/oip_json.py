"""The Open Inference Protocol over HTTP: JSON, with tensors as numbers in it or as raw bytes behind it.

A tensor with the parameter `binary_data_size` lies behind the JSON document, whose length is then in the header
`Inference-Header-Content-Length`. NaN, Infinity and -Infinity are read and written; JSON itself has none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ...models.errors import BadRequest
from ...models.signature import Array
from .byte_strings import raw_bytes, string_array
from .oip_tensors import NAME_OF, Claim, RequestParameters, decode_raw, read_claim, read_parameters, refuse, shown
from .tfserving_json import dumps_arrays, loads

LENGTH_HEADER = "inference-header-content-length"
# What is read into what, by the letters of numpy.
_KINDS: dict[str, set[type]] = {"f": {int, float}, "i": {int}, "u": {int}, "b": {bool}, "O": {str}}
_NAMES = {dict: "an object", list: "a list", str: "a string", int: "an integer", float: "a number with a fraction",
          bool: "true or false", type(None): "null"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class InferRequest:
    """An inference request."""

    id: str
    feeds: Mapping[str, Array]
    outputs: Mapping[str, bool]  # the requested ones, and whether each is to come as bytes; none: all
    binary: bool  # whether outputs come as bytes if none is requested by name
    parameters: RequestParameters


def _split_body(body: bytes, header_length: str | None) -> tuple[Any, memoryview]:
    """Return the JSON document of a request or response, and the bytes behind it. Raises BadRequest."""
    if header_length is None:
        return loads(body), memoryview(b"")
    is_number = header_length.isascii() and header_length.isdecimal() and len(header_length) < 20
    length = int(header_length) if is_number else -1
    if not 0 <= length <= len(body):
        raise refuse(f"Inference-Header-Content-Length is {shown(header_length)}, and the body has {len(body)} bytes")
    return loads(body[:length]), memoryview(body)[length:]


def read_request(body: bytes, header_length: str | None, most_bytes: int) -> InferRequest:
    """Read an inference request whose tensors are together at most `most_bytes` long. Raises BadRequest, TooLarge."""
    document, binary = _split_body(body, header_length)
    if not isinstance(document, dict):
        raise refuse("the request is no JSON object")
    request_id = document.get("id", "")
    if not isinstance(request_id, str):
        raise refuse("the id of a request is a string")
    feeds = _read_tensors(_rows(document, "inputs"), binary, most_bytes)
    outputs: dict[str, bool] = {}
    of_all = _parameters(document)
    honoured = read_parameters(of_all)
    everything = _flag(of_all, "binary_data_output", default=False)
    for row in _rows(document, "outputs") if "outputs" in document else ():
        name, parameters = _name(row), _parameters(row)
        if "classification" in parameters:
            raise refuse(f"output {shown(name)}: classification is not served")
        if name in outputs:
            raise refuse(f"output {shown(name)} is requested twice")
        outputs[name] = _flag(parameters, "binary_data", default=everything)
    return InferRequest(request_id, feeds, outputs, everything, honoured)


def read_outputs(body: bytes, header_length: str | None, most_bytes: int) -> dict[str, Array]:
    """Read the outputs of a response by name. The arrays may be read-only. Raises BadRequest, TooLarge."""
    document, binary = _split_body(body, header_length)
    if not isinstance(document, dict):
        raise refuse("the response is no JSON object")
    return _read_tensors(_rows(document, "outputs"), binary, most_bytes)


def _read_tensors(rows: Sequence[Any], binary: memoryview, most_bytes: int) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for row in rows:
        claim = _claim(row, most_bytes)
        most_bytes -= claim.size_bytes
        if claim.name in arrays:
            raise refuse(f"tensor {shown(claim.name)} comes twice")
        size = _parameters(row).get("binary_data_size")
        if size is None:
            arrays[claim.name] = _from_numbers(claim, row.get("data"))
            continue
        if row.get("data") is not None:
            raise refuse(f"tensor {shown(claim.name)} has data and binary_data_size: send one of them")
        any_size = claim.kind.dtype.hasobject  # strings tell their lengths
        if type(size) is not int or not (any_size or size == claim.size_bytes) or not 0 <= size <= len(binary):
            wanted = "" if any_size else f"its shape asks for {claim.size_bytes} bytes, and "
            raise refuse(
                f"tensor {shown(claim.name)}: binary_data_size is {size!r:.30}, {wanted}{len(binary)} "
                f"{'bytes ' if any_size else ''}are left of the body"
            )
        arrays[claim.name] = decode_raw(claim, binary[:size])
        binary = binary[size:]
    if binary:
        raise refuse(f"{len(binary)} bytes of the body belong to no tensor")
    return arrays


def _claim(row: Any, most_bytes: int) -> Claim:
    name, datatype, shape = _name(row), row.get("datatype"), row.get("shape")
    if not isinstance(datatype, str):
        raise refuse(f"tensor {shown(name)} has no datatype")
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        raise refuse(f"tensor {shown(name)}: its shape is no list of integers")
    if "shared_memory_region" in _parameters(row):
        raise refuse(f"tensor {shown(name)}: shared memory is not served")
    return read_claim(name, datatype, shape, most_bytes)


def _from_numbers(claim: Claim, data: Any) -> Array:
    """Convert a list to an array. It is flat, or nested as the shape is. Raises BadRequest."""
    if not isinstance(data, list):
        raise refuse(f"tensor {shown(claim.name)} has neither data nor binary_data_size")
    values = _flatten(claim, data)
    wanted = claim.kind.dtype
    wrong = set(map(type, values)) - _KINDS[wanted.kind]
    if wrong:
        kinds = ", ".join(sorted(_NAMES[kind] for kind in wrong))
        raise refuse(f"tensor {shown(claim.name)}: {claim.kind.name} is not read from {kinds}")
    if len(values) != claim.count:
        raise refuse(f"tensor {shown(claim.name)}: {claim.count} values are expected, got {len(values)}")
    if wanted.hasobject:
        return string_array([value.encode() for value in values], claim.shape)
    try:
        raw = np.array(values, np.float64 if wanted.kind == "f" else wanted)
    except OverflowError as error:
        raise _not_within(claim) from error
    with np.errstate(over="ignore"):
        array = raw.astype(wanted, copy=False)
    if wanted.kind == "f" and not (finite := np.isfinite(array)).all() and (finite != np.isfinite(raw)).any():
        raise _not_within(claim)
    return array.reshape(claim.shape)


def _flatten(claim: Claim, data: list[Any]) -> list[Any]:
    if len(claim.shape) < 2 or not data or type(data[0]) is not list:
        return data
    if len(data) != claim.shape[0]:
        raise _uneven(claim)
    for size in claim.shape[1:]:
        if not all(type(value) is list and len(value) == size for value in data):
            raise _uneven(claim)
        data = list(chain.from_iterable(data))
    return data


def _uneven(claim: Claim) -> BadRequest:
    return refuse(f"tensor {shown(claim.name)}: its lists are not nested as its shape {list(claim.shape)} is")


def _not_within(claim: Claim) -> BadRequest:
    return refuse(f"tensor {shown(claim.name)}: one of its values is not within {claim.kind.name}")


def write_tensors(arrays: Mapping[str, Array], binary: Collection[str]) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Return the JSON rows of tensors, and the raw bytes of those that are named in `binary`."""
    rows: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for name, array in arrays.items():
        row: dict[str, Any] = {"name": name, "datatype": NAME_OF[array.dtype], "shape": array.shape}
        if name in binary:
            parts.append(raw_bytes(array))
            row["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            row["data"] = _utf8_texts(name, array) if array.dtype.hasobject else array.reshape(-1)
        rows.append(row)
    return rows, parts


def _utf8_texts(name: str, array: Array) -> list[str]:
    try:
        return [value.decode() for value in array.flat]
    except UnicodeDecodeError as error:
        raise refuse(f"output {shown(name)} is no text in UTF-8: ask for it as bytes, by binary_data") from error


def join_body(document: Mapping[str, Any], arrays: Sequence[Array], parts: Sequence[bytes]) -> tuple[bytes, int | None]:
    """Return a body, and the length of its JSON if bytes follow it. `arrays` are those in `document`."""
    text = dumps_arrays(document, arrays)
    return (b"".join([text, *parts]), len(text)) if parts else (text, None)


def _rows(document: Mapping[str, Any], key: str) -> list[Any]:
    rows = document.get(key)
    if not isinstance(rows, list):
        raise refuse(f"the JSON has no list of {key}")
    return rows


def _name(row: Any) -> str:
    name = row.get("name") if isinstance(row, dict) else None
    if not isinstance(name, str) or not name:
        raise refuse("a tensor is a JSON object with a name")
    return name


def _parameters(row: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = row.get("parameters")
    if parameters is None:  # KServe writes null for what is optional and not there
        return {}
    if not isinstance(parameters, dict):
        raise refuse("parameters are a JSON object")
    return parameters


def _flag(parameters: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = parameters.get(key, default)
    if not isinstance(value, bool):
        raise refuse(f"the parameter {key} is true or false")
    return value
