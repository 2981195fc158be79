"""The filter of system calls, computed as the kernel computes it, for both machines and all kinds of workers."""

from __future__ import annotations

import errno
import itertools
import os
import random
import re
import struct
from pathlib import Path

import pytest

from transload.pipeline.workers.walls.system_calls import MACHINES, listed_calls, program, rules_of

PID = 4242
ALLOW, KIND = 0x7FFF0000, 0xFFFF0000
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
KINDS = [
    {"tcp": tcp, "gpu": gpu, "execve": execve, "landlock": landlock}
    for tcp, gpu, execve, landlock in itertools.product((False, True), (False, True), (False, True), (0, 3, 6))
    if landlock or not execve
]
# Calls that no worker of any kind may make, with whatever arguments.
NEVER = {
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "mount", "umount2", "pivot_root", "chroot",
    "unshare", "setns", "bpf", "perf_event_open", "userfaultfd", "add_key", "request_key", "keyctl", "init_module",
    "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct",
    "io_uring_setup", "io_uring_enter", "io_uring_register", "name_to_handle_at", "open_by_handle_at", "move_mount",
    "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "pidfd_open", "pidfd_getfd",
    "pidfd_send_signal", "process_madvise", "process_mrelease", "execveat", "clone3", "sethostname",
    "setdomainname", "syslog", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "quotactl",
    "quotactl_fd", "shmget", "shmat", "shmctl", "shmdt", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop",
    "semctl", "semtimedop", "mq_open", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "sched_setscheduler",
    "sched_setparam", "sched_setattr", "ioprio_set", "migrate_pages", "move_pages", "chmod", "fchmod", "fchmodat",
    "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "futimesat", "utimensat", "setxattr",
    "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat",
    "file_setattr", "inotify_init", "inotify_init1", "fanotify_init", "fanotify_mark", "iopl", "ioperm",
    "modify_ldt", "personality", "capset", "setuid", "setgid", "setgroups", "setresuid", "setresgid",
    "memfd_secret", "vhangup", "seccomp",
}  # fmt: skip


def judge(code: list[tuple[int, int, int, int]], data: bytes) -> int:
    """Compute what a filter returns for a call (linux/filter.h)."""
    value = at = 0
    while True:
        kind, if_true, if_false, operand = code[at]
        at += 1
        if kind == 0x20:
            value = struct.unpack_from("<I", data, operand)[0]
        elif kind == 0x54:
            value &= operand
        elif kind == 0x05:
            at += operand
        elif kind in (0x15, 0x25, 0x35):
            holds = {0x15: value == operand, 0x25: value > operand, 0x35: value >= operand}[kind]
            at += if_true if holds else if_false
        else:
            assert kind == 0x06
            return operand


class Filter:
    """The filter of a kind of worker on a machine."""

    def __init__(self, machine: str, kind: dict[str, int]) -> None:
        text = b"".join(program(machine, rules_of(**kind, pid=PID)))  # type: ignore[arg-type]
        self.code = [struct.unpack_from("HBBI", text, at) for at in range(0, len(text), 8)]
        self.machine = machine
        self.numbers = {name: number for _, name, number in listed_calls(machine)}

    def allows(self, name: str, *arguments: int) -> bool:
        return self.result(self.numbers[name], *arguments) == ALLOW

    def result(self, number: int, *arguments: int, machine: int | None = None) -> int:
        words = [word & (1 << 64) - 1 for word in arguments] + [0] * (6 - len(arguments))
        return judge(self.code, struct.pack("<IIQ6Q", number, machine or MACHINES[self.machine], 0, *words))


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def numbers_of(machine: str) -> dict[str, int]:
    """Return the numbers that the kernel's headers name."""
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers are not installed")
    text = HEADERS[machine].read_text()
    pattern = r"#define __NR(?:3264)?_(\w+)\s+(\d+)"
    numbers = {name: int(number) for name, number in re.findall(pattern, text)}
    # The generic header names a few calls by what they are on machines of 32 bits.
    return {**numbers, "newfstatat": numbers.get("newfstatat", numbers.get("fstatat", -1))}


def test_the_numbers_are_the_kernels(machine: str) -> None:
    numbers = numbers_of(machine)
    listed = {name: number for _, name, number in listed_calls(machine)}
    assert {name: number for name, number in listed.items() if numbers.get(name, number) != number} == {}
    unknown = {name for name, number in listed.items() if name not in numbers and number <= max(numbers.values())}
    assert unknown == set()


