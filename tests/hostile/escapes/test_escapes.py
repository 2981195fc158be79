"""No attempt of a worker's code gets through, but those that docs/security.md names with their reason."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from transload.models.errors import StepFailed
from transload.pipeline.commands.stages import model_process
from transload.pipeline.workers.compiler import find_compiler
from transload.pipeline.workers.isolation import Limits, Spawn
from transload.pipeline.workers.walls import sandbox
from transload.pipeline.workers.walls.system_calls import HOLDS_SIGNALS
from transload.serving.server.repository.version_keeper import VersionSource

from . import attempts
from .worker_kinds import KINDS

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534
IS_ROOT = not os.geteuid()
USERS = (0, NOBODY) if IS_ROOT else (os.geteuid(),)
GROUP = 54322  # that files may be given to

OTHER = """
import ctypes, os, signal, sys
user, shared = int(sys.argv[1]), sys.argv[2]
if os.getuid() != user:
    os.setgroups([]), os.setresgid(user, user, user), os.setresuid(user, user, user)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0, 4096, 0o1600)
ctypes.memmove(libc.shmat(segment, None, 0), b"canary", 6)
open(shared, "wb").write(b"canary")
signal.pthread_sigmask(signal.SIG_BLOCK, range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
print(segment, flush=True)
sys.stdin.read()
libc.shmctl(segment, 0, None)
os.unlink(shared)
"""


@pytest.fixture(params=USERS, ids=lambda user: "root" if not user else "a user")
def place(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """A folder that all can reach, and another process of the same user with shared memory and sockets."""
    user = request.param
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="escapes-", dir="/tmp")))
        (folder / "cwd").mkdir()
        (folder / "file").write_text("outside")
        folder.chmod(0o755)
        with contextlib.suppress(OSError):
            os.setxattr(folder / "file", "user.there", b"x")
        sockets = {"stream": str(folder / "stream"), "abstract": f"\0escape-{os.getpid()}-{user}"}
        for address in sockets.values():
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(address)
            listener.listen()
        datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        datagrams.bind(str(folder / "datagrams"))
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for path in (folder / "cwd", folder / "file", folder / "stream", folder / "datagrams"):
            os.chown(path, user, -1)
        shared = f"/dev/shm/escape-{os.getpid()}-{user}"
        command = [sys.executable, "-c", OTHER, str(user), shared]
        other = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        )
        assert other.stdout is not None
        yield {
            "user": user, "folder": str(folder), "file": str(folder / "file"), "gid": GROUP, **sockets,
            "datagrams": str(folder / "datagrams"), "port": server.getsockname()[1], "pid": other.pid,
            "shared": shared, "segment": int(other.stdout.readline()),
        }  # fmt: skip


def passed(kind: str, walls: str, place: dict[str, Any]) -> set[str]:
    """Return the names of the attempts that got through."""
    request = json.dumps({"user": place["user"], "kind": kind, "walls": walls, "place": place})
    command = [sys.executable, "-m", "tests.hostile.escapes.worker_kinds", request]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    cwd = Path(place["folder"], "cwd")
    ended = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert not ended.returncode, ended.stderr
    return set(json.loads(ended.stdout))


needs_landlock = pytest.mark.skipif(not sandbox.landlock_version(), reason="this kernel has no Landlock")


# What docs/security.md says of each kind, and why.
BY_DESIGN = {
    "a worker": set(),
    "a worker that measures": set(attempts.TCP),
    "a worker that compiles": set(attempts.LOADER),
}
# What each wall does not hold by itself. Landlock knows files, programs, TCP, and signals and tracing of others.
NOT_BY_LANDLOCK = {
    *attempts.UNIX, *attempts.SYSTEM_V, *attempts.OTHERS, *attempts.ATTRIBUTES, *attempts.KERNEL, *attempts.SOCKETS,
    "start a program in memory", "connect by TCP's fast open", "compare another process",
}  # fmt: skip
# seccomp sees no names of files.
NOT_BY_SECCOMP = {*attempts.MEMORY, *attempts.PROC}


@needs_landlock
@pytest.mark.parametrize("walls", ["all", "in a container"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_gets_out_of_a_worker(kind: str, walls: str, place: dict[str, Any]) -> None:
    if "compiles" in kind and find_compiler() is None:
        pytest.skip("there is no C++ compiler here")
    assert passed(kind, walls, place) <= BY_DESIGN[kind]


@needs_landlock
@pytest.mark.parametrize("kind", KINDS)
def test_landlock_alone_holds_files_programs_and_signals(kind: str, place: dict[str, Any]) -> None:
    through = passed(kind, "Landlock alone", place)
    unknown = {*attempts.SIGNALS, *attempts.TCP} if sandbox.landlock_version() < HOLDS_SIGNALS else set()
    assert through <= NOT_BY_LANDLOCK | BY_DESIGN[kind] | unknown
    assert len(through) > 30  # the attempts are real: without the filter they get through


@pytest.mark.parametrize("kind", KINDS)
def test_seccomp_alone_holds_all_but_files(kind: str, place: dict[str, Any]) -> None:
    through = passed(kind, "seccomp alone", place)
    assert through <= NOT_BY_SECCOMP | (BY_DESIGN[kind] & set(attempts.TCP))
    assert through >= set(attempts.MEMORY)


@needs_landlock
def test_nothing_gets_out_of_the_process_of_a_served_model(
    place: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As serve starts it, with its channel; of this user, whoever the place's other process belongs to."""
    spies = tmp_path / "spies"
    spies.mkdir()
    shutil.copy(attempts.__file__, spies / "attempts.py")
    place |= {"loader": "/nowhere", "worker": "self", "status": -1}
    spy = f"""
import json, os, attempts
def look(line, **_options):
    place = {place!r}
    through = {{name for name, passed in attempts.try_all(place).items() if passed}}
    print("THROUGH", json.dumps(sorted(through)), flush=True)
    raise ValueError("looked")
"""
    (spies / "spy.py").write_text(spy)
    monkeypatch.setattr(model_process, "_HOST", "spy:look")
    monkeypatch.setattr(
        model_process, "Spawn", lambda *known, **more: replace(Spawn(*known, **more), sys_path=(str(spies),))
    )
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    processes = model_process.ModelProcesses(tmp_path, Limits(seconds=120))
    source = VersionSource("net", 1, tmp_path / "a.onnx")
    with pytest.raises(StepFailed, match="looked"):
        processes.open(source, threading.Event())
    assert "THROUGH []\n" in processes.log(source).read_text()
    status = Path(f"/proc/{place['pid']}/status").read_text()
    pending = dict(line.split(":", 1) for line in status.splitlines())
    assert int(pending["ShdPnd"], 16) == int(pending["SigPnd"], 16) == 0


def test_without_walls_nearly_all_of_it_is_possible(place: dict[str, Any]) -> None:
    """What the kernel refuses to the user, it refuses here, too; and no harm is left."""
    through = passed("a worker", "none", place)
    expected = {
        *attempts.UNIX, *attempts.MEMORY, *attempts.SYSTEM_V, *attempts.SIGNALS, *attempts.TCP, *attempts.PROGRAMS,
        *attempts.PROC, *attempts.ATTRIBUTES, "limit another process", "renice another process", "pin another process",
    }  # fmt: skip
    new_calls = {"fchmodat2", "setxattrat", "file_setattr"}  # which an older kernel lacks
    assert expected - through <= new_calls
