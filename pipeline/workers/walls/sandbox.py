"""What the kernel holds of a worker: which files it reads and writes, that it starts no program, and talks to nobody.

Landlock (https://docs.kernel.org/userspace-api/landlock.html) is here, the seccomp filter in system_calls.py, both
without privilege. They hold for all that the worker starts later and can never be taken off. A wall that this kernel
lacks is left out; `missing_walls` names it. Namespaces (namespaces.py) come before them, where the kernel lets.

It has to be called before the process has a second thread, which would stay outside.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence

from .namespaces import SHARED_MEMORY, drop_capabilities, enter_namespaces
from .system_calls import MACHINES, hold_calls

LANDLOCK, SECCOMP = "Landlock", "seccomp"

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2  # of prctl

# landlock(7). The numbers of the system calls are the same on all machines.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FIRST_13 = (1 << 13) - 1  # what version 1 knows
_MAKE_NODES = 1 << 6 | 1 << 9 | 1 << 11  # devices, sockets
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _READ_FILE | _READ_DIR
_TCP = 0b11  # bind, connect
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2  # of others
_BENEATH = 1

# What interpreters and libraries read wherever they run.
_SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/sys", "/opt",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/timezone", "/etc/mime.types",
    "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/host.conf", "/etc/resolv.conf",
    "/etc/gai.conf", "/etc/os-release", "/etc/alternatives", "/etc/fonts", "/etc/OpenCL", "/etc/debian_version",
    "/etc/ssl/certs",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/loadavg", "/proc/filesystems", "/proc/sys",
    "/proc/modules", "/proc/devices", "/proc/driver", "/proc/uptime", "/proc/cmdline", "/proc/vmstat",
)  # fmt: skip
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_GPU_DEVICES = ("/dev/dri", "/dev/kfd", "/dev/nvidia-caps")

_C = ctypes.CDLL(None, use_errno=True)


def raise_walls(
    reads: Iterable[str], writes: Iterable[str], *, tcp: bool = False, gpu: bool = False, starts: Sequence[str] = ()
) -> None:
    """Hold this process and all that it starts to these files and folders from now on.
    It may read beside them what every interpreter reads, and read and write its current folder. `tcp`: it may open
    TCP connections. `starts`: program files that it may execute; they run between the same walls. Without Landlock,
    which alone tells one program from another, it may execute none.
    Raises OSError where a wall that this kernel has cannot be raised."""
    lacking = missing_walls()
    if _C.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs is refused")
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208
        raise OSError(errno.EBUSY, "a library has started a thread, which the walls would not hold")
    readable = [*_SYSTEM, *_interpreter_folders(), f"/proc/{os.getpid()}", *reads]
    writable = [os.getcwd(), *_DEVICES, *writes]  # noqa: PTH109
    if enter_namespaces((*_interpreter_folders(), os.getcwd(), *reads, *writes), network=tcp):  # noqa: PTH109
        writable.append(SHARED_MEMORY)  # its own; that of all others stays closed
    drop_capabilities()
    if gpu:
        writable += [*_GPU_DEVICES, *_nvidia_devices()]
    if LANDLOCK not in lacking:
        _hold_files(readable, writable, starts, tcp=tcp)
    if SECCOMP not in lacking:
        version = 0 if LANDLOCK in lacking else landlock_version()
        hold_calls(tcp=tcp, gpu=gpu, execve=bool(starts) and version > 0, landlock=version)


def missing_walls() -> tuple[str, ...]:
    """Return the walls that this kernel or machine lacks. Nothing is raised by asking."""
    has_filter = platform.machine() in MACHINES and (
        # A program at address 0: a kernel with filters cannot read it (EFAULT), one without refuses the mode (EINVAL).
        _C.prctl(_SET_SECCOMP, _FILTER, 0, 0, 0) and ctypes.get_errno() == errno.EFAULT
    )
    return (*(() if landlock_version() else (LANDLOCK,)), *(() if has_filter else (SECCOMP,)))


def landlock_version() -> int:
    """Return the version of Landlock that the kernel has; 0 where it has none."""
    return max(0, int(_C.syscall(_CREATE_RULESET, None, 0, 1)))


def _interpreter_folders() -> Iterator[str]:
    """Yield the folders that modules come from."""
    yield from (sys.prefix, sys.base_prefix, sys.exec_prefix)
    yield from (path for path in sys.path if path)
    yield os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable___"):  # setuptools' finder of packages that are installed from their checkout
            yield from getattr(module, "MAPPING", {}).values()


def _nvidia_devices() -> list[str]:
    with contextlib.suppress(OSError):
        return [f"/dev/{name}" for name in os.listdir("/dev") if name.startswith("nvidia")]  # noqa: PTH208
    return []


def _hold_files(readable: Sequence[str], writable: Sequence[str], starts: Sequence[str], *, tcp: bool) -> None:
    """Let the process reach these files and no others."""
    version = landlock_version()
    known = _FIRST_13
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        known |= right if version >= since else 0
    network = 0 if tcp or version < 4 else _TCP
    scope = (_ABSTRACT_SOCKETS | _SIGNALS) if version >= 6 else 0
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    attributes = struct.pack("=QQQ", known, network, scope)[:size]
    ruleset = _C.syscall(_CREATE_RULESET, attributes, size, 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "Landlock is refused")
    try:
        kinds = ((readable, _READ), (writable, known & ~_EXECUTE & ~_MAKE_NODES), (starts, _READ_FILE | _EXECUTE))
        for paths, rights in kinds:
            for path in dict.fromkeys(paths):
                _allow(ruleset, path, rights)
        if _C.syscall(_RESTRICT_SELF, ruleset, 0):
            raise OSError(ctypes.get_errno(), "Landlock is refused")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Allow a file, or a folder and all below it, where it exists."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):  # noqa: PTH112
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, place)
        _C.syscall(_ADD_RULE, ruleset, _BENEATH, rule, 0)
    finally:
        # Short of memory, the kernel forgets files of /proc that nobody has open, and makes them anew without a rule.
        if not path.startswith("/proc/"):
            os.close(place)
