"""What a model's code could try from inside of a worker. Each attempt returns whether it got through: it looks at the
effect where there is one, else whether the kernel took the call. The modules that it needs are loaded before the walls.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import itertools
import mmap
import os
import platform
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Attempt = Callable[[Mapping[str, Any]], object]

X86 = platform.machine() == "x86_64"
REFUSALS = {errno.EPERM, errno.EACCES, errno.ENOSYS}
_AT_CWD, _EMPTY_PATH = -100, 0x1000
# Calls whose numbers differ: x86_64, aarch64.
_NUMBERS = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "init_module": (175, 105),
    "finit_module": (313, 273), "kexec_load": (246, 104), "swapon": (167, 224), "acct": (163, 89),
    "syslog": (103, 116), "sethostname": (170, 161), "setdomainname": (171, 162), "quotactl": (179, 60),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "shmget": (29, 194), "shmat": (30, 196),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "inotify_init1": (294, 26),
    "fanotify_init": (300, 262), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "tkill": (200, 130), "tgkill": (234, 131), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "sched_setaffinity": (203, 122), "ioprio_set": (251, 30), "migrate_pages": (256, 238),
    "move_pages": (279, 239), "memfd_create": (319, 279), "execveat": (322, 281), "clone": (56, 220),
    "setxattr": (188, 5), "fsetxattr": (190, 7), "utimensat": (280, 88), "prlimit64": (302, 261),
    "setpriority": (141, 140), "personality": (135, 92), "vmsplice": (278, 75), "get_robust_list": (274, 100),
    "clock_settime": (227, 112), "lookup_dcookie": (212, 18), "seccomp": (317, 277),
}  # fmt: skip
# And those that are the same.
_NEW_NUMBERS = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fspick": 433,
    "pidfd_open": 434, "clone3": 435, "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442,
    "quotactl_fd": 443, "memfd_secret": 447, "process_mrelease": 448, "fchmodat2": 452, "listmount": 458,
    "setxattrat": 463, "open_tree_attr": 467, "file_setattr": 469,
}  # fmt: skip

LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> int:
    """Make a system call. Return its result, or minus its error."""
    number = _NEW_NUMBERS[name] if name in _NEW_NUMBERS else _NUMBERS[name][0 if X86 else 1]
    LIBC.syscall.restype = ctypes.c_long
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = int(LIBC.syscall(ctypes.c_long(number), *words))
    return -ctypes.get_errno() if result < 0 else result


def taken(name: str, *arguments: object) -> Attempt:
    """Return an attempt at a call that can do no harm as it is called; the kernel's own objections count as taken."""
    return lambda _: -call(name, *arguments) not in REFUSALS


def done(name: str, *arguments: object) -> Attempt:
    """Return an attempt at a call that has to succeed; words that are names of the place stand for what it has."""
    return lambda place: call(name, *(place[x[1:]] if isinstance(x, str) else x for x in arguments)) >= 0


def changes(change: Attempt) -> Attempt:
    """Return an attempt at changing what the kernel knows of the file outside: modes, owner, times, attributes."""

    def state(path: str) -> object:
        descriptor = os.open(path, os.O_RDONLY)
        flags = bytearray(8)
        try:
            fcntl.ioctl(descriptor, 0x80086601, flags)  # FS_IOC_GETFLAGS
        except OSError:
            flags.clear()  # between walls nobody is asked: the test looks again, from outside
        status = os.fstat(descriptor)
        names = os.listxattr(descriptor)
        os.close(descriptor)
        return status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, names, flags

    def attempt(place: Mapping[str, Any]) -> bool:
        before = state(place["file"])
        with contextlib.suppress(OSError):
            change(place)
        return state(place["file"]) != before

    return attempt


def with_file(act: Callable[[int], object]) -> Attempt:
    """Return a change by a descriptor that may only read."""

    def change(place: Mapping[str, Any]) -> None:
        descriptor = os.open(place["file"], os.O_RDONLY)
        try:
            act(descriptor)
        finally:
            os.close(descriptor)

    return change


def opens(*arguments: int) -> Attempt:
    """Return an attempt at opening a socket."""
    return lambda _: socket.socket(*arguments).fileno() >= 0


def sends_to_name(kind: int) -> Attempt:
    """Return an attempt at sending to a socket with a name over a pair, which needs no socket of its own."""

    def attempt(place: Mapping[str, Any]) -> bool:
        end, _peer = socket.socketpair(socket.AF_UNIX, kind)
        return end.sendto(b"x", place["datagrams"]) == 1

    return attempt


