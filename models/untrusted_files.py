"""Files from strangers, before they are read: what is no plain file is refused, and a JSON is read within limits.
A worker is a stranger, too, where it runs a model's code."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import BadRequest, StepFailed

MOST_JSON_BYTES = 64 << 20
MOST_RATIO = 100  # of unpacked to packed size: numbers that were measured or trained stay far below it
_LEAST_UNPACKED_BYTES = 256 << 20  # less harms nobody
_MOST_SPARSE = 100  # times what the disk holds of a file; file systems that compress stay far below it
_LEAST_SPARSE_BYTES = 1 << 30
MOST_FILES, MOST_DEPTH, MOST_RESULT_BYTES = 100_000, 32, 1 << 40  # of a step's result


def check_result(folder: Path) -> None:
    """Raise StepFailed where what a worker left as its result is not made of plain files and folders alone.

    A link would have whoever copies the result read files that the worker may not read. Nothing here follows one: each
    folder is opened below the handle of its parent. The worker has ended, so that nothing changes after this."""
    files, size = 0, 0
    for name, status in _walk(folder):
        files, size = files + 1, size + status.st_size
        if fault := _fault_of(name, status):
            raise _refuse_result(f"{name!a}, {fault}")
        if files > MOST_FILES or size > MOST_RESULT_BYTES or name.count("/") >= MOST_DEPTH:
            limits = f"{MOST_FILES} files, {MOST_DEPTH} folders in one another, {MOST_RESULT_BYTES >> 40} TB"
            raise _refuse_result(f"more than a result may hold: {limits}")


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the relative name of everything in a folder with its own status, not that of what it links to."""
    for parent, folders, files, handle in os.fwalk(folder, follow_symlinks=False):
        relative = os.path.relpath(parent, folder)
        for name in (*folders, *files):
            yield os.path.normpath(f"{relative}/{name}"), os.stat(name, dir_fd=handle, follow_symlinks=False)


def _fault_of(name: str, status: os.stat_result) -> str | None:
    """Return why an entry is no plain file or folder; None where it is one."""
    if not name.isprintable():
        return "a name with characters that cannot be printed"
    if stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        return "a link" if stat.S_ISLNK(status.st_mode) else "a pipe, a socket or a device"
    if status.st_nlink > 1:
        return "a file that has another name, too"
    return "a program that runs as its owner" if status.st_mode & (stat.S_ISUID | stat.S_ISGID) else None


def _refuse_result(content: str) -> StepFailed:
    return StepFailed(
        f"the step's result is refused, for it holds {content}",
        fix="let the model's code write nothing into the folder of the result; the step's log says what it did",
    )


def check_plain(path: Path) -> None:
    """Raise BadRequest where a file, or one in a folder, is a pipe or a device, or claims to be far larger than it is.
    Reading those would take for ever."""
    for file in (path, *path.rglob("*")) if path.is_dir() else (path,):
        try:
            status = file.stat()
        except FileNotFoundError:
            continue  # its reader says so
        except OSError as error:
            raise BadRequest(f"{file} cannot be read: {error.strerror}", fix="copy the file itself") from error
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise BadRequest(f"{file} is no file but a pipe, a socket or a device", fix="copy its content to a file")
        held = _MOST_SPARSE * status.st_blocks * 512
        if stat.S_ISREG(status.st_mode) and status.st_size > max(_LEAST_SPARSE_BYTES, held):
            raise BadRequest(
                f"{file} is said to have {status.st_size / 1e9:.3g} GB, of which the disk holds next to nothing",
                fix="copy it again",
            )


def read_plain(path: Path) -> bytes:
    """Read a file. Raises OSError, and BadRequest where it is a pipe or a device, which may have no end."""
    check_plain(path)
    return path.read_bytes()


def check_unpacked(path: Path, archive: zipfile.ZipFile) -> None:
    """Raise BadRequest where a zip unpacks to far more than its own size."""
    unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > max(_LEAST_UNPACKED_BYTES, MOST_RATIO * path.stat().st_size):
        raise BadRequest(
            f"{path} unpacks to {unpacked / 1e9:.3g} GB, more than {MOST_RATIO} times its own size",
            fix="write it again, without compression",
        )


def read_json(path: Path, most_bytes: int = MOST_JSON_BYTES) -> Any:
    """Read a JSON document. Raises OSError, and ValueError where it is none, or too large or too deep."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path.name} is no file")
    if status.st_size > most_bytes:
        raise ValueError(f"{path.name} is larger than {most_bytes >> 20} MiB")
    try:
        return json.loads(path.read_bytes().decode())
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deeply") from None
