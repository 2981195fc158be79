"""The number of workers that one user runs at once on this machine, over all of their transload processes.

Each worker holds the lock of a file. The kernel frees it with the process, however that dies, so that a killed command
never keeps a slot. The files lie in a folder of this machine, not in the store, which several machines may share.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ...models.errors import BadRequest
from ...models.store_ledger import try_lock

VARIABLE = "TRANSLOAD_WORKERS_PER_USER"
_LOOK_AGAIN_S = 0.2


class UserQuota:
    """At most `count` workers of this user. Thread-safe, and process-safe."""

    def __init__(self, folder: Path, count: int, note: Callable[[str], None] = lambda _: None) -> None:
        self._folder = folder
        self._count = count
        self._note = note

    @contextmanager
    def occupied(self, stopped: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Wait for a slot, and hold it until the end of the block; do not wait once the command is `stopped`."""
        handle = self._take()
        if handle is None:
            self._note(f"waiting for other transload processes of this user: {VARIABLE}={self._count}")
        while handle is None and not stopped():
            time.sleep(_LOOK_AGAIN_S)
            handle = self._take()
        try:
            yield
        finally:
            if handle is not None:
                os.close(handle)

    def _take(self) -> int | None:
        """Return the locked file of a free slot, or None where all are taken."""
        for number in range(self._count):
            handle = os.open(self._folder / f"worker-{number}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            if try_lock(handle):
                return handle
            os.close(handle)
        return None


def quota_of_user(environment: Mapping[str, str], note: Callable[[str], None]) -> UserQuota | None:
    """Return the quota that the environment sets, or None. Raises BadRequest where it is no number of workers, or
    where the folder of the slots belongs to somebody else."""
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return None
    if not text.isdecimal() or not 0 < int(text[:9]) < 10_000:
        raise BadRequest(
            f"{VARIABLE}={text[:80]!r} is no number of workers", fix="set it to a number from 1, or unset it"
        )
    folder = Path(tempfile.gettempdir()) / f"transload-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        is_ours = folder.lstat().st_uid == os.geteuid() and folder.is_dir() and not folder.is_symlink()
    except OSError:
        is_ours = False
    if not is_ours:
        raise BadRequest(
            f"{folder} cannot hold the slots of {VARIABLE}", fix="remove it, or set TMPDIR to another folder"
        )
    return UserQuota(folder, int(text), note)