def connects(address: str) -> Attempt:
    """Return an attempt at connecting to a socket of the place."""

    def attempt(place: Mapping[str, Any]) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(place[address])
        return True

    return attempt


def connects_pair(place: Mapping[str, Any]) -> bool:
    """Connect one end of a pair anew."""
    end, _peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    end.connect(place["datagrams"])
    return end.send(b"x") == 1


def connects_listed(place: Mapping[str, Any]) -> bool:
    """Connect to whatever /proc names: channels of servers, agents, the user's bus."""
    rows = Path(f"/proc/{place['worker']}/net/unix").read_text().splitlines()[1:]
    for path in {row.split()[7] for row in rows if len(row.split()) > 7}:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            if client.connect_ex(path.replace("@", "\0", 1)) == 0:
                return True
    return False


def connects_inet(place: Mapping[str, Any]) -> bool:
    """Connect to a TCP server of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(5)
        client.connect(("127.0.0.1", place["port"]))
    return True


def fast_open(place: Mapping[str, Any]) -> bool:
    """Connect without `connect`."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(None)  # else it says that it goes on, and has not begun
        client.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", place["port"]))
    return True


def reads_shared_file(place: Mapping[str, Any]) -> bool:
    return Path(place["shared"]).read_bytes() == b"canary"


def changes_shared_file(place: Mapping[str, Any]) -> bool:
    with Path(place["shared"]).open("r+b") as file, mmap.mmap(file.fileno(), 6) as memory:
        memory[:6] = memory[:6]
    return True


def lists_shared_files(place: Mapping[str, Any]) -> bool:
    return Path(place["shared"]).name in os.listdir("/dev/shm")  # noqa: PTH208


def reads_segment(place: Mapping[str, Any]) -> bool:
    LIBC.shmat.restype = ctypes.c_void_p
    address = LIBC.shmat(place["segment"], None, 0)
    return address not in (None, ctypes.c_void_p(-1).value) and ctypes.string_at(address, 6) == b"canary"


def makes(name: str, control: Callable[..., int], *arguments: int) -> Attempt:
    """Return an attempt at making a System V object, which is removed again."""

    def attempt(_: Mapping[str, Any]) -> bool:
        number = call(name, 0, *arguments)
        control(number, 0, None)
        return number >= 0

    return attempt


def opens_queue(_: Mapping[str, Any]) -> bool:
    """Open a POSIX queue, which is removed again."""
    descriptor = call("mq_open", b"escape", os.O_CREAT | os.O_RDWR, 0o600, None)
    with contextlib.suppress(AttributeError):
        LIBC.mq_unlink(b"/escape")
    return descriptor >= 0


def signals(act: Callable[[int, int], object]) -> Attempt:
    """Return an attempt at sending another process a signal, which it blocks: one that no other attempt sends."""
    number = next(_SIGNALS)

    def attempt(place: Mapping[str, Any]) -> bool:
        act(place["pid"], number)
        time.sleep(0.02)
        os.lseek(place["status"], 0, os.SEEK_SET)  # open since before the walls
        lines = os.read(place["status"], 1 << 16).decode().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return bool((int(fields["ShdPnd"], 16) | int(fields["SigPnd"], 16)) >> (number - 1) & 1)

    return attempt


_SIGNALS = itertools.count(signal.SIGRTMIN + 1)


def owns(set_owner: Callable[[int, int], object]) -> Callable[[int, int], None]:
    """Return what makes a process the owner of a socket, and lets its signal be sent."""

    def act(pid: int, number: int) -> None:
        end, peer = socket.socketpair()
        set_owner(end.fileno(), pid)
        fcntl.fcntl(end, 10, number)  # F_SETSIG
        fcntl.fcntl(end, fcntl.F_SETFL, os.O_ASYNC)
        peer.send(b"x")

    return act


def queue_info(pid: int, number: int) -> None:
    """Send a signal with a message."""
    call("rt_sigqueueinfo", pid, number, struct.pack("iii", number, 0, -1) + bytes(116))


def send_by_descriptor(pid: int, number: int) -> None:
    call("pidfd_send_signal", call("pidfd_open", pid, 0), number, None, 0)


def reads_memory(name: str) -> Attempt:
    """Return an attempt at copying between an address of ours, and the same in another process, which may lack it."""
    piece = (ctypes.c_size_t * 2)(ctypes.addressof(_TEXT), 1)
    return lambda place: -call(name, place["pid"], piece, 1, piece, 1, 0) not in REFUSALS


_TEXT = ctypes.create_string_buffer(b"x")