def test_no_number_and_no_name_is_listed_twice(machine: str) -> None:
    names = [name for _, name, _ in listed_calls(machine)]
    numbers = [number for _, _, number in listed_calls(machine)]
    assert len(set(names)) == len(names)
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_no_worker_may_do_is_refused_with_all_arguments(kind: dict[str, int], machine: str) -> None:
    worker, numbers, draw = Filter(machine, kind), numbers_of(machine), random.Random(7)  # noqa: S311
    numbers |= worker.numbers
    for name in NEVER & numbers.keys():
        for _ in range(20):
            arguments = [draw.choice((0, 1, PID, draw.getrandbits(32), draw.getrandbits(64))) for _ in range(6)]
            assert worker.result(numbers[name], *arguments) & KIND == 0x00050000, name


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_other_number_is_refused_and_a_new_one_is_absent(kind: dict[str, int], machine: str) -> None:
    worker = Filter(machine, kind)
    listed = set(worker.numbers.values())
    for number in range(1200):
        result = worker.result(number)
        assert result & KIND in {ALLOW, 0x00050000}  # never the end of the worker
        if number not in listed:
            assert result == 0x00050000 | (errno.ENOSYS if number > 469 else errno.EPERM)
    for number in (39, 59):  # the second set of calls, and those of other machines
        assert worker.result(0x40000000 | number) == 0x00050000 | errno.EPERM
        assert worker.result(number, machine=0x40000003) == 0x00050000 | errno.EPERM


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_arguments_decide(kind: dict[str, int], machine: str) -> None:
    allows = Filter(machine, kind).allows
    tcp, signals = bool(kind["tcp"]), kind["landlock"] >= 6
    for family, type_, protocol in itertools.product((0, 1, 2, 10, 16, 17, 38, 40), range(8), (0, 1, 6, 17, 132, 262)):
        expected = tcp and family in {2, 10} and type_ == 1 and protocol in {0, 6}
        for flags in (0, 0o2000000, 0o4000, 0o2004000):
            assert allows("socket", family, type_ | flags, protocol) is expected
            assert allows("socketpair", family, type_ | flags, protocol) is (family == 1 and type_ in {1, 5})
    for name in ("connect", "bind", "listen", "accept4", "setsockopt"):
        assert allows(name, 3) is tcp
    for pid in (0, 1, PID, PID + 1, -1, -PID, PID + (1 << 32)):
        itself = pid & 0xFFFFFFFF in {0, PID}
        assert allows("prlimit64", pid, 7) is itself
        assert allows("sched_setaffinity", pid, 8) is itself
        assert allows("setpriority", 0, pid, 5) is itself
        assert not allows("setpriority", 1, pid, 5)
        assert not allows("setpriority", 2, pid, 5)
        for name in ("kill", "tkill", "tgkill"):
            assert allows(name, pid, 9) is (signals or pid & 0xFFFFFFFF == PID)
    assert allows("execve") is bool(kind["execve"])
    assert allows("memfd_create") is not bool(kind["execve"])
    assert allows("truncate") is (kind["landlock"] >= 3)


def test_flags_of_a_clone_a_node_and_a_descriptor_decide(machine: str) -> None:
    allows = Filter(machine, KINDS[0]).allows
    assert allows("clone", 0x3D0F00)  # a thread
    assert allows("clone", 0x1200011)  # a fork
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert not allows("clone", flag | 17)
    for kind, expected in ((0o100000, True), (0o010000, True), (0, True), (0o020000, False), (0o060000, False)):
        assert allows("mknodat", -100, 0, kind | 0o644) is expected
    assert not allows("mknodat", -100, 0, 0o140644)  # a socket
    assert {command for command in range(2048) if allows("fcntl", 3, command)} == {
        *range(8), 36, 37, 38, 1030, 1031, 1032, 1033, 1034,
    }  # fmt: skip
    for command in (0x5412, 0x541C, 0x540E, 0x8901, 0x8902, 0x40086602, 0x401C5820, 0x6601):
        assert not allows("ioctl", 3, command)
        assert not Filter(machine, {**KINDS[0], "gpu": True}).allows("ioctl", 3, command)
    assert Filter(machine, {**KINDS[0], "gpu": True}).allows("ioctl", 3, 0xC020462A)  # the driver of NVIDIA
    assert not allows("ioctl", 3, 0xC020462A)
    assert (
        Filter(machine, KINDS[0]).result(Filter(machine, KINDS[0]).numbers["prctl"], 1, 9) == 0x00050000
    )  # a pretence
    assert not any(allows("prctl", option) for option in (1, 4, 8, 22, 28, 35, 36, 47, 59, 62, 0x59616D61))
    assert allows("prctl", 15)


def test_a_change_of_a_file_is_answered_as_if_it_were_made(machine: str) -> None:
    worker = Filter(machine, KINDS[0])
    for name in ("fchmod", "fchownat"):
        assert worker.result(worker.numbers[name], 3) == 0x00050000
    utimensat = worker.numbers["utimensat"]
    assert worker.result(utimensat, -100, 1 << 40, 0x7FFE0010) == 0x00050000
    assert worker.result(utimensat, -100, 1 << 40, 0) == 0x00050000 | errno.EPERM  # `touch` then makes the file
    assert os.strerror(worker.result(worker.numbers["fsetxattr"]) & 0xFFFF) == "Operation not supported"
