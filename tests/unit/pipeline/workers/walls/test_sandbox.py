"""What the kernel refuses to a worker, tried from inside of one."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from transload.pipeline.plan import context
from transload.pipeline.workers.compiler import find_compiler
from transload.pipeline.workers.isolation import Limits, Spawn, run_alone
from transload.pipeline.workers.walls import sandbox
from transload.pipeline.workers.walls.system_calls import HOLDS_SIGNALS

JOBS = """
import ctypes, os, signal, socket, subprocess, sys
from pathlib import Path

def tried(act):
    try:
        act()
    except (OSError, subprocess.SubprocessError) as error:
        return os.strerror(error.errno)
    return "done"

def clone_namespace():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000):  # a user's namespace, in which it would be root
        raise OSError(ctypes.get_errno(), "")

def trace():  # PTRACE_SEIZE stops nobody
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(0x4206, os.getppid(), 0, 0):
        raise OSError(ctypes.get_errno(), "")

def attempts(job):
    place = {name: Path(text) for name, text in job.options.items()}
    acts = {
        "read beside": lambda: place["secret"].read_text(),
        "list beside": lambda: list(place["secret"].parent.iterdir()),
        "read through a link": lambda: (place["input"] / "link").read_text(),
        "write beside": lambda: place["outside"].write_text("x"),
        "write the input": lambda: (place["input"] / "file").write_text("x"),
        "read the input": lambda: (place["input"] / "file").read_text(),
        "remove the input": lambda: (place["input"] / "file").unlink(),
        "write the result": lambda: (Path(job.out) / "file").write_text("x"),
        "write its own": lambda: Path("own").write_text("x"),
        "parent's environment": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
        "start a program": lambda: subprocess.run([sys.executable, "-c", ""]),
        "fork": lambda: os.waitpid(os.fork() or os._exit(0), 0),
        "signal the parent": lambda: os.kill(os.getppid(), 0),
        "open UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "open netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        "a namespace": clone_namespace,
        "trace the parent": trace,
    }
    return {name: tried(act) for name, act in acts.items()}
"""
FILES = {
    "read beside": "Permission denied",
    "list beside": "Permission denied",
    "read through a link": "Permission denied",
    "write beside": "Permission denied",
    "write the input": "Permission denied",
    "remove the input": "Permission denied",
    "parent's environment": "Permission denied",
    "signal the parent": "Operation not permitted",
}
CALLS = {
    "open UDP": "Address family not supported by protocol",
    "open netlink": "Address family not supported by protocol",
    "a namespace": "Operation not permitted",
    "trace the parent": "Operation not permitted",
}
ALLOWED = dict.fromkeys(("read the input", "write the result", "write its own", "fork"), "done")

COMPILER = find_compiler()
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler here")
needs_landlock = pytest.mark.skipif(not sandbox.landlock_version(), reason="this kernel has no Landlock")


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    for name in ("secrets", "input", "out", "user"):
        (tmp_path / name).mkdir()
    (tmp_path / "secrets" / "token").write_text("canary")
    (tmp_path / "input" / "file").write_text("input")
    (tmp_path / "input" / "link").symlink_to(tmp_path / "secrets" / "token")
    (tmp_path / "user" / "jobs.py").write_text(JOBS)
    return {
        "secret": str(tmp_path / "secrets" / "token"),
        "input": str(tmp_path / "input"),
        "outside": str(tmp_path / "outside"),
    }


def attempts(tmp_path: Path, places: dict[str, str], limits: Limits) -> dict[str, str]:
    out = str(tmp_path / "out")
    spawn = Spawn(
        tmp_path / "log", tmp_path / "cwd", limits, (str(tmp_path / "user"),), (places["input"],), (out,)
    )  # fmt: skip
    return run_alone("jobs:attempts", {"inputs": {}, "out": out, "options": places}, spawn)


@needs_landlock
def test_a_worker_reaches_its_files_and_nothing_else(tmp_path: Path, places: dict[str, str]) -> None:
    seen = attempts(tmp_path, places, Limits(seconds=60))
    assert seen == {**FILES, **CALLS, **ALLOWED, "start a program": "Operation not permitted"}
    assert not Path(places["outside"]).exists()


def test_without_walls_all_of_it_is_possible(tmp_path: Path, places: dict[str, str]) -> None:
    """The attempts are real: they are refused by the walls, and by nothing else."""
    seen = attempts(tmp_path, places, Limits(seconds=60, walled=False))
    unprivileged = {"a namespace", "trace the parent"}  # some kernels refuse these to everybody
    assert {name for name, how in seen.items() if how != "done"} <= unprivileged


COMPILING = """
import ctypes, os, shutil, socket, subprocess, sys
from pathlib import Path

def tried(act):
    try:
        return act() or "done"
    except (OSError, subprocess.SubprocessError) as error:
        return type(error).__name__

def start(*argv):
    subprocess.run(argv, check=True, capture_output=True)

def attempts(job):
    Path("twice.cc").write_text('#include <cmath>\\nextern "C" int twice(int x) { return 2 * x; } int main() { }')
    shutil.copy("/usr/bin/env", "env")
    cxx, loader, secret = os.environ["CXX"], job.options["loader"], job.options["secret"]
    acts = {
        "compile": lambda: start(cxx, "-shared", "-fPIC", "-fopenmp", "-o", "twice.so", "twice.cc"),
        "load what was compiled": lambda: str(ctypes.CDLL("./twice.so").twice(21)),
        "compile a program": lambda: start(cxx, "-o", "program", "twice.cc"),
        "start what was compiled": lambda: start("./program"),
        "start a copy": lambda: start("./env"),
        "start env": lambda: start("/usr/bin/env"),
        "start a shell": lambda: start("/bin/sh", "-c", "true"),
        "start Python": lambda: start(sys.executable, "-c", ""),
        "read beside": lambda: Path(secret).read_text(),
        "let the compiler read beside": lambda: start(cxx, "-E", "-x", "c", secret),
        "let the compiler write beside": lambda: start(cxx, "-o", job.options["outside"], "twice.cc"),
        "load a program": lambda: start(loader, "/usr/bin/env"),
        "load a program that reads beside": lambda: start(loader, "/usr/bin/cat", secret),
        "open a socket": lambda: socket.socket().close(),
    }
    return {name: tried(act) for name, act in acts.items()}