def makes_device(major: int, minor: int) -> Attempt:
    def attempt(_: Mapping[str, Any]) -> bool:
        os.mknod("node", 0o20600, os.makedev(major, minor))
        os.open("node", os.O_RDONLY | os.O_NONBLOCK)
        return True

    return attempt


def starts_memory(_: Mapping[str, Any]) -> bool:
    """Start a file in memory, by its path and by its descriptor."""
    memory = call("memfd_create", b"program", 0)
    if memory < 0:
        return False
    os.write(memory, Path("/usr/bin/true").read_bytes())
    return starts(f"/proc/self/fd/{memory}") or starts_at(memory)


def starts_at(descriptor: int) -> bool:
    pid = os.fork()
    if not pid:
        arguments = (ctypes.c_char_p * 2)(b"true", None)
        call("execveat", descriptor, b"", arguments, (ctypes.c_char_p * 1)(None), _EMPTY_PATH)
        os._exit(9)
    return os.waitpid(pid, 0)[1] == 0


def starts(*words: str) -> bool:
    pid = os.fork()
    if not pid:
        try:
            os.execv(words[0], list(words))  # noqa: S606
        finally:
            os._exit(9)
    return os.waitpid(pid, 0)[1] == 0


def starts_own(_: Mapping[str, Any]) -> bool:
    Path("program").write_bytes(Path("/usr/bin/true").read_bytes())
    Path("program").chmod(0o755)
    return starts("./program")


def calls_ia32(_: Mapping[str, Any]) -> bool:
    """Call getpid of the 32-bit calls, by their own gate."""
    if not X86:
        return False
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return bool(ctypes.CFUNCTYPE(ctypes.c_int)(address)() > 0)


def calls_x32(_: Mapping[str, Any]) -> bool:
    return X86 and LIBC.syscall(0x40000000 | 39) > 0


def outlives_guard(_: Mapping[str, Any]) -> bool:
    """Take back the signal by which a process ends with its parent."""
    kept = ctypes.c_int()
    LIBC.prctl(1, signal.SIGURG, 0, 0, 0)  # PDEATHSIG
    return LIBC.prctl(2, ctypes.byref(kept), 0, 0, 0) == 0 and kept.value == signal.SIGURG


