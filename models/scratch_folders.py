"""Folders for work in progress. Its process holds a lock on each; what a killed process left is removed by the next."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_YOUNG_S = 60.0


@contextmanager
def scratch_folder(parent: Path, prefix: str = "") -> Iterator[Path]:
    """Make a folder of ours in `parent`, locked, and remove it at the end."""
    folder = parent / f"{prefix}{os.getpid()}-{secrets.token_hex(6)}"
    folder.mkdir(mode=0o700)
    with locked_scratch(folder):
        yield folder


@contextmanager
def locked_scratch(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, and remove it at the end."""
    try:
        with _locked(folder, wait=True):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(folders: Iterable[Path]) -> None:
    """Remove scratch folders of dead processes: a living one holds a lock, also one in another container on this disk.
    Those of other users stay, and young ones whose process may be about to lock them."""
    for folder in folders:
        with contextlib.suppress(OSError):
            state = folder.lstat()
            young = time.time() - state.st_mtime < _YOUNG_S
            if state.st_uid != os.geteuid() or (young and not _owner_is_gone(folder)):
                continue
            with _locked(folder, wait=False):
                shutil.rmtree(folder, ignore_errors=True)


def _owner_is_gone(folder: Path) -> bool:
    """Return whether the number in a folder's name is that of no process of this machine.
    Nor is it, where the owner is in another container; then its lock decides."""
    number = folder.name.rpartition("-")[0].rpartition("-")[2]
    return number.isdigit() and not Path("/proc", number).exists()


@contextmanager
def _locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """Lock a folder; the kernel unlocks it with the process. Raises BlockingIOError where another holds it."""
    handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
