"""Real processes that really die: whatever a worker does to itself, the caller gets a value or one sentence."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from transload.models.errors import BadRequest, NoAnswer, Refused, StepFailed, StepOutOfMemory
from transload.models.store import Store
from transload.pipeline.workers import isolation
from transload.pipeline.workers.fork_server import LOADED, ForkServer
from transload.pipeline.workers.guard import LOG_BYTES
from transload.pipeline.workers.isolation import Limits, Spawn, Worker, run_alone, start_fork_server
from transload.pipeline.workers.worker import addresses_of

JOBS = '''
import contextlib, ctypes, json, os, signal, socket, stat, sys, time
from collections.abc import Callable
from pathlib import Path
from transload.models.errors import Refused

def facts(job): return {"cwd": os.getcwd(), "environ": dict(os.environ), "path": sys.path, "options": dict(job.options)}
def abort(job): os.abort()
def segfault(job): ctypes.string_at(0)
def leave(job): os._exit(3)
def alarm(job): signal.raise_signal(signal.SIGALRM)
def quit_(job): sys.exit(7)
def hang(job): time.sleep(600)
def hog(job):
    kept = []
    while True: kept.append(bytearray(16 << 20)); time.sleep(0.01)
def become_daemon():
    """Leave session, group and parent, as servers do; the file that comes whole holds the pid."""
    if not os.fork():
        os.setsid()
        if not os.fork():
            Path("daemon.new").write_text(str(os.getpid())); os.rename("daemon.new", "daemon")
            time.sleep(60)
        os._exit(0)
    while not Path("daemon").exists(): time.sleep(0.01)
def daemon(job): become_daemon(); return {}
def daemon_abort(job): become_daemon(); os.abort()
def daemon_hang(job): become_daemon(); time.sleep(600)
def open_files(job):
    held = [open(os.devnull) for _ in range(10_000)]
def write_much(job): os.truncate(os.open("big", os.O_CREAT | os.O_RDWR), job.options.get("bytes", 2 << 30))
def fork_many(job):
    for _ in range(300):
        if not os.fork(): time.sleep(60)
    time.sleep(60)
def child_hog(job):
    if not os.fork():
        held = bytearray(900 << 20)
        time.sleep(60)
    os.wait()
def raise_(job): raise ValueError("the first line\\nthe second")
def refuse(job): raise Refused("node 7 (Foo) has mode=3", fix="use mode=1")
def full(job): raise OSError(28, "No space left on device")
def listless(job): return [1, 2]
def say(job): print("out"); print("err", file=sys.stderr); os.write(1, b"raw\\n"); return {}
FORGED = {
    "deep": b'{"id": "%b", "value": ' + b"[" * 100_000 + b"]" * 100_000 + b', "read": []}',
    "no id": b'{"value": {"forged": 1}, "read": []}',
    "no read": b'{"id": "%b", "value": {}}',
    "ill-typed read": b'{"id": "%b", "value": {}, "read": [5]}',
    "ill-typed error": b'{"id": "%b", "error": {"kind": [], "what": 1, "fix": null}}',
    "no object": b"[1]",
    "no JSON": b"\\xff",
    "endless": b" " * (70 << 20),
}
def connection():
    for fd in range(3, 100):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(fd).st_mode): return fd
def forge(job):
    """Write to the socket what a reply would be, before the reply; %b is the id that a forger may have guessed."""
    fd = connection()
    left = memoryview(FORGED[job.options["kind"]].replace(b"%b", job.options["id"].encode()) + b"\\n")
    while left: left = left[os.write(fd, left):]
    return {"true": 1}
def drip(job):
    fd = connection()
    while True: os.write(fd, b" "); time.sleep(0.05)
def flood(job):
    print("first", flush=True)
    for _ in range(40): os.write(1, b"x" * (1 << 20))
    print("last", flush=True)
    return {}
def connect(job):
    try: socket.create_connection(("192.0.2.1", 80), 1)
    except PermissionError as error: return {"said": str(error)}
    return {}
def look_up(job):
    try: socket.getaddrinfo("example.com", 80)
    except PermissionError as error: return {"said": str(error)}
    return {}
def ask_guard(job):
    allowed = []
    for host in job.options["hosts"]:
        try: sys.audit("socket.connect", None, (host, 80)); allowed.append(host)
        except PermissionError: pass
    return {"allowed": allowed}
def raw_network(job):
    """Without Python's sockets: what C code would do."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.socket(2, 1, 0)
    address = (2).to_bytes(2, "little") + (80).to_bytes(2, "big") + bytes([192, 0, 2, 1]) + bytes(8)
    return {"connected": libc.connect(fd, address, 16) == 0, "errno": ctypes.get_errno()}

