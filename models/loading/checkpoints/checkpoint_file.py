"""The three ways in which checkpoints keep a pickle and its tensors: torch's zip, torch's older file, a bare pickle."""

from __future__ import annotations

import contextlib
import io
import mmap
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ...errors import BadRequest
from ...safe_zip import is_zip
from ...untrusted_files import check_unpacked
from .known_names import KnownNames
from .pickle_machine import PickleMachine
from .stored_tensors import ELEMENT_BYTES, QUANTISED, STORAGES, OddTensor, Storage
from .stubs import PickleRefused, Stub, StubClass

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # torch.serialization, of files before torch 1.6
_MOST_PICKLE_BYTES = 1 << 30
_MOST_NESTED = 4  # torch files in a pickle in a torch file
_LOCAL_HEADER = struct.Struct("<26xHH")  # the lengths of name and extra field (APPNOTE.TXT, 4.3.7)
_BROKEN = (
    LookupError, TypeError, ValueError, EOFError, OverflowError, AttributeError, struct.error, zipfile.BadZipFile,
    zlib.error, NotImplementedError, RuntimeError, RecursionError,
)  # fmt: skip


def read_checkpoint(path: Path) -> object:
    """Read a checkpoint as plain containers, tensors that are not loaded yet, and stubs. Nothing of it is run.
    Raises BadRequest where it is none, or not whole."""
    with _whole_checkpoint(path):
        if is_zip(path):
            with zipfile.ZipFile(path) as archive:
                check_unpacked(path, archive)
                return _ZippedCheckpoint(path, archive).read()
        with path.open("rb") as file:
            return _read_stream(file, path, path.stat().st_size)


@contextlib.contextmanager
def _whole_checkpoint(path: Path) -> Iterator[None]:
    """Turn what a broken file ends in into one sentence, which quotes nothing of the file."""
    try:
        yield
    except BadRequest:
        raise
    except _BROKEN as error:
        reason = str(error) if isinstance(error, PickleRefused) else "its content is broken or cut short"
        raise BadRequest(
            f"{path} is not a whole checkpoint: {reason}", fix="copy it again, or save model.state_dict() again"
        ) from None  # the words of the libraries quote the file


@dataclass(frozen=True, slots=True)
class _StorageId:
    """The persistent id of a storage."""

    key: str
    dtype: str | None
    count: int  # of elements; of bytes where there is no dtype
    element_bytes: int
    view: object = None  # of older files: (key, offset, size) in another storage
    is_quantised: bool = False

    @property
    def size_bytes(self) -> int:
        return self.count * self.element_bytes


def _storage_id(value: object) -> _StorageId:
    """Read a persistent id. Raises PickleRefused where it names no storage of torch."""
    match value:
        case ("storage", StubClass(name=name), str() | int() as key, _, int(count), *more) if count >= 0:
            kind = name.rpartition(".")[2]
            view = more[0] if more else None
            if kind in QUANTISED:
                return _StorageId(str(key), None, count, QUANTISED[kind], view, is_quantised=True)
            if kind in STORAGES:
                dtype = STORAGES[kind]
                return _StorageId(str(key), dtype, count, ELEMENT_BYTES[dtype] if dtype else 1, view)
    raise PickleRefused("its pickle refers to something that is no storage of torch")


class _ZippedCheckpoint:
    """A checkpoint as torch.save writes it: `NAME/data.pkl`, and a record for each storage."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._entries = {entry.filename: entry for entry in archive.infolist()}
        self._storages: dict[str, Storage] = {}
        pickles = [name for name in self._entries if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(pickles) != 1:
            raise PickleRefused("it is a zip without the data.pkl of torch.save")
        self._folder = pickles[0].removesuffix("data.pkl")

    def read(self) -> object:
        """Read the pickle."""
        order = self._entries.get(f"{self._folder}byteorder")
        if order is not None and _read_entry(self._path, order) == b"big":
            raise PickleRefused("its numbers are big-endian")
        entry = self._entries[f"{self._folder}data.pkl"]
        if entry.file_size > _MOST_PICKLE_BYTES:
            raise PickleRefused(f"its pickle is larger than {_MOST_PICKLE_BYTES >> 30} GiB")
        names = KnownNames(entry.file_size, _nested_reader(self._path, 1))
        content = io.BytesIO(_read_entry(self._path, entry))
        return PickleMachine(names.builders(), self._storage).read(content)

    def _storage(self, value: object) -> object:
        place = _storage_id(value)
        if place.is_quantised:
            return OddTensor("quantised")
        if place.key not in self._storages:
            entry = self._entries.get(f"{self._folder}data/{place.key}")
            if entry is None:
                raise PickleRefused("it lacks the record of a tensor")
            if place.size_bytes > entry.file_size:
                raise PickleRefused("it has a tensor that is larger than its record")
            self._storages[place.key] = Storage(place.dtype, place.size_bytes, self._reader(entry))
        storage = self._storages[place.key]
        if storage.dtype == place.dtype:
            return storage
        return Storage(place.dtype, storage.size_bytes, storage.read)  # seen as numbers of another kind

    def _reader(self, entry: zipfile.ZipInfo) -> Callable[[], bytearray]:
        def read() -> bytearray:
            with _whole_checkpoint(self._path):
                return _read_entry(self._path, entry)

        return read


def _read_entry(path: Path, entry: zipfile.ZipInfo) -> bytearray:
    """Read a file of an archive. Raises PickleRefused where it is cut short, or its checksum is another."""
    with path.open("rb") as file:
        if entry.compress_type != zipfile.ZIP_STORED:
            with zipfile.ZipFile(file) as archive:
                return bytearray(archive.read(entry))
        if entry.header_offset < 0:  # by a directory that says it is longer than the file
            raise PickleRefused("a part begins before its beginning")
        file.seek(entry.header_offset)
        name_bytes, extra_bytes = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        file.seek(name_bytes + extra_bytes, io.SEEK_CUR)
        content = _read_exactly(file, entry.file_size)
    # torch.serialization.set_crc32_options(False) writes 0 for every checksum.
    if entry.CRC and zlib.crc32(content) != entry.CRC:
        raise PickleRefused("the checksum of a part is another")
    return content


def _read_exactly(file: IO[bytes], count: int) -> bytearray:
    content = bytearray(count)
    if file.readinto(content) != count:  # type: ignore[attr-defined]
        raise PickleRefused("it is cut short")
    return content


def _read_stream(file: IO[bytes], path: Path, size: int, nested: int = 0) -> object:
    """Read torch's older file, which is five pickles and then the storages, or a bare pickle."""
    stream: Any = file if isinstance(file, io.BytesIO) else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    reader = _StreamedCheckpoint(stream, path, size, nested)
    content = reader.read_pickle()
    if content == _MAGIC and not isinstance(content, float):
        return reader.read_older_file()
    if not isinstance(content, dict | list | tuple | Stub) or (not nested and _is_bare_call(content)):
        raise PickleRefused("it is no checkpoint of torch.save")
    return content


