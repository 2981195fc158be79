"""An entry of a TFLite file's metadata, put in by a new head before the file's tables.

Offsets in a flatbuffer lead forward from where they stand. So the tables stay as they are, behind a head that holds the
root table again, with one more buffer and one more entry of the metadata. Nothing is unpacked.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# The fields of tflite.Model, of a Buffer and of a Metadata (schema.fbs), by their place in the table.
_VERSION, _BUFFERS, _METADATA = 0, 4, 6
_BUFFER_OFFSET, _NAME = 1, 0
_KNOWN_FIELDS = 10  # of schemas up to 2026: all but the version are offsets
_ALIGNMENT = 64  # of the head's size: what lies behind it keeps its alignment, which is 16 for weights


def add_metadata(path: Path, text: str, *, name: str) -> bool:
    """Put `text` into a file as the metadata `name`, in place of a former one; return whether it was put there.

    A file that counts from its beginning (weights behind its tables, above 2 GB), or of a later schema, stays as it is.
    """
    flat = np.memmap(path, mode="r").data
    head = _new_head(flat, text.encode(), name.encode())
    del flat
    if head is None:
        return False
    half = path.with_name(f".{path.name}.half")
    with path.open("rb") as file, half.open("wb") as out:
        out.write(head)
        shutil.copyfileobj(file, out, 1 << 20)
    half.replace(path)
    return True


def _new_head(flat: memoryview, content: bytes, name: bytes) -> bytes | None:
    """Return what is put before the old bytes of a file; None where that would break it."""
    fields = _fields(flat, _target(flat, 0))
    buffers, entries = (_elements(flat, fields.get(field)) for field in (_BUFFERS, _METADATA))
    if max(fields) >= _KNOWN_FIELDS or not buffers or any(_counts_from_start(flat, table) for table in buffers):
        return None
    entries = [table for table in entries if _text(flat, _fields(flat, table).get(_NAME)) != name]
    head = _Head()
    root = head.add_table(sorted({*fields, _METADATA}))
    lists = {_BUFFERS: head.add_vector(len(buffers) + 1), _METADATA: head.add_vector(len(entries) + 1)}
    entry, buffer = head.add_table([0, 1]), head.add_table([0])
    name_at, data_at = head.add_text(name), head.add_data(content)
    size = head.fill(_ALIGNMENT)
    head.link(0, root.start)
    for field, place in root.places.items():
        if field == _VERSION:
            head.put(place, _number(flat, fields[field]))
        else:
            head.link(place, lists[field] if field in lists else size + _target(flat, fields[field]))
    for field, olds, new in ((_BUFFERS, buffers, buffer.start), (_METADATA, entries, entry.start)):
        for at, table in enumerate([*(size + old for old in olds), new]):
            head.link(lists[field] + 4 + 4 * at, table)
    head.link(entry.places[0], name_at)
    head.put(entry.places[1], len(buffers))
    head.link(buffer.places[0], data_at)
    return bytes(head.content)


def _number(flat: memoryview, place: int) -> int:
    return int(struct.unpack_from("<I", flat, place)[0])


def _target(flat: memoryview, place: int) -> int:
    """Return where the offset at `place` leads."""
    return place + _number(flat, place)


def _fields(flat: memoryview, table: int) -> dict[int, int]:
    """Return the positions of a table's fields by their place in it."""
    vtable = table - struct.unpack_from("<i", flat, table)[0]
    count = (struct.unpack_from("<H", flat, vtable)[0] - 4) // 2
    offsets = struct.unpack_from(f"<{count}H", flat, vtable + 4)
    return {field: table + offset for field, offset in enumerate(offsets) if offset}


def _elements(flat: memoryview, field: int | None) -> list[int]:
    """Return the positions of the tables in the vector that a field leads to; none for a field that is absent."""
    if field is None:
        return []
    vector = _target(flat, field)
    return [_target(flat, place) for place in range(vector + 4, vector + 4 + 4 * _number(flat, vector), 4)]


def _text(flat: memoryview, field: int | None) -> bytes:
    if field is None:
        return b""
    start = _target(flat, field)
    return bytes(flat[start + 4 : start + 4 + _number(flat, start)])


def _counts_from_start(flat: memoryview, buffer: int) -> bool:
    """Return whether a buffer says where its data lie in the file (schema.fbs: an offset above 1)."""
    place = _fields(flat, buffer).get(_BUFFER_OFFSET)
    return place is not None and int(struct.unpack_from("<Q", flat, place)[0]) > 1


@dataclass(frozen=True)
class _HeadTable:
    """A table in a head: where it starts, and where its fields lie."""

    start: int
    places: Mapping[int, int]


class _Head:
    """The first bytes of a flatbuffer, from its root offset and identifier on. What is added is zero at first."""

    def __init__(self) -> None:
        self.content = bytearray(b"\0\0\0\0TFL3")

    def add_table(self, fields: list[int]) -> _HeadTable:
        """Add a table with these fields, in order, of 4 bytes each."""
        self.fill(4)
        vtable, count = len(self.content), fields[-1] + 1
        offsets = {field: 4 + 4 * at for at, field in enumerate(fields)}
        rows = [offsets.get(field, 0) for field in range(count)]
        self.content += struct.pack(f"<HH{count}H", 4 + 2 * count, 4 + 4 * len(fields), *rows)
        start = self.fill(4)
        self.content += struct.pack("<i", start - vtable) + bytes(4 * len(fields))
        return _HeadTable(start, {field: start + offset for field, offset in offsets.items()})

    def add_vector(self, count: int) -> int:
        """Add a vector of offsets; return its position."""
        start = self.fill(4)
        self.content += struct.pack("<I", count) + bytes(4 * count)
        return start

    def add_text(self, content: bytes) -> int:
        """Add a text; return its position."""
        start = self.fill(4)
        self.content += struct.pack("<I", len(content)) + content + b"\0"
        return start

    def add_data(self, content: bytes) -> int:
        """Add the bytes of a buffer, which begin at a multiple of 16; return the position of their vector."""
        start = self.fill(16) + 12
        self.content += bytes(12) + struct.pack("<I", len(content)) + content
        return start

    def fill(self, alignment: int) -> int:
        """Fill up with zeros to a multiple of `alignment`; return the size."""
        self.content += bytes(-len(self.content) % alignment)
        return len(self.content)

    def put(self, place: int, value: int) -> None:
        """Write a number."""
        struct.pack_into("<I", self.content, place, value)

    def link(self, place: int, target: int) -> None:
        """Write the offset that leads from `place` to `target`."""
        self.put(place, target - place)
