"""multiprocessing.resource_sharer for a worker, which has no sockets with names: a file is handed on as a copy.

PyTorch hands tensors from one process to another as files in memory, as its DataLoader does with `num_workers`. What
is written into such a tensor later stays in its process.
"""

from __future__ import annotations

import os
import stat
import sys


class DupFd:
    """A file that another process of this worker can open, once."""

    def __init__(self, descriptor: int) -> None:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OSError("a worker's processes cannot hand on sockets and pipes")
        self.path = f"{os.environ['TMPDIR']}/shared-{os.urandom(8).hex()}"  # each worker has that folder
        copy = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            copied = 0
            while copied < state.st_size:
                copied += os.sendfile(copy, descriptor, copied, state.st_size - copied)
        finally:
            os.close(copy)

    def detach(self) -> int:
        """Return a descriptor of the copy."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        os.remove(self.path)  # noqa: PTH107  (no module more to load)
        return descriptor


def hand_on_copies() -> None:
    """Let multiprocessing use this module, whether it is loaded or not."""
    sys.modules["multiprocessing.resource_sharer"] = sys.modules[__name__]
    if package := sys.modules.get("multiprocessing"):
        package.resource_sharer = sys.modules[__name__]  # type: ignore[attr-defined]
