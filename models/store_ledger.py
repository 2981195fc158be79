"""What uses the store's results, and how many bytes its objects have.

    lock                    held shared while a result is looked up or kept, exclusively while some are removed
    bytes                   the size of all objects, counted as they come and go
    users/<folder>-<..>     a command: its folder, then a line for each result that it used; locked while it works

A command writes a line before it looks at a result, both under the shared lock. Who removes results reads the lines
under the exclusive lock, so a result that a living command has seen stays. A lock ends with its process, `kill -9`
included; the file stays, and says for which folder the results were made. Times play no part in it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .errors import BadRequest
from .untrusted_files import read_plain

_LOCK, _BYTES, _USERS = "lock", "bytes", "users"
_CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def store_lock(root: Path, *, exclusive: bool = False) -> Iterator[None]:
    """Hold the store's lock. Shared: what is looked up or kept meanwhile is not removed. Exclusive: remove results.
    A store on a disk that is closed to writing is looked up without: nobody removes anything there."""
    with ExitStack() as stack:
        try:
            handle = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            if exclusive or error.errno not in _CLOSED:
                raise
        else:
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield


class UseRecord:
    """What one command uses of the store. Thread-safe; the file is made with the first line."""

    def __init__(self, root: Path, folder: Path | None) -> None:
        self._users = root / _USERS
        # Relative, as the links of a run are: a project folder that moves keeps both.
        self._folder = "" if folder is None else os.path.relpath(os.path.realpath(folder), os.path.realpath(root))
        self._path: Path | None = None
        self._handle = -1
        self._closer: weakref.finalize[[int], UseRecord] | None = None
        self._names: set[str] = set()
        self._lock = threading.Lock()

    def add(self, *names: str) -> None:
        """Write down keys of actions and digests of objects. The caller holds the store's lock."""
        with self._lock:
            new = [name for name in names if name not in self._names]
            if not new:
                return
            try:
                if self._path is None:
                    self._open()
            except OSError as error:
                if error.errno in _CLOSED:  # nobody removes anything there
                    return
                raise
            os.write(self._handle, "".join(f"{name}\n" for name in new).encode())
            self._names.update(new)

    def close(self) -> None:
        """End the use. The file stays for the command's folder, in place of those of former commands there."""
        with self._lock, suppress(OSError):
            if self._path is None or self._closer is None:
                return
            self._closer()
            former = [path for path in self._users.glob(f"{self._prefix}-*") if path != self._path]
            for path in [*former, *([] if self._folder else [self._path])]:
                if not _is_locked(path):
                    path.unlink(missing_ok=True)
            self._path = None
            self._names.clear()

    def _open(self) -> None:
        self._users.mkdir(exist_ok=True)
        path = self._users / f"{self._prefix}-{os.getpid()}-{secrets.token_hex(4)}"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
        self._closer = weakref.finalize(self, os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.write(handle, f"{json.dumps(self._folder)}\n".encode())
        self._path, self._handle = path, handle

    @property
    def _prefix(self) -> str:
        return hashlib.sha256(self._folder.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class CommandUse:
    """A command that works, or has worked, with the store."""

    record: Path
    folder: Path | None  # where it leaves its results
    names: frozenset[str]  # keys of actions and digests of objects
    is_running: bool

    @property
    def is_over(self) -> bool:
        """Whether the command has ended and nothing is left of its results."""
        return not self.is_running and (self.folder is None or not os.path.isdir(self.folder))  # noqa: PTH112  (no name raises)


def read_uses(root: Path) -> list[CommandUse]:
    """Return the commands that have used the store, by what they wrote down."""
    uses = []
    for path in sorted(_entries(root / _USERS)):
        with suppress(OSError, ValueError, TypeError, RecursionError, BadRequest):
            first, *names = read_plain(path).decode().split("\n")
            is_running = _is_locked(path)
            relative = json.loads(first) if first else ""
            folder = Path(os.path.normpath(Path(os.path.realpath(root), relative))) if relative else None
            uses.append(CommandUse(path, folder, frozenset(filter(None, names)), is_running))
    return uses


def read_store_bytes(root: Path) -> int | None:
    """Return the size of all objects, or None where nobody has counted them."""
    with suppress(OSError, ValueError, BadRequest):
        return max(0, int(read_plain(root / _BYTES)))
    return None


def write_store_bytes(root: Path, count: int) -> None:
    """Write down the size of all objects, as it was counted."""
    handle = os.open(root / _BYTES, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        _write_count(handle, count)
    finally:
        os.close(handle)


def add_store_bytes(root: Path, change: int) -> None:
    """Add to the size of all objects, where it is known."""
    with suppress(OSError, ValueError):  # unknown, or the disk is closed to us: it is counted anew another time
        handle = os.open(root / _BYTES, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            _write_count(handle, int(os.pread(handle, 64, 0)) + change)
        finally:
            os.close(handle)


def _write_count(handle: int, count: int) -> None:
    """Write a number of fixed width: one write in place, of which a kill leaves all or nothing."""
    os.pwrite(handle, f"{count:>24}\n".encode(), 0)


def try_lock(handle: int) -> bool:
    """Lock an open file or folder unless another holds it; return whether that succeeded."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_locked(path: Path) -> bool:
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _entries(folder: Path) -> Iterable[Path]:
    return folder.iterdir() if folder.is_dir() else ()
