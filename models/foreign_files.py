"""Files from strangers, before they are read: what is no plain file is refused, and a JSON is read within limits."""

from __future__ import annotations

import json
import stat
import zipfile
from pathlib import Path
from typing import Any

from .errors import BadRequest

MOST_JSON_BYTES = 64 << 20
MOST_RATIO = 100  # of unpacked to packed size: numbers that were measured or trained stay far below it
_LEAST_UNPACKED_BYTES = 256 << 20  # less harms nobody
_MOST_SPARSE = 100  # times what the disk holds of a file; file systems that compress stay far below it
_LEAST_SPARSE_BYTES = 1 << 30


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
