"""A text inside a model's own file: ONNX's metadata_props, a SavedModel's assets.extra, TFLite's metadata.

Written without parsing the model: an ONNX file is a sequence of fields in any order, and a TFLite file gets a new head
before its tables (tflite_head.py). So a file of 2 GB costs a copy at most and no memory, and no graph is written anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from ..models.extensible_table import load_entry
from ..models.formats import Format
from .tflite_head import add_metadata

KEY = "transload"  # of the text, in every format
EXTRA_FILE = f"assets.extra/{KEY}.json"  # in a SavedModel: loaders leave this folder alone
_METADATA_PROPS, _BYTES_FIELD = 14, 2  # of onnx.ModelProto; the wire type of texts and messages
_FIXED_BYTES = {1: 8, 5: 4}  # by protobuf's wire type


def embed(path: Path, form: Format, text: str) -> bool:
    """Put `text` into a model's file or folder, in place of a former one; return whether the format holds texts."""
    entry = form.spec.embedder
    return bool(entry) and bool(load_entry(entry)(path, text))


def embed_in_saved_model(path: Path, text: str) -> bool:
    """Write the text beside the graph."""
    file = path / EXTRA_FILE
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return True


def embed_in_onnx(path: Path, text: str) -> bool:
    """Append an entry of metadata_props, without those of the same key."""
    pair = b"".join(_bytes_field(number, part.encode()) for number, part in ((1, KEY), (2, text)))
    with path.open("rb") as file:
        former = [(start, end) for start, end, content in _metadata_fields(file) if content.startswith(_OWN)]
        if former:
            half = path.with_name(f".{path.name}.half")
            with half.open("wb") as out:
                _copy_without(file, out, former)
            half.replace(path)
    with path.open("ab") as out:
        out.write(_bytes_field(_METADATA_PROPS, pair))
    return True


def embed_in_tflite(path: Path, text: str) -> bool:
    """Put the text into the file's metadata; return whether it was put there."""
    return add_metadata(path, text, name=KEY)


def _copy_without(file: IO[bytes], out: IO[bytes], left_out: Sequence[tuple[int, int]]) -> None:
    """Copy a file without these spans of it, which are in order."""
    at = 0
    for start, end in [*left_out, (file.seek(0, 2), 0)]:
        file.seek(at)
        while at < start:
            chunk = file.read(min(1 << 20, start - at))
            out.write(chunk)
            at += len(chunk)
        at = end


def _metadata_fields(file: IO[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Yield start, end and content of each field of metadata_props. The weights are passed over."""
    size = file.seek(0, 2)
    file.seek(0)
    while (start := file.tell()) < size:
        tag = _read_varint(file)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            _read_varint(file)
        elif wire_type in _FIXED_BYTES:
            file.seek(_FIXED_BYTES[wire_type], 1)
        elif wire_type == _BYTES_FIELD:
            length = _read_varint(file)
            if number == _METADATA_PROPS:
                yield start, file.tell() + length, file.read(length)
            else:
                file.seek(length, 1)
        else:
            raise ValueError(f"no ONNX model has a field of the wire type {wire_type}")


def _read_varint(file: IO[bytes]) -> int:
    value, shift = 0, 0
    while True:
        byte = file.read(1)
        if not byte:
            raise ValueError("the ONNX model ends inside a field")
        value |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return value


def varint(value: int) -> bytes:
    """Encode a number as protobuf does: groups of seven bits, the lowest first, the eighth bit set but in the last."""
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _bytes_field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | _BYTES_FIELD) + varint(len(content)) + content


_OWN = _bytes_field(1, KEY.encode())
