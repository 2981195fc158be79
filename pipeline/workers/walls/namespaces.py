"""What is a worker's own: namespaces, as far as the kernel lets, and no privilege of root.

They are one more wall behind Landlock and seccomp, which need no permission. Many containers refuse namespaces, and
Ubuntu lets programs without a profile have them, but not use them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

SHARED_MEMORY = "/dev/shm"  # noqa: S108
_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_NETWORK = 0x00020000, 0x08000000, 0x10000000, 0x40000000
_NO_SETUID, _NO_DEVICES, _NO_PROGRAMS, _RECURSIVE, _PRIVATE = 2, 4, 8, 1 << 14, 1 << 18  # of mount
_CAPABILITIES_3, _DAC_OVERRIDE = 0x20080522, 1 << 1
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_PROBE_S = 20

_C = ctypes.CDLL(None, use_errno=True)


def enter_namespaces(paths: Iterable[str], *, network: bool) -> bool:
    """Give this process System V objects, queues, mounts and, without `network`, interfaces of its own; and a /dev/shm
    of its own, where none of `paths` lies there. Return whether it has that. Its only thread calls this."""
    flags = _NEW_MOUNTS | _NEW_IPC | (0 if network else _NEW_NETWORK)
    if _C.unshare(flags) and not _enter_as_user(flags):
        return False
    if any(os.path.realpath(path).startswith(SHARED_MEMORY) for path in paths):
        return False
    if _C.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None):  # else the mount would be everybody's
        return False
    options = _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS
    return not _C.mount(b"tmpfs", SHARED_MEMORY.encode(), b"tmpfs", options, b"mode=1777")


def _enter_as_user(flags: int) -> bool:
    """Enter the namespaces by way of a user namespace, which needs no privilege. The user stays the same."""
    with contextlib.suppress(OSError, ValueError):
        if int(_APPARMOR.read_text()):
            return False  # it would be let in, with no right to anything there, not even to its name
    uid, gid = os.geteuid(), os.getegid()
    if _C.unshare(_NEW_USER | flags):
        return False
    with contextlib.suppress(OSError):  # without a name it still has its files
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            Path("/proc/self", name).write_text(text)
    return True


def drop_capabilities() -> None:
    """Give up root's privileges. One stays, to read and write files of other users: in a container, root's command
    works with files that the user of the host owns. Which ones is Landlock's to say."""
    kept = 0 if os.geteuid() else _DAC_OVERRIDE
    # Effective, permitted, inheritable: the first 32, and the rest.
    data = struct.pack("6I", kept, kept, 0, 0, 0, 0)
    if _C.capset(struct.pack("Ii", _CAPABILITIES_3, 0), data):
        raise OSError(ctypes.get_errno(), "capabilities cannot be dropped")


def has_namespaces() -> bool:
    """Return whether a worker gets its own namespaces here. Another process tries it."""
    command = [sys.executable, "-P", "-m", __name__]
    return not subprocess.run(command, capture_output=True, timeout=_PROBE_S, check=False).returncode


if __name__ == "__main__":
    sys.exit(not enter_namespaces((), network=False))
