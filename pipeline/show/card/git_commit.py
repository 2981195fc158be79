"""The git commit of a user's file, read from .git itself.

Git is not called: it runs programs that a repository's own configuration names (core.fsmonitor, filters), and may not
be installed. So nothing is told of files that are staged and not committed.
"""

from __future__ import annotations

import hashlib
import re
import stat
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .card_records import CommitState

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_REF = re.compile(r"refs/[\w./+@-]+")
_MOST_TEXT_BYTES = 64 << 20  # of HEAD, a ref or packed-refs
_MOST_INDEX_BYTES = 256 << 20
_MOST_HASHED_BYTES = 64 << 20  # of one file whose size or time differs
_MOST_NAMED = 5
_LOOK_AGAIN_S = 1.0  # files are checked for changes at most once in this interval
_FIXED_BYTES = 62  # of an entry in the index, before its name
_EXTENDED, _NAME_LENGTH = 0x4000, 0xFFF
_BROKEN = (OSError, ValueError, struct.error, IndexError)


def commit_of(path: Path) -> CommitState | None:
    """Return the commit that a file belongs to; None where git does not track it, or that cannot be read."""
    path = path.absolute()
    try:
        tree = next((folder for folder in path.parents if (folder / ".git").exists()), None)
        if tree is None:
            return None
        git = _git_folder(tree / ".git")
        commit = _head(git)
        if commit is None:
            return None
        interval = int(time.monotonic() // _LOOK_AGAIN_S)
        if path.relative_to(tree).as_posix() not in _tracked_files(git, interval):
            return None
        return CommitState(commit=commit, changed=_changed(tree, git, interval))
    except _BROKEN:
        return None


def _git_folder(place: Path) -> Path:
    """Return the folder of a repository; a worktree has a file that names its own."""
    if place.is_dir():
        return place
    text = _read_text(place)
    if not text.startswith("gitdir: "):
        raise ValueError(f"{place} names no folder")
    return place.parent / text.removeprefix("gitdir: ").strip()


def _head(git: Path) -> str | None:
    """Return the commit that is checked out, None before the first one."""
    text = _read_text(git / "HEAD").strip()
    if not text.startswith("ref: "):
        return text if _COMMIT.fullmatch(text) else None
    ref = text.removeprefix("ref: ")
    if not _REF.fullmatch(ref) or ".." in ref:
        return None
    common = git / _read_text(git / "commondir").strip() if (git / "commondir").is_file() else git
    for folder in dict.fromkeys((git, common)):
        with suppress(OSError):
            text = _read_text(folder / ref).strip()
            return text if _COMMIT.fullmatch(text) else None
    with suppress(OSError):
        for line in _read_text(common / "packed-refs").splitlines():
            commit, _, name = line.partition(" ")
            if name == ref and _COMMIT.fullmatch(commit):
                return commit
    return None


def _read_text(path: Path) -> str:
    return _read_bytes(path, _MOST_TEXT_BYTES).decode()


def _read_bytes(path: Path, most: int) -> bytes:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        raise ValueError(f"{path} is no file, or too large")
    return path.read_bytes()


@dataclass(frozen=True, slots=True)
class _IndexEntry:
    """A tracked file as git has recorded it."""

    name: str
    mode: int
    size: int
    mtime: tuple[int, int]  # seconds and nanoseconds
    sha1: bytes


def _read_index(path: Path) -> Iterator[_IndexEntry]:
    """Yield the entries of an index of version 2, 3 or 4 (git's Documentation/gitformat-index.txt)."""
    data = _read_bytes(path, _MOST_INDEX_BYTES)
    magic, version, count = struct.unpack_from(">4sII", data)
    if magic != b"DIRC" or version not in (2, 3, 4):
        raise ValueError(f"{path} is no index that is known")
    at, former = 12, b""
    for _ in range(count):
        start = at
        fields = struct.unpack_from(">10I20sH", data, at)
        at += _FIXED_BYTES + (2 if fields[11] & _EXTENDED else 0)
        if version == 4:  # a name says how much of the former one it leaves away
            left_out, at = _read_offset(data, at)
            kept = former[: len(former) - left_out]
        else:
            kept = b""
        end = data.index(b"\0", at)
        former = kept + data[at:end]
        at = end + 1 if version == 4 else start + (end - start) // 8 * 8 + 8
        yield _IndexEntry(former.decode(errors="replace"), fields[6], fields[9], (fields[2], fields[3]), fields[10])


def _read_offset(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of variable width, as git's packs have them; return it and what follows it."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | data[at] & 0x7F
    return value, at + 1


@lru_cache(maxsize=4)
def _tracked_files(git: Path, _interval: int) -> Mapping[str, Sequence[_IndexEntry]]:
    """Return the files that a repository tracked in an interval of time: many models of it are asked for at once.
    A file that is in conflict has several entries."""
    files: dict[str, list[_IndexEntry]] = {}
    for entry in _read_index(git / "index"):
        files.setdefault(entry.name, []).append(entry)
    return files


@lru_cache(maxsize=4)
def _changed(tree: Path, git: Path, interval: int) -> tuple[str, ...] | None:
    """Return the first tracked files that were not as recorded in an interval. None where a filter may stand between
    the two."""
    if (tree / ".gitattributes").exists():
        return None
    changed = []
    for name, entries in _tracked_files(git, interval).items():
        if any(stat.S_ISREG(entry.mode) and _is_changed(tree / name, entry) for entry in entries):
            changed.append(name)
            if len(changed) == _MOST_NAMED:
                break
    return tuple(changed)


def _is_changed(path: Path, entry: _IndexEntry) -> bool:
    try:
        status = path.lstat()
        same_size = status.st_size & 0xFFFFFFFF == entry.size
        if same_size and (status.st_mtime_ns // 10**9 & 0xFFFFFFFF, status.st_mtime_ns % 10**9) == entry.mtime:
            return False
        if not stat.S_ISREG(status.st_mode) or (entry.size and not same_size):
            return True
        if status.st_size > _MOST_HASHED_BYTES:
            return True
        content = path.read_bytes()
    except OSError:
        return True
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).digest() != entry.sha1