class Held:
    def __init__(self, start): self.n = start
    def add(self, by): self.n += by; return self.n
    def die(self): os.kill(os.getpid(), signal.SIGKILL)
    def close(self): Path("closed").touch()
'''


@pytest.fixture(scope="module")
def forking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """It has a small thing loaded in place of a framework."""
    cwd = tmp_path_factory.mktemp("fork_server")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(LOADED, "small", ("wave",))
        made = start_fork_server("small", Limits(), cwd)
    yield made
    made.close()


@pytest.fixture(params=["started", "forked"])
def spawn(request: pytest.FixtureRequest, tmp_path: Path) -> Spawn:
    """A worker in a process of its own, and one that is forked: whatever is promised, both keep."""
    user = tmp_path / "user"
    user.mkdir()
    (user / "jobs.py").write_text(JOBS)
    (user / "json.py").write_text("raise ImportError('the user has a json.py of their own')")
    limits = Limits(seconds=60, memory_bytes=600 << 20)
    forks = request.getfixturevalue("forking") if request.param == "forked" else None
    return Spawn(tmp_path / "log", tmp_path / "cwd", limits, (str(user),), repeat="repeat-me", fork_server=forks)


def job(tmp_path: Path, **options: object) -> dict[str, object]:
    return {"inputs": {}, "out": str(tmp_path), "options": options}


DEATHS = {
    "abort": "the worker was killed by SIGABRT",
    "segfault": "the worker was killed by SIGSEGV",
    "leave": "the worker ended without an answer (exit status 3)",
    "quit_": "called exit(7)",
    "raise_": "ValueError: the first line",
    "hog": "the worker used more memory than its limit of 0.629 GB",
    "child_hog": "the worker used more memory than its limit of 0.629 GB",
    "open_files": "OSError: [Errno 24] Too many open files: '/dev/null'",
    "write_much": "OSError: [Errno 27] File too large",
    "listless": "jobs:listless returned list instead of facts",
}


@pytest.mark.parametrize("name", DEATHS)
def test_a_worker_that_dies_becomes_a_sentence_with_log_and_repeat_command(name: str, spawn: Spawn) -> None:
    with pytest.raises(StepFailed) as caught:
        run_alone(f"jobs:{name}", job(spawn.cwd), spawn)
    assert str(caught.value) == f"{DEATHS[name]}\n  fix: read {spawn.log}, or repeat it alone: repeat-me"
    assert isinstance(caught.value, StepOutOfMemory) == name.endswith("hog")


def test_a_worker_that_hangs_is_ended_at_its_time_limit(spawn: Spawn) -> None:
    spawn.limits = Limits(seconds=2)
    with pytest.raises(StepFailed, match="the worker gave no answer in 2 s") as caught, Worker(spawn) as worker:
        worker.work("jobs:hang", job(spawn.cwd))
    assert "repeat-me" in str(caught.value)
    assert gone(worker.pid)


@pytest.mark.parametrize(("answer_s", "failure"), [(9.0, NoAnswer), (None, StepFailed)])
def test_an_alarm_is_the_end_of_the_time_to_a_first_answer_where_there_is_one(
    answer_s: float | None, failure: type[StepFailed], spawn: Spawn
) -> None:
    spawn.limits = replace(spawn.limits, answer_s=answer_s)
    with pytest.raises(StepFailed) as caught:
        run_alone("jobs:alarm", job(spawn.cwd), spawn)
    assert type(caught.value) is failure


def test_a_worker_that_starts_ever_more_processes_is_ended(spawn: Spawn) -> None:
    spawn.limits = Limits(seconds=60, memory_bytes=1 << 40)
    with pytest.raises(StepFailed, match="the worker started more processes than its limit of 256"):
        run_alone("jobs:fork_many", job(spawn.cwd), spawn)


@pytest.mark.parametrize(
    ("name", "seconds", "said"),
    [
        ("daemon", 60, None),
        ("daemon_abort", 60, "the worker was killed by SIGABRT"),
        ("daemon_hang", 1, "the worker gave no answer in 1 s"),
    ],
)
def test_a_daemon_ends_with_its_worker(name: str, seconds: float, said: str | None, spawn: Spawn) -> None:
    spawn.limits = Limits(seconds=seconds)
    with pytest.raises(StepFailed, match=said) if said else nullcontext():
        run_alone(f"jobs:{name}", job(spawn.cwd), spawn)
    assert gone(int((spawn.cwd / "daemon").read_text()))


PARENT = """
import sys
from collections.abc import Callable
from pathlib import Path
from transload.models.store import Store
from transload.pipeline.cli.output.error_output import guarded
from transload.pipeline.workers import engine
from transload.pipeline.workers.engine import Action, LocalExecutor, stopped_on_error
from transload.pipeline.workers.isolation import Limits
engine.entry_digest = lambda entry: entry
store, user = Path(sys.argv[1]), sys.argv[2]
def act(_words):
    executor = LocalExecutor(Store(store), store.parent)
    with stopped_on_error(executor):
        executor.submit(Action("daemon", "jobs:daemon_hang", code="x", root=user, limits=Limits())).result()
sys.exit(guarded(act, None))
"""


@pytest.mark.parametrize(
    ("how", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)]
)
def test_however_a_command_ends_no_process_and_no_file_is_left(how: int, status: int, tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "jobs.py").write_text(JOBS)
    (tmp_path / "parent.py").write_text(PARENT)
    store = tmp_path / "store"
    words = [sys.executable, "-P", str(tmp_path / "parent.py"), str(store), str(tmp_path / "user")]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: bool([*store.glob("tmp/*/cwd/daemon")]))
        (file,) = store.glob("tmp/*/cwd/daemon")
        daemon = int(file.read_text())
        process.send_signal(how)
        try:
            assert process.wait(60) == status
        finally:
            process.kill()
    wait_for(lambda: gone(daemon))
    Store(store)  # the next start removes what a killed one left
    assert not [*(store / "tmp").iterdir()]


@pytest.mark.parametrize(
    "kind", ["deep", "no id", "no read", "ill-typed read", "ill-typed error", "no object", "no JSON", "endless"]
)
def test_a_forged_reply_is_no_reply(kind: str, spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _bytes: "guessed")
    monkeypatch.setattr(isolation, "_GRACE_S", 0.2)
    with pytest.raises(StepFailed, match="the worker answered with something that is no reply"):
        run_alone("jobs:forge", job(spawn.cwd, kind=kind, id="guessed"), spawn)


def test_a_forged_reply_to_the_next_request_is_none(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line too many would answer the request after it."""
    monkeypatch.setattr(isolation, "_GRACE_S", 0.2)
    with pytest.raises(StepFailed, match="something that is no reply"):
        run_alone("jobs:forge", job(spawn.cwd, kind="no read", id="unknown"), spawn)


def test_a_reply_that_comes_in_drips_is_ended_at_the_time_limit(spawn: Spawn) -> None:
    spawn.limits = Limits(seconds=1)
    with pytest.raises(StepFailed, match="the worker gave no answer in 1 s"):
        run_alone("jobs:drip", job(spawn.cwd), spawn)


def test_a_log_keeps_its_first_and_its_last_part(spawn: Spawn) -> None:
    run_alone("jobs:flood", job(spawn.cwd), spawn)
    text = spawn.log.read_bytes()
    assert len(text) < LOG_BYTES + 100
    assert text.startswith(b"first\nx")
    assert text.endswith(b"x" * (LOG_BYTES // 2 - 5) + b"last\n")
    cut = (40 << 20) + len("first\nlast\n") - LOG_BYTES
    assert f"x\n[{cut:,} bytes are cut: of a log the first and the last 8,388,608 are kept]\nx".encode() in text


def test_our_own_errors_cross_the_border_as_they_are(spawn: Spawn) -> None:
    with pytest.raises(Refused) as caught:
        run_alone("jobs:refuse", job(spawn.cwd), spawn)
    assert str(caught.value) == "node 7 (Foo) has mode=3\n  fix: use mode=1"


def test_a_full_disk_is_the_callers_to_mend(spawn: Spawn) -> None:
    with pytest.raises(BadRequest, match=r"the disk under .* is full"):
        run_alone("jobs:full", job(spawn.cwd), spawn)


def test_what_a_worker_prints_is_in_the_log_and_not_in_the_reply(spawn: Spawn) -> None:
    assert run_alone("jobs:say", job(spawn.cwd), spawn) == {}
    assert sorted(spawn.log.read_text().split()) == ["err", "out", "raw"]


def test_a_worker_sees_a_private_folder_and_a_scrubbed_environment(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    seen = run_alone("jobs:facts", job(spawn.cwd, depth=50), spawn)
    assert seen["cwd"] == str(spawn.cwd)
    assert "AWS_SECRET_ACCESS_KEY" not in seen["environ"]
    assert seen["environ"]["HOME"] == seen["environ"]["TMPDIR"] == str(spawn.cwd)
    assert seen["environ"]["CUDA_VISIBLE_DEVICES"] == ""
    assert seen["path"][-1] == str(spawn.cwd.parent / "user")  # last: the user's json.py hides nobody's
    assert seen["options"] == {"depth": 50}


@pytest.mark.parametrize(("name", "host"), [("connect", "192.0.2.1"), ("look_up", "example.com")])
@pytest.mark.parametrize("loopback", [False, True])
def test_nothing_goes_to_the_network(name: str, host: str, loopback: bool, spawn: Spawn) -> None:
    spawn.limits = Limits(seconds=30, loopback=loopback)
    said = run_alone(f"jobs:{name}", job(spawn.cwd), spawn)["said"]
    assert said == f"a worker tried to reach {host} over the network; nothing leaves this machine in a run"


@pytest.mark.parametrize("loopback", [False, True])
def test_a_server_that_the_user_named_may_be_reached_by_those_who_talk_to_servers(loopback: bool, spawn: Spawn) -> None:
    """The guard is asked, as a connection would ask it; nothing is sent."""
    spawn.limits = Limits(seconds=30, loopback=loopback, host="192.0.2.1")
    asked = job(spawn.cwd, hosts=["192.0.2.1", "192.0.2.2", "127.0.0.1"])
    allowed = run_alone("jobs:ask_guard", asked, spawn)["allowed"]
    assert allowed == (["192.0.2.1", "127.0.0.1"] if loopback else [])


def test_a_named_server_may_be_reached_by_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets connect to the addresses of a host, so the guard of a worker allows these beside the host's name."""
    rows = [(None, None, 0, "", ("192.0.2.7", 0)), (None, None, 0, "", ("2001:db8::7", 0, 0, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: rows)
    assert addresses_of("models.example") == {"models.example", "192.0.2.7", "2001:db8::7"}

    def fail(*_: object) -> None:
        raise OSError("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert addresses_of("models.example") == {"models.example"}


def test_a_token_is_for_workers_that_talk_to_a_named_server(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSLOAD_TOKEN", "secret")
    for host in (None, "127.0.0.1"):
        spawn.limits = Limits(seconds=30, loopback=True, host=host)
        environ = run_alone("jobs:facts", job(spawn.cwd), spawn)["environ"]
        assert environ.get("TRANSLOAD_TOKEN") == (None if host is None else "secret")


@pytest.mark.skipif(os.geteuid() != 0, reason="an empty network namespace needs privilege")
def test_nothing_goes_to_the_network_from_c_code_either(spawn: Spawn) -> None:
    """Neither where a wall is down: the worker may open sockets, or has no namespace of its own."""
    seen = run_alone("jobs:raw_network", job(spawn.cwd), spawn)
    assert not seen["connected"]
    assert os.strerror(seen["errno"]) == "Operation not permitted"
    spawn.limits = replace(spawn.limits, walled=False)
    seen = run_alone("jobs:raw_network", job(spawn.cwd), spawn)
    assert not seen["connected"]
    assert os.strerror(seen["errno"]) == "Network is unreachable"


def test_a_held_object_answers_until_it_is_closed(spawn: Spawn) -> None:
    with Worker(spawn) as worker:
        worker.open("jobs:Held", {"start": 40})
        assert worker.ask("add", by=1) == 41
        assert worker.ask("add", by=1) == 42
        with pytest.raises(StepFailed, match="AttributeError"):
            worker.ask("nothing")
        assert worker.ask("add", by=1) == 43  # an error in one request does not end the worker
        wait_for(lambda: worker.peak_rss_bytes > 1 << 20)
    assert (spawn.cwd / "closed").exists()


def test_a_held_object_that_dies_becomes_a_sentence(spawn: Spawn) -> None:
    with Worker(spawn) as worker:
        worker.open("jobs:Held", {"start": 0})
        with pytest.raises(StepFailed, match="killed by SIGKILL"):
            worker.ask("die")
        with pytest.raises(StepFailed, match="killed by SIGKILL"):
            worker.ask("add", by=1)


def test_workers_end_with_a_parent_that_is_killed(spawn: Spawn, tmp_path: Path) -> None:
    """kill -9 of the run leaves nothing running, not even what a worker started."""
    parent = tmp_path / "parent.py"
    parent.write_text(f"""
import sys
from collections.abc import Callable
from pathlib import Path
from transload.pipeline.workers.isolation import Limits, Spawn, Worker, start_fork_server
from transload.pipeline.workers.fork_server import LOADED
LOADED["small"] = ("wave",)
forks = start_fork_server("small", Limits(), Path({str(tmp_path)!r})) if {spawn.fork_server is not None} else None
spawn = Spawn(Path({str(spawn.log)!r}), Path({str(spawn.cwd)!r}), Limits(60), {spawn.sys_path!r}, fork_server=forks)
worker = Worker(spawn)
print(worker.pid, forks.pid if forks else worker.pid, flush=True)
worker.work("jobs:child_hog", {{"inputs": {{}}, "out": ".", "options": {{}}}})
""")
    with subprocess.Popen([sys.executable, str(parent)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid, its_fork_server = map(int, process.stdout.readline().split())
        children = Path(f"/proc/{pid}/task/{pid}/children")
        wait_for(lambda: bool(children.read_text().split()))
        grandchild = int(children.read_text().split()[0])
        process.kill()
    wait_for(lambda: gone(pid) and gone(grandchild) and gone(its_fork_server))


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def test_signals_are_named(spawn: Spawn) -> None:
    with Worker(spawn) as worker:
        os.kill(worker.pid, signal.SIGTERM)
        with pytest.raises(StepFailed, match="killed by SIGTERM"):
            worker.ask("add", by=1)
