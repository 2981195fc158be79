"""The filter of system calls: a list of what workers need, for each kind of worker; all else is refused.

https://docs.kernel.org/userspace-api/seccomp_filter.html. A filter sees numbers and not memory, so calls whose flags
lie in memory are refused as a whole. No call ends the worker: it returns an error, as on a kernel that lacks it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # linux/audit.h

_LIST = Path(__file__).with_name("system_calls.txt")
_SET_SECCOMP, _FILTER = 22, 2  # of prctl
_X32 = 0x40000000  # a second set of calls on x86_64
_LOAD, _AND, _JUMP, _EQUAL, _ABOVE, _AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x25, 0x35, 0x06  # of linux/filter.h
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS, _EINVAL, _ENOTTY, _ENOTSUP, _EAFNOSUPPORT = 1, 38, 22, 25, 95, 97
_NEWEST = 469  # the last call that the list's rules were made for; later ones are absent, and libraries do without

_FULL = 0xFFFFFFFF
_HOLDS_TRUNCATE, HOLDS_SIGNALS = 3, 6  # versions of Landlock
_NEW_NAMESPACES = 0x7E020000  # the flags CLONE_NEW* of clone
_UNIX, _INET, _INET6 = 1, 2, 10
_STREAM, _SEQPACKET, _TYPES = 1, 5, 0xF
_TCP = (0, 6)  # protocols of a stream
_DEVICES = 0x6000  # the bits of mknod's mode that devices and sockets have, and files and pipes have not
# Duplicates, flags, locks, sizes of pipes, seals. Not F_SETOWN, F_SETSIG and F_NOTIFY, which send signals, or leases.
_FCNTL = (*range(8), *range(36, 39), *range(1030, 1035))
# Terminals' modes and sizes, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX. Not TIOCSTI, nor FS_IOC_SETFLAGS (chattr).
_IOCTL = (0x5401, 0x802C542A, 0x5413, 0x540F, 0x541B, 0x5421, 0x5450, 0x5451)
_OF_DRIVERS = (0x0000, 0x4600, 0x4B00, 0x6400)  # the kinds of NVIDIA's and AMD's drivers
# GET_DUMPABLE, NAME, SECCOMP, CAPBSET_READ, TIMERSLACK, NO_NEW_PRIVS, THP, SVE, TAGGED_ADDR, SET_VMA.
_PRCTL = (3, 15, 16, 21, 23, 29, 30, 38, 39, 41, 42, 50, 51, 55, 56, 0x53564D41)

_PDEATHSIG = 1

# An argument, the bits of it that count, and the values that it may have.
Check = tuple[int, int, tuple[int, ...]]


class CallRule(NamedTuple):
    """What becomes of a call."""

    otherwise: int  # an error, or 0 for a call that does nothing and says that it succeeded; where no case applies
    allowed: list[list[Check]]  # cases, each of checks that all have to hold
    answered: tuple[int, list[Check]] = (0, [])  # another error or 0, and the checks of its case


def hold_calls(*, tcp: bool, gpu: bool, execve: bool, landlock: int) -> None:
    """Let this process and all that it starts make the calls of the list from now on.
    `landlock`: its version, 0 for none. What an old one does not hold, the filter refuses."""
    rules = rules_of(tcp=tcp, gpu=gpu, execve=execve, landlock=landlock, pid=os.getpid())
    code = b"".join(program(platform.machine(), rules))
    buffer = ctypes.create_string_buffer(code)
    head = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_SECCOMP, _FILTER, head, 0, 0):
        raise OSError(ctypes.get_errno(), "the seccomp filter is refused")


def rules_of(*, tcp: bool, gpu: bool, execve: bool, landlock: int, pid: int) -> dict[str, CallRule]:
    """Return the rules of a kind of worker, by the list's words and, for "argument", by the names of calls."""
    allow, refuse = CallRule(_EPERM, [[]]), CallRule(_EPERM, [])
    own = CallRule(_EPERM, [[(0, _FULL, (0, pid))]])
    signalled = allow if landlock >= HOLDS_SIGNALS else CallRule(_EPERM, [[(0, _FULL, (pid,))]])
    families = (_INET, _INET6) if tcp else ()
    drivers: list[list[Check]] = [[(1, 0xFF00, _OF_DRIVERS)]] if gpu else []
    return {
        "allow": allow,
        "absent": CallRule(_ENOSYS, []),  # libraries then do without
        # Libraries set modes and times of files, and fail where they cannot; nothing depends on them. Without a time
        # they want to know whether there is a file.
        "pretend": CallRule(0, []),
        "utimensat": CallRule(0, [], (_EPERM, [(2, _FULL, (0,))])),
        "unsupported": CallRule(_ENOTSUP, []),
        "server": allow if tcp else refuse,
        "program": allow if execve else refuse,
        "compute": CallRule(_ENOSYS, []) if execve else allow,  # a program in memory could be started past Landlock
        "truncate": allow if landlock >= _HOLDS_TRUNCATE else refuse,
        "socket": CallRule(_EAFNOSUPPORT, [[(0, _FULL, families), (1, _TYPES, (_STREAM,)), (2, _FULL, _TCP)]]),
        # Not of datagrams, which could be sent to another address.
        "socketpair": CallRule(_EAFNOSUPPORT, [[(0, _FULL, (_UNIX,)), (1, _TYPES, (_STREAM, _SEQPACKET))]]),
        "clone": CallRule(_EPERM, [[(0, _NEW_NAMESPACES, (0,))]]),
        "fcntl": CallRule(_EINVAL, [[(1, _FULL, _FCNTL)]]),
        "ioctl": CallRule(_ENOTTY, [[(1, _FULL, _IOCTL)], *drivers]),
        # torch.multiprocessing sets PDEATHSIG, by which a worker ends with its guard.
        "prctl": CallRule(_EINVAL, [[(0, _FULL, _PRCTL)]], (0, [(0, _FULL, (_PDEATHSIG,))])),
        "prlimit64": own,
        "sched_setaffinity": own,
        "setpriority": CallRule(_EPERM, [[(0, _FULL, (0,)), (1, _FULL, (0, pid))]]),
        "mknod": CallRule(_EPERM, [[(1, _DEVICES, (0,))]]),
        "mknodat": CallRule(_EPERM, [[(2, _DEVICES, (0,))]]),
        **dict.fromkeys(("kill", "tkill", "tgkill"), signalled),
    }


