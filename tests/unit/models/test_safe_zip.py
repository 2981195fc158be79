"""Zips that all readers read alike, and zips that they do not."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from transload.models.array_file import write_arrays
from transload.models.safe_zip import check_safe_zip


class Stream(io.RawIOBase):
    """A file that cannot seek: zipfile then writes sizes after each content."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")

    def writable(self) -> bool:
        return True

    def write(self, content: bytes) -> int:  # type: ignore[override]
        return self.file.write(content)

    def close(self) -> None:
        self.file.close()


def write_plain(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/first", b"1" * 50)
        archive.writestr("m/second", b"2" * 50, zipfile.ZIP_DEFLATED)


def write_stream(path: Path) -> None:
    with Stream(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/first", b"1" * 50)
        archive.writestr("m/second", b"2" * 50)


def write_numpy(path: Path, save: Callable[..., None]) -> None:
    with path.open("wb") as file:
        save(file, a=np.ones(3), b=np.zeros(2))


def write_torch(path: Path) -> None:
    import torch

    torch.save({"a": torch.ones(3)}, path)


@pytest.mark.parametrize(
    "write",
    [
        write_plain,
        write_stream,
        write_torch,
        lambda path: write_numpy(path, np.savez),
        lambda path: write_numpy(path, np.savez_compressed),
        lambda path: write_arrays(path, {"/conv/Conv": np.ones((3, 4)), "x:0": np.zeros(())}),
        lambda path: zipfile.ZipFile(path, "w").close(),
    ],
)
def test_what_writers_write_is_plain(write: Callable[[Path], object], tmp_path: Path) -> None:
    write(tmp_path / "m.zip")
    check_safe_zip(tmp_path / "m.zip", ignores_case=True, of_paths=False)


CENTRAL = b"PK\1\2\x14\x03\x14\0"  # a file in the directory, up to its flags
END = -22  # where the last record begins
CHANGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "bytes before": (lambda content: b"x" + content, "its directory is not at its end"),
    "bytes after": (lambda content: content + b"x", "File is not a zip file"),
    "two archives": (lambda content: content + content, "its directory is not at its end"),
    "cut": (lambda content: content[:60], "File is not a zip file"),
    "nothing": (lambda content: b"", "File is not a zip file"),
    "other name in the header": (lambda content: content.replace(b"m/first", b"m/First", 1), "says other than"),
    "other size in the header": (lambda content: content[:22] + b"\x33" + content[23:], "says other than"),
    "other method in the header": (lambda content: content[:8] + b"\x08" + content[9:], "says other than"),
    "encrypted": (
        lambda content: (content[:6] + b"\1" + content[7:]).replace(CENTRAL + b"\0\0", CENTRAL + b"\1\0", 1),
        "encrypted",
    ),
    "one file fewer": (lambda content: content[:END] + count(content, 1) + content[END + 12 :], "more files than"),
    "one file more": (lambda content: content[:END] + count(content, 3) + content[END + 12 :], "cut short"),
    "a comment": (lambda content: content[:-2] + b"\1\0x", "File is not a zip file"),
    "a comment that looks like the end": (
        lambda content: content[:-2] + struct.pack("<H", 22) + content[END:],
        "not at its end",
    ),
    "a backslash": (lambda content: content.replace(b"m/first", b"m\\first"), "not plain"),
    "an absolute name": (lambda content: content.replace(b"m/first", b"//first"), "not plain"),
    "a name that leads out": (lambda content: content.replace(b"m/first", b"../irst"), "not plain"),
    "a name that ends early": (lambda content: content.replace(b"m/first", b"m/fir\0t"), "not plain"),
    "a name in no coding": (lambda content: content.replace(b"m/first", b"m/fir\xfft"), "not in UTF-8"),
}  # fmt: skip


def count(content: bytes, number: int) -> bytes:
    return content[END : END + 8] + struct.pack("<HH", number, number)


@pytest.mark.parametrize("case", CHANGES)
def test_what_two_readers_may_read_differently_is_refused(case: str, tmp_path: Path) -> None:
    change, message = CHANGES[case]
    path = tmp_path / "m.zip"
    write_plain(path)
    check_safe_zip(path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(zipfile.BadZipFile, match=message):
        check_safe_zip(path)


def test_content_between_files_or_shared_by_two_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.zip"
    with path.open("wb") as raw, zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("first", b"1")
        raw.write(b"hidden")
        archive.start_dir = raw.tell()
        archive.writestr("second", b"2")
    with pytest.raises(zipfile.BadZipFile, match="something lies between them"):
        check_safe_zip(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("first", b"1")
        archive.filelist.append(archive.getinfo("first"))
    with pytest.raises(zipfile.BadZipFile, match="overlap"):
        check_safe_zip(path)


def test_an_extra_field_that_renames_a_file_is_refused(tmp_path: Path) -> None:
    member = zipfile.ZipInfo("first")
    member.extra = struct.pack("<HHBI", 0x7075, 5 + 6, 1, 0) + b"second"  # Info-ZIP's Unicode path
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr(member, b"1")
    with pytest.raises(zipfile.BadZipFile, match="extra field 0x7075"):
        check_safe_zip(tmp_path / "m.zip")


def test_names_that_differ_in_case_are_one_for_some_readers(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr("a", b"1")
        archive.writestr("A", b"2")
    check_safe_zip(tmp_path / "m.zip")
    with pytest.raises(zipfile.BadZipFile, match="it holds a twice"):
        check_safe_zip(tmp_path / "m.zip", ignores_case=True)