def _is_bare_call(content: object) -> bool:
    """Return whether a pickle is nothing but a class or a call, as many a text that is no pickle reads."""
    return isinstance(content, Stub) and not content.attributes and not content.entries


class _StreamedCheckpoint:
    """Pickles one after another. Storages of torch's older files come after the pickle that refers to them."""

    def __init__(self, stream: Any, path: Path, size: int, nested: int) -> None:
        self._stream, self._path = stream, path
        self._names = KnownNames(size, _nested_reader(path, nested + 1))
        self._ids: dict[str, _StorageId] = {}
        self._storages: dict[object, Storage] = {}
        self._places: dict[str, int] = {}

    def read_pickle(self) -> object:
        """Read the next pickle."""
        return PickleMachine(self._names.builders(), self._storage).read(self._stream)

    def read_older_file(self) -> object:
        """Read what comes after the magic number: protocol, system, content, the keys of the storages, these."""
        protocol, system = self.read_pickle(), self.read_pickle()
        if protocol != _PROTOCOL or not isinstance(system, dict) or system.get("little_endian") is False:
            raise PickleRefused("it is of another protocol, or of a big-endian machine")
        content, keys = self.read_pickle(), self.read_pickle()
        if not isinstance(keys, list) or len(set(map(str, keys))) != len(keys):
            raise PickleRefused("its list of storages is broken")
        for key in map(str, keys):
            place = self._ids[key]
            (count,) = struct.unpack("<q", self._stream.read(8))
            start = self._stream.tell()
            self._stream.seek(0, io.SEEK_END)
            if count != place.count or start + place.size_bytes > self._stream.tell():
                raise PickleRefused("it is cut short")
            self._places[key] = start
            self._stream.seek(start + place.size_bytes)
        if set(self._places) != set(self._ids):
            raise PickleRefused("it lacks the numbers of a tensor")
        return content

    def _storage(self, value: object) -> object:
        match value:
            case ("module", StubClass() as cls, *_):  # older files keep the source of a module's class beside it
                return cls
        place = _storage_id(value)
        if self._ids.setdefault(place.key, place).size_bytes != place.size_bytes:
            raise PickleRefused("it has a storage of two sizes")
        if place.is_quantised:
            return OddTensor("quantised")
        start, size = self._view(place)
        name = (place.key, start, size, place.dtype)
        if name not in self._storages:
            self._storages[name] = Storage(place.dtype, size, lambda: self._read(place.key, start, size))
        return self._storages[name]

    @staticmethod
    def _view(place: _StorageId) -> tuple[int, int]:
        """Return where in its storage a tensor's part begins, and its size, in bytes."""
        match place.view:
            case None:
                return 0, place.size_bytes
            case (_, int(offset), int(size)) if offset >= 0 and size >= 0 and offset + size <= place.count:
                return offset * place.element_bytes, size * place.element_bytes
        raise PickleRefused("it has a view that is larger than its storage")

    def _read(self, key: str, start: int, size: int) -> bytearray:
        with _whole_checkpoint(self._path):
            begin = self._places[key] + start
            content = bytearray(self._stream[begin : begin + size] if isinstance(self._stream, mmap.mmap)
                                else self._stream.getbuffer()[begin : begin + size])  # fmt: skip
            if len(content) != size:
                raise PickleRefused("it is cut short")
            return content


def _nested_reader(path: Path, nested: int) -> Callable[[bytes], object]:
    """Return a reader of a torch file that lies in a pickle."""

    def read(content: bytes) -> object:
        if nested > _MOST_NESTED:
            raise PickleRefused("its pickles are nested too deeply")
        return _read_stream(io.BytesIO(content), path, len(content), nested)

    return read