def listed_calls(machine: str) -> Iterator[tuple[str, str, int]]:
    """Yield of each call that the list names: the word of its rule, its name and its number on this machine."""
    column = 1 + list(MACHINES).index(machine)
    for line in _LIST.read_text().splitlines():
        word, *calls = line.split()
        for call in calls if word != "#" else ():
            parts = call.split(":")
            if parts[column] != "-":
                yield word, parts[0], int(parts[column])


def program(machine: str, rules: Mapping[str, CallRule]) -> Iterator[bytes]:
    """Yield the instructions of the filter (linux/filter.h): code, jumps if true and if false, operand.
    The data that they read is {int number; u32 machine; u64 instruction; u64 arguments[6]}."""
    yield _instruction(_LOAD, 4)
    yield _instruction(_EQUAL, MACHINES[machine], 1, 0)
    yield _instruction(_RETURN, _ERROR | _EPERM)
    yield _instruction(_LOAD, 0)
    yield _instruction(_AT_LEAST, _X32, 0, 1)
    yield _instruction(_RETURN, _ERROR | _EPERM)
    always: list[tuple[int, CallRule]] = []
    sometimes: list[tuple[int, CallRule]] = []
    for word, name, number in listed_calls(machine):
        rule = rules[name if word == "argument" else word]
        (always if [] in rule.allowed else sometimes).append((number, rule))
    for first, last in _ranges(number for number, _ in always):  # at once: the kernel remembers that they always pass
        yield _instruction(_ABOVE, last, 2, 0)
        yield _instruction(_AT_LEAST, first, 0, 1)
        yield _instruction(_RETURN, _ALLOW)
    for number, rule in sometimes:
        block = b"".join(_judge(rule))
        yield _instruction(_EQUAL, number, 0, len(block) // 8)
        yield block
    yield _instruction(_ABOVE, _NEWEST, 0, 1)
    yield _instruction(_RETURN, _ERROR | _ENOSYS)
    yield _instruction(_RETURN, _ERROR | _EPERM)


def _judge(rule: CallRule) -> Iterator[bytes]:
    """Yield what ends with a case's action where all its checks hold, and goes on behind it where one fails."""
    error, answered = rule.answered
    cases = [(_ALLOW, checks) for checks in rule.allowed] + ([(_ERROR | error, answered)] if answered else [])
    for action, checks in cases:
        rest = _instruction(_RETURN, action)
        for argument, bits, values in reversed(checks):
            head = _instruction(_LOAD, 16 + 8 * argument) + _instruction(_AND, bits)
            for at, value in enumerate(values):
                head += _instruction(_EQUAL, value, len(values) - at, 0)
            rest = head + _instruction(_JUMP, len(rest) // 8) + rest
        yield rest
    yield _instruction(_RETURN, _ERROR | rule.otherwise)


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Return the first and the last number of each run of numbers without a gap."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, operand)
