"""Zip archives of unknown origin, which all readers must read alike.

Readers of zips differ: Python's takes names and sizes from the directory at the end, PyTorch's (miniz) ignores case,
others go by the header before each file. An archive made for these differences shows a check one file and the reader
another. `check_safe_zip` accepts what the writers of models write, and nothing that could be read in two ways: one
directory at the very end, the files one after another without gaps, and both headers of a file saying the same.
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

MAX_FILES = 200_000  # of an archive

# APPNOTE.TXT of PKWARE, sections 4.3.7 to 4.3.16.
_LOCAL, _LOCAL_SIGNATURE = struct.Struct("<4sHHHHHIIIHH"), b"PK\x03\x04"
_CENTRAL, _CENTRAL_SIGNATURE = struct.Struct("<4sHHHHHHIIIHHHHHII"), b"PK\x01\x02"
_END, _END_SIGNATURE = struct.Struct("<4sHHHHIIH"), b"PK\x05\x06"
_END64, _END64_SIGNATURE = struct.Struct("<4sQHHIIQQQQ"), b"PK\x06\x06"
_LOCATOR, _LOCATOR_SIGNATURE = struct.Struct("<4sIQI"), b"PK\x06\x07"
_DESCRIPTORS, _DESCRIPTOR_SIGNATURE = (struct.Struct("<4sIII"), struct.Struct("<4sIQQ")), b"PK\x07\x08"
_STREAMED, _UTF8, _LEVEL = 1 << 3, 1 << 11, 0b110  # flags: sizes come after the content; coding of names; effort
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_IN_64_BITS, _IN_64_BITS_16 = 0xFFFFFFFF, 0xFFFF  # in place of a number that another field holds
_ZIP64 = 1  # identifier of the extra field for these numbers
# Extra fields from which no reader takes a name or a size: the padding of PyTorch and of zipalign, times, owners.
_INERT = frozenset((0x4246, 0xD935, 0x5455, 0x7855, 0x7875, 0x000A))
_PLAIN_NAME = re.compile(r"[^\x00-\x1f\x7f\\]+")


@dataclass(frozen=True)
class _FileHeader:
    """What one of the two headers of a file says."""

    name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    unpacked: int
    offset: int
    end: int  # where the header itself ends

    @property
    def what_agrees(self) -> tuple[object, ...]:
        return self.name, self.flags, self.method

    @property
    def sums(self) -> tuple[int, int, int]:
        return self.crc, self.packed, self.unpacked


def is_zip(path: Path) -> bool:
    """Whether a file is a zip archive, whole or broken in its directory."""
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:  # it raises where the directory of 64 bits is of several disks
        return True


def check_safe_zip(path: Path, *, ignores_case: bool = False, of_paths: bool = True) -> None:
    """Raise zipfile.BadZipFile where an archive could be read in two ways.

    `ignores_case`: its reader takes two names for one that differ in case only. `of_paths`: its names are paths; those
    of arrays may be any text.
    """
    with path.open("rb") as file:
        start, size, count = _read_end(file)
        file.seek(start)
        entries = sorted(_read_directory(file.read(size), count), key=lambda entry: entry.offset)
        ends = [*(entry.offset for entry in entries), start]
        if ends[0]:
            raise zipfile.BadZipFile("something lies before its files")
        for entry, end in zip(entries, ends[1:], strict=True):
            _check_file(file, entry, end)
    _check_names(entries, ignores_case=ignores_case, of_paths=of_paths)


def _read_end(file: IO[bytes]) -> tuple[int, int, int]:
    """Return where the directory begins, its bytes, and how many files it lists."""
    end = file.seek(0, os.SEEK_END) - _END.size
    record = _read_record(file, end, _END)
    if record is None or record[0] != _END_SIGNATURE:
        raise zipfile.BadZipFile("File is not a zip file")
    _, disk, first_disk, here, count, size, start, comment = record
    if disk or first_disk or here != count or comment:
        raise zipfile.BadZipFile("it is a part of several, or has a comment")
    locator = _read_record(file, end - _LOCATOR.size, _LOCATOR)
    if locator is not None and locator[0] == _LOCATOR_SIGNATURE:
        end -= _LOCATOR.size + _END64.size
        wide = _read_record(file, end, _END64)
        if wide is None or locator[1:3] != (0, end) or wide[:2] != (_END64_SIGNATURE, _END64.size - 12):
            raise zipfile.BadZipFile("it has two directories, or none")
        if any(wide[4:6]) or wide[6] != wide[7] or not _same_numbers((count, size, start), wide[7:10]):
            raise zipfile.BadZipFile("it has two directories")
        count, size, start = wide[7:10]
    if start + size != end:
        raise zipfile.BadZipFile("its directory is not at its end")
    if count > MAX_FILES:
        raise zipfile.BadZipFile(f"it holds {count} files, and {MAX_FILES} are the most")
    return start, size, count


def _same_numbers(narrow: Sequence[int], wide: Sequence[int]) -> bool:
    """Return whether the record of 32 bits says what the one of 64 bits says, or points to it."""
    pointers = (_IN_64_BITS_16, _IN_64_BITS, _IN_64_BITS)
    return all(a in (b, pointer) for a, b, pointer in zip(narrow, wide, pointers, strict=True))


def _read_record(file: IO[bytes], offset: int, layout: struct.Struct) -> tuple[Any, ...] | None:
    """Read a record; None where the file ends or begins inside of it."""
    if offset < 0:
        return None
    file.seek(offset)
    content = file.read(layout.size)
    return layout.unpack(content) if len(content) == layout.size else None


def _read_directory(directory: bytes, count: int) -> Iterator[_FileHeader]:
    """Yield what the directory says of each file. Raises BadZipFile where it does not list `count` files."""
    position = 0
    for _ in range(count):
        fields = position + _CENTRAL.size
        if fields > len(directory) or not directory.startswith(_CENTRAL_SIGNATURE, position):
            raise zipfile.BadZipFile("its directory is cut short")
        (_, _, _, flags, method, _, _, crc, packed, unpacked, name_size, extra_size, comment, disk, _, _, offset) = (
            _CENTRAL.unpack_from(directory, position)
        )
        position = fields + name_size + extra_size
        name, extra = directory[fields : fields + name_size], directory[fields + name_size : position]
        if comment or disk or position > len(directory):
            raise zipfile.BadZipFile("its directory has comments, or is cut short")
        unpacked, packed, offset = _resolve(extra, (unpacked, packed, offset))
        yield _FileHeader(name, flags, method, crc, packed, unpacked, offset, position)
    if position != len(directory):
        raise zipfile.BadZipFile("its directory lists more files than it says")


def _resolve(extra: bytes, numbers: Sequence[int]) -> list[int]:
    """Return the numbers of a header, from its extra field of 64 bits where they point to it."""
    wide, position = b"", 0
    while position < len(extra):
        if len(extra) - position < 4:
            raise zipfile.BadZipFile("an extra field is cut short")
        identifier, size = struct.unpack_from("<HH", extra, position)
        content = extra[position + 4 : position + 4 + size]
        position += 4 + size
        if len(content) != size or (identifier == _ZIP64 and wide) or identifier not in (_ZIP64, *_INERT):
            raise zipfile.BadZipFile(f"the extra field {identifier:#06x} is not known, or not whole")
        wide = content if identifier == _ZIP64 else wide
    pointing = [number == _IN_64_BITS for number in numbers]
    if len(wide) != 8 * sum(pointing):
        raise zipfile.BadZipFile("its sizes of 64 bits are not whole")
    values = (value for (value,) in struct.iter_unpack("<Q", wide))
    return [next(values) if points else number for number, points in zip(numbers, pointing, strict=True)]


def _check_file(file: IO[bytes], entry: _FileHeader, end: int) -> None:
    """Check that a file's own header agrees with the directory, and that the file ends where the next begins."""
    record = _read_record(file, entry.offset, _LOCAL)
    if record is None or record[0] != _LOCAL_SIGNATURE:
        raise zipfile.BadZipFile("a file is not where its directory says")
    _, _, flags, method, _, _, crc, packed, unpacked, name_size, extra_size = record
    name = file.read(name_size)
    unpacked, packed = _resolve(file.read(extra_size), (unpacked, packed))
    local = _FileHeader(name, flags, method, crc, packed, unpacked, entry.offset, file.tell())
    streamed = bool(flags & _STREAMED)
    if local.what_agrees != entry.what_agrees or (local.sums != entry.sums and not (streamed and not any(local.sums))):
        raise zipfile.BadZipFile("a file's header says other than its directory")
    if method not in _METHODS or flags & ~(_STREAMED | _UTF8 | _LEVEL):
        raise zipfile.BadZipFile("a file is encrypted, or packed by a method that models are not packed by")
    if method == zipfile.ZIP_STORED and entry.packed != entry.unpacked:
        raise zipfile.BadZipFile("a file that is not packed has two sizes")
    rest = end - (local.end + entry.packed)
    if not (_has_descriptor(file, entry, local.end, rest) if streamed else rest == 0):
        raise zipfile.BadZipFile("its files overlap, or something lies between them")


