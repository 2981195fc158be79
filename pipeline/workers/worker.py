"""The process on the other side of isolation.py: it does one job, or holds one opened object, and answers.

It reads requests and writes replies, one JSON document a line, on the socket whose number is its first argument; stdout
and stderr are the log's.

    {"do": "work", "entry": "package.module:name", "job": {inputs, out, options, services, checkpoints}}
    {"do": "open", "entry": ..., "options": {...}}     makes the object that later requests ask
    {"do": "ask", "method": ..., "options": {...}}
    -> {"value": ..., "read": [...]} | {"error": {"kind", "what", "fix"}}

A request has an `id`, which its reply repeats.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pkgutil
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from ...models.errors import ERRORS, TransloadError
from ...models.job import WALLED, Job
from ...models.library_messages import first_line, told_by
from ...models.store import disk_full, is_disk_full
from .guard import fork_below_guard, send_by_guard
from .walls.descriptor_copies import hand_on_copies
from .walls.sandbox import landlock_version, raise_walls
from .walls.system_calls import HOLDS_SIGNALS

_CLONE_NEWNET = 0x40000000
_MOST_OPEN_FILES = 4096
_MOST_NEW_TASKS = 4096  # processes and threads; the parent ends a worker with many processes before (isolation.py)
_LOOPBACK = ("127.", "::1", "localhost")


def serve(connection: int, lifeline: int) -> NoReturn:
    """Serve one parent until it closes the socket `connection`, or the pipe `lifeline`."""
    wished = fork_below_guard(connection, lifeline)
    setup = json.loads(os.environ.pop("TRANSLOAD_WORKER"))
    _limit_resources(setup["file_bytes"])
    is_walled = setup["walls"] is not None
    _close_network(loopback=setup["loopback"], named=setup["host"], is_walled=is_walled)
    if is_walled:
        raise_walls(**setup["walls"])  # before there is another thread
        hand_on_copies()
        if landlock_version() < HOLDS_SIGNALS:
            send_by_guard(wished)
        os.environ[WALLED] = "1"
    sys.path.extend(path for path in setup["sys_path"] if path not in sys.path)
    read = _record_reads(setup["not_recorded"]) if setup["sys_path"] else set()
    _answer_all(socket.socket(fileno=connection), setup["alarm_s"], read)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the frameworks' own teardown takes seconds and has crashed; nothing is left to save


def _limit_resources(file_bytes: int) -> None:
    """Limit what this process and all that it starts may take, where the kernel counts it."""
    tasks = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    most = {
        resource.RLIMIT_NOFILE: _MOST_OPEN_FILES,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_NPROC: tasks + _MOST_NEW_TASKS,  # it counts all of the user's, and none of root's
    }
    for kind, limit in most.items():
        hard = resource.getrlimit(kind)[1]
        lowest = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (lowest, lowest))


def _limit_time(seconds: int) -> None:
    """Let the kernel end this process after this time, or as much on all cores. 0: no limit."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = int(used.ru_utime + used.ru_stime) + seconds * len(os.sched_getaffinity(0))
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s if seconds and not 0 <= hard < cpu_s else hard, hard))
    signal.alarm(seconds)  # also where C code holds on to the interpreter for ever


def _answer_all(connection: socket.socket, alarm_s: int, read: set[str]) -> None:
    held: Any = None
    with connection.makefile("rwb") as stream:
        for line in stream:
            request = json.loads(line)
            reply: dict[str, Any]
            _limit_time(alarm_s)
            try:
                if request["do"] == "open":
                    held = pkgutil.resolve_name(request["entry"])(**request["options"])
                    value: Any = None
                elif request["do"] == "ask":
                    value = getattr(held, request["method"])(**request["options"])
                else:
                    value = pkgutil.resolve_name(request["entry"])(_job(request["job"]))
                reply = {"value": value, "read": sorted(path for path in read if os.path.isfile(path))}  # noqa: PTH113
            except BaseException as error:  # noqa: BLE001  (SystemExit of a tool, too, becomes a sentence)
                traceback.print_exc()
                reply = {"error": _described(error)}
            _limit_time(0)
            sys.stdout.flush()
            stream.write(json.dumps({"id": request["id"], **reply}).encode() + b"\n")
            stream.flush()
    if held is not None:
        held.close()


def _job(record: Mapping[str, Any]) -> Job:
    checkpoints = record.get("checkpoints")
    return Job(
        inputs={name: Path(folder) for name, folder in record["inputs"].items()},
        out=Path(record["out"]),
        options=record["options"],
        services=record.get("services", {}),
        checkpoints=Path(checkpoints) if checkpoints else None,
        answer_s=record.get("answer_s"),
        toolchain=record.get("toolchain", {}),
    )


def _described(error: BaseException) -> dict[str, str]:
    """Describe an error for the parent. One that is not ours is `foreign`: the parent adds log and repeat command."""
    if isinstance(error, TransloadError):
        kind = next((cls.__name__ for cls in type(error).__mro__ if cls.__name__ in ERRORS), "StepFailed")
        return {"kind": kind, "what": error.what, "fix": error.fix}
    if is_disk_full(error):
        full = disk_full(Path.cwd().parent)
        return {"kind": "DiskFull", "what": full.what, "fix": full.fix}
    if isinstance(error, MemoryError):
        return {"kind": "exhausted", "what": "ran out of memory", "fix": ""}
    if isinstance(error, SystemExit):
        return {"kind": "foreign", "what": f"called exit({error.code})", "fix": ""}
    message = first_line(error, 300, nothing="no message")
    return {"kind": "foreign", "what": f"{type(told_by(error)).__name__}: {message}", "fix": ""}


def _record_reads(not_recorded: list[str]) -> set[str]:
    """Record the files that the user's code reads from now on: its result depends on them, and nobody else knows."""
    read: set[str] = set()
    not_ours = tuple(f"{Path(folder)}/" for folder in (*_SYSTEM, sys.prefix, sys.base_prefix, *not_recorded))

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            path = os.path.abspath(arguments[0])  # noqa: PTH100  (a Path would open nothing, and cost more)
            if not path.startswith(not_ours) and "__pycache__" not in path:
                read.add(path)

    sys.addaudithook(note)
    return read


_SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/lib64")


def _close_network(*, loopback: bool, named: str | None, is_walled: bool) -> None:
    """Let no packet leave.
    Workers that talk to nobody get an empty network namespace where the kernel lets us, those between walls with the
    others of theirs (walls/namespaces.py). All get a guard on Python's sockets, which names the offender in the log."""
    allowed = addresses_of(named) if loopback and named else set()
    if not (loopback or is_walled):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET)  # needs privilege; without it the guard remains

    def guard(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.getaddrinfo":
            host = arguments[0]
        elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
            host = arguments[1][0]
        else:
            return
        if not (loopback and (host in allowed or str(host or "localhost").startswith(_LOOPBACK))):
            raise PermissionError(
                f"a worker tried to reach {host} over the network; nothing leaves this machine in a run"
            )

    sys.addaudithook(guard)


def addresses_of(host: str) -> set[str]:
    """Return a host's name and its addresses, by which sockets connect to it."""
    with contextlib.suppress(OSError):
        return {host, *(str(row[4][0]) for row in socket.getaddrinfo(host, None))}
    return {host}


if __name__ == "__main__":
    serve(*map(int, sys.argv[1:]))
