"""What libraries do in a worker, and still can."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from transload.pipeline.workers.isolation import Limits, Spawn, run_alone
from transload.pipeline.workers.walls import namespaces, sandbox

JOBS = """
import multiprocessing, os, resource, shutil, signal, socket, tempfile, threading
from multiprocessing import reduction
from pathlib import Path

def hand_on(queue, path):
    with open(path) as file:
        queue.put(reduction.DupFd(file.fileno()))

def usual(job):
    folder = Path(tempfile.mkdtemp())
    file = folder / "file"
    file.touch()
    file.touch()
    file.write_text("text")
    copy = shutil.copy2(file, folder / "copy")
    shutil.copytree(folder, folder.parent / "tree")
    file.chmod(0o600)
    os.utime(file, (1, 1))
    os.truncate(file, 2)
    os.mkfifo(folder / "pipe")
    resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.nice(1)
    shutil.rmtree(folder.parent / "tree")
    ends = socket.socketpair()
    received = []
    signal.signal(signal.SIGUSR1, lambda *_: received.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.raise_signal(signal.SIGUSR1)
    thread = threading.Thread(target=lambda: received.append(2))
    thread.start()
    thread.join()
    return {"copy": Path(copy).read_text(), "received": received}

def processes(job):
    with multiprocessing.Pool(2) as pool:
        squares = pool.map(abs, [-1, -2, 3])
    Path("shared").write_text("canary")
    queue = multiprocessing.Queue()
    child = multiprocessing.Process(target=hand_on, args=(queue, "shared"))
    child.start()
    with open(queue.get().detach()) as file:
        text = file.read()
    child.join()
    return {"squares": squares, "text": text}

def shared_memory(job):
    import _posixshmem
    os.close(_posixshmem.shm_open("/of-a-worker", os.O_CREAT | os.O_RDWR, 0o600))
    return {"files": os.listdir("/dev/shm")}

def open_files(job):
    folder = Path(f"/proc/{os.getpid()}/fd")
    paths = [os.readlink(path) for path in folder.iterdir() if path.exists() or path.is_symlink()]
    return {"paths": ["own" if path == str(folder.parent) else path for path in paths]}

def privileges(job):
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{os.getpid()}/status").read_text().splitlines())
    return {name: lines[name].strip() for name in ("CapEff", "CapPrm", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp")}
"""
needs_landlock = pytest.mark.skipif(not sandbox.landlock_version(), reason="this kernel has no Landlock")
needs_namespaces = pytest.mark.skipif(not namespaces.has_namespaces(), reason="namespaces are refused here")


@pytest.fixture
def spawn(tmp_path: Path) -> Spawn:
    (tmp_path / "user").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "user" / "jobs.py").write_text(JOBS)
    return Spawn(tmp_path / "log", tmp_path / "cwd", Limits(seconds=60), (str(tmp_path / "user"),))


def job(spawn: Spawn) -> dict[str, object]:
    return {"inputs": {}, "out": str(spawn.cwd), "options": {}}


def test_files_signals_and_limits_of_its_own_are_as_ever(spawn: Spawn) -> None:
    assert run_alone("jobs:usual", job(spawn), spawn) == {"copy": "text", "received": [1, 1, 2]}


@needs_landlock
@needs_namespaces
def test_processes_of_a_worker_share_queues_and_files(spawn: Spawn) -> None:
    assert run_alone("jobs:processes", job(spawn), spawn) == {"squares": [1, 2, 3], "text": "canary"}


@needs_landlock
@needs_namespaces
def test_shared_memory_is_a_workers_own(spawn: Spawn) -> None:
    assert run_alone("jobs:shared_memory", job(spawn), spawn) == {"files": ["of-a-worker"]}
    assert not Path("/dev/shm/of-a-worker").exists()


@needs_landlock
def test_files_of_proc_stay_open_lest_the_kernel_forgets_the_rule(spawn: Spawn) -> None:
    """Seen where a machine was short of memory: /proc/cpuinfo and a worker's own /proc/PID were denied from then on."""
    seen = set(run_alone("jobs:open_files", job(spawn), spawn)["paths"])
    assert {"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys", "own"} <= seen


def test_no_privilege_is_left_but_to_reach_files_of_other_users(spawn: Spawn) -> None:
    seen = run_alone("jobs:privileges", job(spawn), spawn)
    assert seen.pop("CapPrm") == seen.pop("CapEff")
    assert seen == {"CapInh": "0" * 16, "CapAmb": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}


def test_a_folder_in_shared_memory_stays_where_it_is(tmp_path: Path) -> None:
    """A mount over it would hide what the worker reads and writes there."""
    script = f"""
import json, os
from transload.pipeline.workers.walls import namespaces
before = os.stat("/dev/shm").st_dev
own = namespaces.enter_namespaces([{str(tmp_path)!r}, "/dev/shm/a/b"], network=False)
print(json.dumps([own, os.stat("/dev/shm").st_dev == before]))
"""
    ended = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout) == [False, True]


@needs_landlock
@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_an_old_landlock_is_made_up_for_by_the_filter(version: int, tmp_path: Path) -> None:
    """It knows no signals, sockets, devices, TCP or truncation."""
    (tmp_path / "input").write_text("input")
    script = f"""
import json, os, signal, socket
from transload.pipeline.workers.walls import sandbox
os.chdir({str(tmp_path)!r})
os.mkdir("cwd")
os.chdir("cwd")
sandbox.landlock_version = lambda: {version}
sandbox.raise_walls([{str(tmp_path / "input")!r}], [])
def tried(act):
    try:
        act()
    except OSError as error:
        return os.strerror(error.errno)
    return "done"
acts = {{
    "signal": lambda: os.kill(os.getppid(), 0),
    "own signal": lambda: os.kill(os.getpid(), 0),
    "truncate": lambda: os.truncate({str(tmp_path / "input")!r}, 1),
    "TCP": lambda: socket.create_connection(("127.0.0.1", 1)),
    "write": lambda: open({str(tmp_path / "other")!r}, "w"),
    "write its own": lambda: open("other", "w").close(),
}}
print(json.dumps({{name: tried(act) for name, act in acts.items()}}))
"""
    ended = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout) == {
        "signal": "Operation not permitted",
        "own signal": "done",
        "truncate": "Operation not permitted" if version < 3 else "Permission denied",
        "TCP": "Address family not supported by protocol",
        "write": "Permission denied",
        "write its own": "done",
    }
    assert (tmp_path / "input").read_text() == "input"


@needs_landlock
def test_where_signals_are_refused_the_guard_sends_them_to_what_the_worker_started(tmp_path: Path) -> None:
    """And to nobody else. What is no wish is left alone."""
    script = f"""
import json, multiprocessing, os, signal, subprocess, sys, time
from transload.pipeline.workers import guard
from transload.pipeline.workers.walls import sandbox
stranger = subprocess.Popen(["sleep", "60"])
connection, lifeline = os.pipe()
if not os.fork():
    wished = guard.fork_below_guard(os.dup(connection), os.dup(connection))
    sandbox.landlock_version = lambda: 5
    os.chdir({str(tmp_path)!r})
    sandbox.raise_walls([], [])
    guard.send_by_guard(wished)
    os.write(wished, b"nonsense" * 100)
    os.kill(stranger.pid, signal.SIGKILL)
    child = os.fork()
    if not child:
        time.sleep(60)
    os.kill(child, signal.SIGUSR1)
    ended = os.waitpid(child, 0)[1]
    with multiprocessing.get_context("fork").Pool(2) as pool:  # it terminates its processes
        squares = pool.map(abs, [-1, 2])
    os.write(wished, b"odd")
    time.sleep(0.1)
    print(json.dumps([ended, squares]), flush=True)
    os._exit(0)
os.wait()
print(stranger.poll(), flush=True)
stranger.kill()
stranger.wait()
"""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.stdout.splitlines() == ["[10, [1, 2]]", "None"], ended.stderr
