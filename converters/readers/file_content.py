"""What a file holds by its content: its format, for the error message when the name says another, and zip archives."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from ...models.errors import BadRequest
from ...models.formats import FileHead, Format, formats
from ...models.library_messages import first_line
from ...models.safe_zip import check_safe_zip

MAX_RATIO = 100  # of unpacked to packed size: neither torch nor Keras compresses
# Errors of zipfile, json, pickletools, h5py, flatbuffers and torch for broken files, and of what is made of them.
_BROKEN = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, LookupError,
    TypeError, AttributeError, OverflowError,
)  # fmt: skip
_HEAD_BYTES = 16


def check_content(path: Path, expected: Format) -> None:
    """Raise BadRequest if a file looks complete and of another format than its name says."""
    kind = format_of_content(path)
    if kind is None or kind is expected:
        return
    named = "name the folder that it lies in, with its variables"
    fix = named if kind.spec.is_folder else f"call it {path.stem}{kind.spec.suffixes[0]}"
    raise BadRequest(f"{path} is, by its content, of the kind {kind} and not {expected}", fix=fix)


def format_of_content(path: Path) -> Format | None:
    """Detect a file's format by its first bytes, or by the names in an archive; None if these are unknown."""
    with path.open("rb") as file:
        data = file.read(_HEAD_BYTES)
    names = names_in_archive(path) if data.startswith(b"PK") else []
    inner = ("/".join(PurePosixPath(name).parts[1:]) for name in names)
    head = FileHead(data, frozenset(names), frozenset(inner))
    return next((form for form in formats() if form.spec.has_content(head)), None)


def names_in_archive(path: Path) -> list[str]:
    """Return the names of the parts of an archive; none of a broken one, which its reader reports."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError):
        return []


@contextmanager
def opened_archive(path: Path, kind: str, fix: str, *, ignores_case: bool = False) -> Iterator[zipfile.ZipFile]:
    """Open an archive. Raises BadRequest if it, or what is read inside, is not "a whole ..." file of its kind.

    `ignores_case`: its reader does, as PyTorch's.
    """
    with whole_file(path, kind, fix):
        check_safe_zip(path, ignores_case=ignores_case)
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_RATIO * max(1, path.stat().st_size):
                raise BadRequest(f"{path} unpacks to far more than its own size", fix=fix)
            yield archive


@contextmanager
def whole_file(path: Path, kind: str, fix: str) -> Iterator[None]:
    """Raise BadRequest, "is not a whole ..." file of its kind, where reading a part of it meets what cannot be."""
    try:
        yield
    except _BROKEN as error:
        raise BadRequest(f"{path} is not a whole {kind}: {first_line(error)}", fix=fix) from error


def refuse_links(folder: Path, noun: str) -> None:
    """Raise BadRequest where a folder holds a link. It is to be asked before a file is read: the worker may not reach
    what a link leads to."""
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise BadRequest(f"{path} is a link, and may lead anywhere", fix=f"copy the {noun} with its files")