def _has_descriptor(file: IO[bytes], entry: _FileHeader, start: int, size: int) -> bool:
    """Return whether `size` bytes after a file's content repeat its checksum and sizes, and nothing else."""
    for layout in _DESCRIPTORS:
        if size == layout.size:
            return _read_record(file, start + entry.packed, layout) == (_DESCRIPTOR_SIGNATURE, *entry.sums)
    return False


def _check_names(entries: Sequence[_FileHeader], *, ignores_case: bool, of_paths: bool) -> None:
    """Raise BadZipFile where two files share a name, or a name is none of a file inside of a folder."""
    seen: set[str] = set()
    for entry in entries:
        try:
            name = entry.name.decode("utf-8" if entry.flags & _UTF8 else "ascii")
        except UnicodeDecodeError as error:
            raise zipfile.BadZipFile("a file's name is not in UTF-8") from error
        parts = name.removesuffix("/").split("/")  # an empty folder ends in a slash
        if of_paths and (not _PLAIN_NAME.fullmatch(name) or any(part in ("", ".", "..") for part in parts)):
            raise zipfile.BadZipFile(f"the name of a file is not plain: {name!r}")
        name = name.lower() if ignores_case else name
        if name in seen:
            raise zipfile.BadZipFile(f"it holds {name} twice")
        seen.add(name)
