"""Arrays by name in an .npz file, read without loading them: a mapped array costs memory only where it is read.

Such a file is a ZIP archive of .npy members that are not compressed. numpy.savez writes them so; what is written here
also begins at addresses that suit every dtype. A compressed file is unpacked before it is mapped.
"""

from __future__ import annotations

import mmap
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from .errors import BadRequest
from .safe_zip import check_safe_zip
from .signature import Array
from .untrusted_files import check_unpacked

MADE_BY = "make it with numpy.savez(FILE, INPUT_NAME=array, labels=array)"
# Errors of zipfile, zlib and numpy's reader of headers, which evaluates them as Python's literals.
_BROKEN = (
    ValueError, OSError, EOFError, zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError,
    TypeError, SyntaxError, OverflowError, MemoryError, AttributeError, LookupError, struct.error, zlib.error,
    tokenize.TokenError,
)  # fmt: skip
_PIECE_BYTES = 4 << 20  # of an array that are copied at a time
_ALIGNMENT = 64  # bytes, as numpy has it in .npy files
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a ZIP member: signature, ..., length of its name, length of its extra
_ZIP64_EXTRA = 20  # bytes that zipfile adds to `extra` for a large member
_PADDING = 0xD935  # the identifier of an extra field that only aligns, as Android's zipalign writes it


@dataclass(frozen=True)
class _Header:
    """The header of a .npy file."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    end: int  # where the numbers begin in the file that it was read from

    @property
    def data_bytes(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count * self.dtype.itemsize


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name, as numpy.savez does, which takes no array with the name "file".
    Mapped arrays are copied piece by piece, and a file that is replaced stays there for those who have it mapped."""
    path.unlink(missing_ok=True)
    with path.open("wb") as raw, zipfile.ZipFile(raw, "w") as archive:
        for name, array in arrays.items():
            with archive.open(_aligned_member(name, raw.tell()), "w", force_zip64=True) as file:
                _write_array(file, np.asanyarray(array))


def read_arrays(path: Path) -> dict[str, Array]:
    """Read the arrays of an .npz file into memory. Raises BadRequest where it is no such file."""
    return {name: np.array(array) for name, array in map_arrays(path).items()}


def map_arrays(path: Path, scratch: Path | None = None) -> dict[str, Array]:
    """Map the arrays of an .npz file, which must not change while they are used. Nothing is ever unpickled.

    With `scratch`, for files that are not ours, checksums are compared, and a compressed file is unpacked to the file
    `scratch`; without it such a file is read into memory.
    Raises BadRequest where it is no such file."""
    try:
        check_safe_zip(path, of_paths=False)
        with zipfile.ZipFile(path) as archive:
            check_unpacked(path, archive)
            members = archive.infolist()
            compressed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
            if not compressed:
                arrays = _map_members(path, members)
                if scratch is not None and (name := archive.testzip()):
                    raise ValueError(f"the checksum of {name} is another")
                return arrays
            if scratch is None:
                return {_name_of(member): _load(archive, member) for member in members}
            _unpack(archive, members, scratch)
        with zipfile.ZipFile(scratch) as archive:
            return _map_members(scratch, archive.infolist())
    except FileNotFoundError as error:
        raise BadRequest(f"no such file: {path}", fix="check the path") from error
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise BadRequest(f"{path} is not an .npz file of plain arrays: {error}", fix=MADE_BY) from error


def release(arrays: Iterable[Array]) -> None:
    """Drop the pages of mapped arrays from this process. They stay in the system's cache, and are mapped anew if read.
    Else the memory of a process would grow with the data that it has seen."""
    mappings = {id(mapping): mapping for array in arrays if (mapping := _mapping_of(array)) is not None}
    for mapping in mappings.values():
        mapping.madvise(mmap.MADV_DONTNEED)


def pieces(array: Array) -> Iterator[Array]:
    """Yield an array along axis 0 in pieces of a few megabytes, without copies; pages of the last are released."""
    rows = max(1, _PIECE_BYTES // max(1, array[:1].nbytes))
    for start in range(0, len(array), rows):
        yield array[start : start + rows]
        release([array])


def map_raw(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Map a file that holds the numbers of one array and nothing else."""
    if not path.stat().st_size:
        return np.empty(shape, dtype)
    with path.open("rb") as file:
        return np.ndarray(shape, dtype, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _mapping_of(array: Array) -> mmap.mmap | None:
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def _aligned_member(name: str, position: int) -> zipfile.ZipInfo:
    """Return the header of a member at `position` whose content will begin at a multiple of _ALIGNMENT."""
    member = zipfile.ZipInfo(f"{name}.npy")
    start = position + _LOCAL_HEADER.size + len(member.filename.encode()) + _ZIP64_EXTRA + 4
    padding = -start % _ALIGNMENT
    member.extra = struct.pack("<HH", _PADDING, padding) + bytes(padding)
    return member


def _write_array(file: IO[bytes], array: Array) -> None:
    """Write the .npy form of an array in C order."""
    if array.dtype.hasobject:
        raise ValueError("an array of Python objects cannot be kept")
    descr: Any = np.lib.format.dtype_to_descr(array.dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": array.shape})
    for piece in pieces(array) if array.ndim else (array,):
        file.write(piece.tobytes())


def _read_header(file: IO[bytes]) -> _Header:
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"it has a .npy member of version {version}")
    shape, fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects")
    return _Header(shape, fortran, dtype, file.tell())


def _map_members(path: Path, members: Iterable[zipfile.ZipInfo]) -> dict[str, Array]:
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return {_name_of(member): _map_member(file, mapping, member) for member in members}


def _map_member(file: IO[bytes], mapping: mmap.mmap, member: zipfile.ZipInfo) -> Array:
    file.seek(member.header_offset)
    signature, *lengths = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if signature != b"PK\x03\x04":
        raise ValueError(f"{member.filename} is not where the archive says")
    start = file.seek(sum(lengths), 1)
    header = _read_header(file)
    offset = header.end
    _check_length(member, header, member.file_size - (offset - start))
    if not header.data_bytes:
        return np.empty(header.shape, header.dtype)
    array: Array = np.ndarray(header.shape, header.dtype, mapping, offset, order="F" if header.fortran else "C")
    return array


def _load(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    with archive.open(member) as file:
        header = _read_header(file)
        _check_length(member, header, member.file_size - header.end)
        flat = np.frombuffer(file.read(), header.dtype)
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


def _unpack(archive: zipfile.ZipFile, members: Iterable[zipfile.ZipInfo], scratch: Path) -> None:
    """Write the members of an archive to another, without compression. Reading them checks their checksums."""
    with scratch.open("wb") as raw, zipfile.ZipFile(raw, "w") as unpacked:
        for member in members:
            aligned = _aligned_member(_name_of(member), raw.tell())
            with archive.open(member) as source, unpacked.open(aligned, "w", force_zip64=True) as target:
                while piece := source.read(_PIECE_BYTES):
                    target.write(piece)


def _check_length(member: zipfile.ZipInfo, header: _Header, there: int) -> None:
    if header.data_bytes != there:
        raise ValueError(f"{_name_of(member)} says that it holds {header.data_bytes} bytes, and {there} are there")


def _name_of(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")