def clones_namespace(_: Mapping[str, Any]) -> bool:
    pid = call("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return pid > 0


def clones3_namespace(_: Mapping[str, Any]) -> bool:
    pid = call("clone3", struct.pack("11Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0), 88)
    if pid == 0:
        os._exit(0)
    return pid > 0


def limits(place: Mapping[str, Any]) -> bool:
    resource.prlimit(place["pid"], resource.RLIMIT_CORE, (0, 0))
    return True


def sets_flags(descriptor: int) -> None:
    fcntl.ioctl(descriptor, 0x40086602, struct.pack("i", 0x40))  # FS_IOC_SETFLAGS, NODUMP


UNIX: dict[str, Attempt] = {
    "connect to a UNIX socket with a path": connects("stream"),
    "connect to an abstract UNIX socket": connects("abstract"),
    "connect to sockets of /proc/self/net/unix": connects_listed,
    "send from a pair of datagrams": sends_to_name(socket.SOCK_DGRAM),
    "connect a pair of datagrams anew": connects_pair,
    "open a UNIX socket": opens(socket.AF_UNIX, socket.SOCK_STREAM),
}
MEMORY: dict[str, Attempt] = {
    "read the shared memory of others": reads_shared_file,
    "change the shared memory of others": changes_shared_file,
    "list the shared memory of others": lists_shared_files,
}
SYSTEM_V: dict[str, Attempt] = {
    "read a System V segment": reads_segment,
    "make a System V segment": makes("shmget", LIBC.shmctl, 4096, 0o1600),
    "make a System V queue": makes("msgget", LIBC.msgctl, 0o1600),
    "make System V semaphores": makes("semget", lambda number, *_: LIBC.semctl(number, 0, 0), 1, 0o1600),
    "open a POSIX queue": opens_queue,
}
OTHERS: dict[str, Attempt] = {
    "limit another process": limits,
    "renice another process": done("setpriority", 0, ":pid", 19),
    "renice a user's processes": taken("setpriority", 2, 54321, 19),  # whom nobody is
    "renice a group of processes": done("setpriority", 1, ":pid", 19),
    "pin another process": done("sched_setaffinity", ":pid", 128, b"\x01" + bytes(127)),
    "schedule another process": done("sched_setscheduler", ":pid", 3, bytes(4)),
    "schedule another process by attributes": done(
        "sched_setattr", ":pid", struct.pack("IIQiIQQQ", 48, 3, 0, 5, 0, 0, 0, 0), 0
    ),
    "order the disk of another process": done("ioprio_set", 1, ":pid", 3 << 13),
    "move the memory of another process": done("migrate_pages", ":pid", 64, bytes(8), bytes(8)),
    "find a lock of another process": done(
        "get_robust_list", ":pid", ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
    ),
}
SIGNALS: dict[str, Attempt] = {
    "signal another process": signals(os.kill),
    "signal another thread": signals(lambda pid, number: call("tkill", pid, number)),
    "signal another thread of a group": signals(lambda pid, number: call("tgkill", pid, pid, number)),
    "signal another group": signals(os.killpg),
    "queue a signal": signals(queue_info),
    "signal by a pidfd": signals(send_by_descriptor),
    "signal by a socket's owner": signals(owns(lambda end, pid: fcntl.fcntl(end, fcntl.F_SETOWN, pid))),
    "signal by a socket's owner, by ioctl": signals(
        owns(lambda end, pid: fcntl.ioctl(end, 0x8901, struct.pack("i", pid)))
    ),
}
TRACING: dict[str, Attempt] = {
    "trace another process": done("ptrace", 0x4206, ":pid", 0, 0),
    "read the memory of another process": reads_memory("process_vm_readv"),
    "change the memory of another process": reads_memory("process_vm_writev"),
    "compare another process": done("kcmp", ":pid", ":pid", 1, 0, 0),
    "take a descriptor of another process": lambda place: (
        call("pidfd_getfd", call("pidfd_open", place["pid"], 0), 0, 0) >= 0
    ),
}
PROC: dict[str, Attempt] = {
    "read the environment of another process": lambda place: bool(Path(f"/proc/{place['pid']}/environ").read_bytes()),
    "read /proc/PID/mem": lambda place: os.open(f"/proc/{place['pid']}/mem", os.O_RDONLY) >= 0,
}
ATTRIBUTES: dict[str, Attempt] = {
    "chmod": changes(lambda place: Path(place["file"]).chmod(0o604)),
    "fchmod": changes(with_file(lambda file: os.fchmod(file, 0o605))),
    "fchmodat2": changes(lambda place: call("fchmodat2", _AT_CWD, place["file"].encode(), 0o606, 0)),
    "chown": changes(lambda place: os.chown(place["file"], -1, place["gid"])),
    "fchown": changes(with_file(lambda file: os.fchown(file, -1, os.getegid()))),
    "utime": changes(lambda place: os.utime(place["file"], (1, 1))),
    "touch": changes(lambda place: os.utime(place["file"])),
    "utime of a descriptor": changes(with_file(lambda file: os.utime(file, (1, 1)))),
    "setxattr": changes(lambda place: os.setxattr(place["file"], "user.escape", b"x")),
    "fsetxattr": changes(with_file(lambda file: os.setxattr(file, "user.file", b"x"))),
    "setxattrat": changes(lambda place: call(
        "setxattrat", _AT_CWD, place["file"].encode(), 0, b"user.at",
        struct.pack("PII", ctypes.addressof(_TEXT), 1, 0), 16)),
    "removexattr": changes(lambda place: os.removexattr(place["file"], "user.there")),
    "chattr": changes(with_file(sets_flags)),
    "file_setattr": changes(lambda place: call(
        "file_setattr", _AT_CWD, place["file"].encode(), struct.pack("QIIII", 0x40, 0, 0, 0, 0), 24, 0)),
}  # fmt: skip
ROOT: dict[str, Attempt] = {
    "make and open kmsg": makes_device(1, 11),
    "make and open loop-control": makes_device(10, 237),
    "make and open mem": makes_device(1, 1),
    "sethostname": taken("sethostname", os.uname().nodename.encode(), len(os.uname().nodename)),
    "setdomainname": taken("setdomainname", b"(none)", 6),
    "klogctl": done("syslog", 10, None, 0),
    "klogctl reads": done("syslog", 3, ctypes.create_string_buffer(64), 64),
    "mount": taken("mount", b"none", b"/proc", b"nothing", 0, None),
    "chroot": taken("chroot", b"/"),
    "pivot_root": taken("pivot_root", b"/nowhere", b"/nowhere"),
    "init_module": taken("init_module", None, 0, None),
    "finit_module": taken("finit_module", -1, b"", 0),
    "kexec_load": taken("kexec_load", 0, 99, None, 0),
    "swapon": taken("swapon", b"/nowhere/at/all", 0),
    "acct": taken("acct", b"/nowhere/at/all"),
    "fsopen": taken("fsopen", b"nothing", 0),
    "fspick": taken("fspick", -1, b"/nowhere", 0),
    "open_tree": taken("open_tree", -1, b"nowhere", 1),
    "open_tree_attr": taken("open_tree_attr", -1, b"nowhere", 1, None, 0),
    "move_mount": taken("move_mount", -1, b"a", -1, b"b", 0),
    "fanotify": taken("fanotify_init", 0x7FFFFFFF, 0),
}
KERNEL: dict[str, Attempt] = {
    # Wrong arguments, which the kernel sees before it looks for the privilege.
    "umount": taken("umount2", b"/nowhere/at/all", 8),
    "set the clock": taken("clock_settime", 99, None),
    "quotactl": taken("quotactl", -1, None, 0, None),
    "quotactl_fd": taken("quotactl_fd", -1, 0, 0, None),
    "mount_setattr": taken("mount_setattr", -1, b"a", 0, None, 0),
    "open_by_handle_at": taken("open_by_handle_at", -1, bytes(64), 0),
    "a user namespace": lambda _: call("unshare", 0x10000000) >= 0,
    "a user namespace by clone": clones_namespace,
    "a user namespace by clone3": clones3_namespace,
    "setns": taken("setns", -1, 0),
    "bpf": taken("bpf", 999, None, 0),
    "perf_event_open": taken("perf_event_open", None, 0, -1, -1, 0),
    "userfaultfd": taken("userfaultfd", 0x7FFFFFF),
    "add_key": done("add_key", b"user", b"escape", b"x", 1, -3),
    "request_key": taken("request_key", b"user", b"escape", None, 0),
    "keyctl": done("keyctl", 0, -3, 1),
    "io_uring": taken("io_uring_setup", 0, None),
    "name_to_handle_at": taken("name_to_handle_at", -1, b"a", bytes(8), bytes(8), 0),
    "watch files": done("inotify_init1", 0),
    "listmount": taken("listmount", None, None, 0, 0),
    "process_madvise": taken("process_madvise", -1, None, 0, 0, 0),
    "process_mrelease": taken("process_mrelease", -1, 0),
    "memfd_secret": taken("memfd_secret", 99),
    "personality": done("personality", 0x0040000),
    "the 32-bit calls": calls_ia32,
    "the x32 calls": calls_x32,
    "outlive the guard": outlives_guard,
    "an older kernel's gate": taken("lookup_dcookie", 0, None, 0),
}
SOCKETS: dict[str, Attempt] = {
    "open UDP": opens(socket.AF_INET, socket.SOCK_DGRAM),
    "open UDP with flags": opens(socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC),
    "open a raw socket": opens(socket.AF_INET, socket.SOCK_RAW, 1),
    "open a ping socket": opens(socket.AF_INET, socket.SOCK_DGRAM, 1),
    "open a packet socket": opens(17, socket.SOCK_RAW),
    "open netlink": opens(16, socket.SOCK_RAW),
    "open a socket of a virtual machine": opens(40, socket.SOCK_STREAM),
    "open the kernel's ciphers": opens(38, socket.SOCK_SEQPACKET),
    "open SCTP": opens(socket.AF_INET, socket.SOCK_STREAM, 132),
    "open MPTCP": opens(socket.AF_INET, socket.SOCK_STREAM, 262),
}
TCP: dict[str, Attempt] = {"connect by TCP": connects_inet, "connect by TCP's fast open": fast_open}
PROGRAMS: dict[str, Attempt] = {
    "start a shell": lambda _: starts("/bin/sh", "-c", "true"),
    "start a program of its own": starts_own,
    "start a program in memory": starts_memory,
    "start a program by a descriptor": lambda _: starts_at(os.open("/usr/bin/true", os.O_RDONLY)),
}
LOADER: dict[str, Attempt] = {"start a program by the loader": lambda place: starts(place["loader"], "/usr/bin/true")}

GROUPS = (
    UNIX, MEMORY, SYSTEM_V, OTHERS, SIGNALS, TRACING, PROC, ATTRIBUTES, ROOT, KERNEL, SOCKETS, TCP, PROGRAMS, LOADER,
)  # fmt: skip
ATTEMPTS = {name: attempt for group in GROUPS for name, attempt in group.items()}


def try_all(place: Mapping[str, Any]) -> dict[str, bool]:
    """Make each attempt in a process of its own, so that none changes what the next one meets."""
    return {name: _try(attempt, place) for name, attempt in ATTEMPTS.items()}


def _try(attempt: Attempt, place: Mapping[str, Any]) -> bool:
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        through = False
        try:
            through = bool(attempt(place))
        except OSError:
            pass
        finally:
            os._exit(42 if through else 0)
    return os.waitpid(pid, 0)[1] == 42 << 8