"""


@needs_landlock
@needs_compiler
def test_a_worker_that_compiles_starts_the_compiler_and_no_other_program(
    tmp_path: Path, places: dict[str, str]
) -> None:
    """What the loader starts by itself cannot be told from what it starts for the compiler: the other walls hold it."""
    assert COMPILER is not None
    (tmp_path / "user" / "jobs.py").write_text(COMPILING)
    places["loader"] = next(path for path in COMPILER.programs if "ld-linux" in path)
    seen = attempts(tmp_path, places, Limits(seconds=60, compiles=True))
    assert seen == {
        "compile": "done",
        "load what was compiled": "42",
        "compile a program": "done",
        "load a program": "done",
        **dict.fromkeys(
            ("start what was compiled", "start a copy", "start env", "start a shell", "start Python", "read beside"),
            "PermissionError",
        ),
        **dict.fromkeys(
            ("let the compiler read beside", "let the compiler write beside", "load a program that reads beside"),
            "CalledProcessError",
        ),
        "open a socket": "OSError",
    }
    assert not Path(places["outside"]).exists()


@needs_landlock
@needs_compiler
def test_without_landlock_a_worker_that_compiles_starts_nothing(tmp_path: Path) -> None:
    """seccomp alone cannot tell the compiler from another program."""
    assert COMPILER is not None
    script = tmp_path / "alone.py"
    script.write_text(f"""
import subprocess
from transload.pipeline.workers.walls import sandbox
from transload.pipeline.workers.walls.system_calls import HOLDS_SIGNALS
sandbox.missing_walls = lambda: ("Landlock",)
sandbox.raise_walls([], [], starts={COMPILER.programs!r})
try:
    subprocess.run([{COMPILER.path!r}, "--version"])
except OSError as error:
    print(error.strerror)
""")
    done = subprocess.run([sys.executable, "-P", str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "Operation not permitted\n"


@needs_landlock
@pytest.mark.parametrize(
    ("absent", "refused"),
    [
        ("Landlock", {**CALLS, "start a program": "Operation not permitted"}),
        ("seccomp", {**FILES, "start a program": "Permission denied"}),
    ],
)
def test_each_wall_holds_alone(absent: str, refused: dict[str, str], tmp_path: Path, places: dict[str, str]) -> None:
    script = tmp_path / "alone.py"
    script.write_text(f"""
import json, os, sys
from types import SimpleNamespace
from transload.pipeline.workers.walls import sandbox
from transload.pipeline.workers.walls.system_calls import HOLDS_SIGNALS
sys.path.append({str(tmp_path / "user")!r})
import jobs
sandbox.missing_walls = lambda: ({absent!r},)
os.chdir({str(tmp_path / "out")!r})
sandbox.raise_walls([{places["input"]!r}], [])
print(json.dumps(jobs.attempts(SimpleNamespace(options={places!r}, out={str(tmp_path / "out")!r}))))
""")
    done = subprocess.run(
        [sys.executable, "-P", str(script)], capture_output=True, text=True, check=True, env=os.environ
    )
    seen = json.loads(done.stdout)
    if absent == "seccomp" and sandbox.landlock_version() < HOLDS_SIGNALS:
        refused = {name: how for name, how in refused.items() if name != "signal the parent"}
    assert {name: seen[name] for name in refused} == refused


def test_a_wall_that_the_kernel_has_and_that_cannot_be_raised_ends_the_worker(tmp_path: Path) -> None:
    """A second thread is running, which a wall would leave out. So the worker ends before a model's code runs."""
    script = tmp_path / "threads.py"
    script.write_text("""
import threading
from transload.pipeline.workers.walls import sandbox
from transload.pipeline.workers.walls.system_calls import HOLDS_SIGNALS
threading.Thread(target=threading.Event().wait, daemon=True).start()
try:
    sandbox.raise_walls([], [])
except OSError as error:
    print(error.strerror)
""")
    done = subprocess.run([sys.executable, "-P", str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "a library has started a thread, which the walls would not hold\n"


@pytest.mark.parametrize(
    ("machine", "landlock", "missing"),
    [
        (platform.machine(), sandbox.landlock_version(), () if sandbox.landlock_version() else ("Landlock",)),
        ("riscv64", 7, ("seccomp",)),
        (platform.machine(), 0, ("Landlock",)),
    ],
)
def test_walls_that_a_machine_lacks_are_named(
    machine: str, landlock: int, missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sandbox, "landlock_version", lambda: landlock)
    assert sandbox.missing_walls() == missing


def test_every_verdict_without_walls_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "missing_walls", tuple)
    assert context.doubts_of_walls(trust=False) == ()
    assert context.doubts_of_walls(trust=True) == ("not sandboxed: --trust was given",)
    monkeypatch.setattr(context, "missing_walls", lambda: ("Landlock", "seccomp"))
    sentence = "not sandboxed: there is no Landlock and no seccomp here (transload doctor)"
    assert context.doubts_of_walls(trust=False) == (sentence,)
