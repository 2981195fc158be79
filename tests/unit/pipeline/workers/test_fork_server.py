"""Workers that are forked from a process with a framework: what is loaded is shared, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from transload.models.errors import StepFailed
from transload.models.store import Store
from transload.pipeline.workers.engine import Action, LocalExecutor
from transload.pipeline.workers.fork_server import LOADED, ForkServer
from transload.pipeline.workers.isolation import Limits, Spawn, Worker, run_alone, start_fork_server
from transload.pipeline.workers.loaded_frameworks import LoadedFrameworks

JOBS = '''
import ctypes, importlib, os, random, sys, tempfile, time

def about(job):
    of = os.getsid(0) if os.getsid(0) != os.getppid() else None  # a fork stays in its fork server's session
    return {"fork_of": of, "leads": os.getpgid(0) == os.getppid(),
            "loaded": [name for name in job.options["names"] if name in sys.modules], "folder": tempfile.gettempdir(),
            "environ": dict(os.environ)}
def draw(job):
    import numpy
    return {"numpy": float(numpy.random.random()), "python": random.random()}
def spoil(job):
    import wave
    wave.spoilt = True
    os.environ["SPOILT"] = "1"
    return {}
def look(job):
    import wave
    return {"spoilt": hasattr(wave, "spoilt") or "SPOILT" in os.environ}
def held(job):
    """What is open beside what every process has, and the sockets among it."""
    open_ = {int(n): os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if int(n) > 2
             if os.path.exists(f"/proc/self/fd/{n}")}
    return {"sockets": sum(to.startswith("socket:") for to in open_.values()),
            "pipes": sum(to.startswith("pipe:") for to in open_.values())}
def compute_torch(job):
    import torch
    square = torch.full((256, 256), 2.0)
    return {"sum": float((square @ square).sum()), "threads": torch.get_num_threads()}
def compute_tensorflow(job):
    import tensorflow as tf
    square = tf.fill((256, 256), 2.0)
    return {"sum": float(tf.reduce_sum(tf.matmul(square, square)))}
def crash(job): ctypes.string_at(0)
def wait(job): time.sleep(600)
'''


@pytest.fixture
def spawn(tmp_path: Path) -> Spawn:
    user = tmp_path / "user"
    user.mkdir()
    (user / "jobs.py").write_text(JOBS)
    return Spawn(tmp_path / "log", tmp_path / "cwd", Limits(seconds=60), (str(user),))


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ForkServer]]:
    """A process with modules of one's choice loaded, ended when the test is."""
    made: list[ForkServer] = []

    def load(*modules: str, limits: Limits | None = None) -> ForkServer:
        monkeypatch.setitem(LOADED, "chosen", modules)
        made.append(start_fork_server("chosen", limits or Limits(), tmp_path / f"fork_server{len(made)}"))
        return made[-1]

    yield load
    for each in made:
        each.close()


def gone(pid: int) -> bool:
    """Whether it has ended; its new parent may take its time to bury it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for(condition: Callable[[], bool], *, pause_s: float = 0.05) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(pause_s)


def do(name: str, spawn: Spawn, **options: Any) -> dict[str, Any]:
    return run_alone(f"jobs:{name}", {"inputs": {}, "out": str(spawn.cwd), "options": options}, spawn)


def test_a_fork_has_loaded_what_the_fork_server_has(loads: Callable[..., ForkServer], spawn: Spawn) -> None:
    spawn.fork_server = loads("wave")
    seen = do("about", spawn, names=["wave"])
    assert (seen["fork_of"], seen["loaded"]) == (spawn.fork_server.pid, ["wave"])
    assert seen["leads"]  # a group of its own, with its guard


def test_the_rest_is_loaded_while_nobody_asks(loads: Callable[..., ForkServer], spawn: Spawn) -> None:
    spawn.fork_server = loads("wave", "that_no_version_has", "colorsys")
    wait_for(lambda: bool(do("about", spawn, names=["colorsys"])["loaded"]), pause_s=0.3)


def test_forks_have_the_environment_and_the_folder_of_a_worker_and_not_the_fork_servers(
    loads: Callable[..., ForkServer], spawn: Spawn
) -> None:
    started = do("about", spawn, names=[])
    spawn.fork_server = loads("tempfile")
    forked = do("about", spawn, names=[])
    assert forked["fork_of"] != started["fork_of"]
    assert forked["environ"] == started["environ"]
    assert forked["folder"] == started["folder"] == str(spawn.cwd)


def test_forks_draw_other_numbers_and_know_nothing_of_each_other(
    loads: Callable[..., ForkServer], spawn: Spawn
) -> None:
    spawn.fork_server = loads("numpy", "wave")
    first, second = do("draw", spawn), do("draw", spawn)
    assert first["numpy"] != second["numpy"]
    assert first["python"] != second["python"]
    do("spoil", spawn)
    assert not do("look", spawn)["spoilt"]


def test_a_fork_holds_no_end_of_another_ones(loads: Callable[..., ForkServer], spawn: Spawn) -> None:
    """A pipe held by a stranger would never close."""
    alone = do("held", spawn)
    spawn.fork_server = loads("wave")
    other = replace(spawn, cwd=spawn.cwd.with_name("other"))
    with Worker(other), Worker(other):
        assert do("held", spawn) == alone


@pytest.mark.parametrize(
    "limits", [Limits(threads=2), Limits(spin=True), Limits(device="cuda")], ids=["threads", "spin", "device"]
)
def test_what_libraries_read_while_they_are_loaded_is_never_another_than_was_asked_for(
    limits: Limits, loads: Callable[..., ForkServer], spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # TensorFlow's session hides devices, from us too
    spawn.fork_server = loads("wave")
    spawn.limits = limits
    assert do("about", spawn, names=[])["fork_of"] is None
    spawn.fork_server = loads("wave", limits=limits)
    assert do("about", spawn, names=[])["fork_of"] == spawn.fork_server.pid


def test_a_fork_server_with_a_second_thread_forks_no_more(loads: Callable[..., ForkServer], spawn: Spawn) -> None:
    """ONNX Runtime starts one while it is imported."""
    spawn.fork_server = loads("onnxruntime")
    seen = do("about", spawn, names=["onnxruntime"])
    assert (seen["fork_of"], seen["loaded"]) == (None, [])


@pytest.mark.parametrize("modules", [("that_no_version_has",), ("wave",)], ids=["fails to load", "is gone"])
def test_without_a_fork_server_a_process_is_started(
    modules: tuple[str, ...], loads: Callable[..., ForkServer], spawn: Spawn
) -> None:
    spawn.fork_server = loads(*modules)
    if modules == ("wave",):
        spawn.fork_server.close()
    assert do("about", spawn, names=[])["fork_of"] is None


def test_a_crash_of_a_fork_leaves_the_fork_server_and_its_other_forks(
    loads: Callable[..., ForkServer], spawn: Spawn
) -> None:
    spawn.fork_server = loads("wave")
    other = replace(spawn, cwd=spawn.cwd.with_name("other"))
    with Worker(other) as worker:
        with pytest.raises(StepFailed, match="killed by SIGSEGV"):
            do("crash", spawn)
        job = {"inputs": {}, "out": ".", "options": {"names": []}}
        assert worker.work("jobs:about", job)["fork_of"] == spawn.fork_server.pid


def test_forks_outlive_a_fork_server_that_is_killed(loads: Callable[..., ForkServer], spawn: Spawn) -> None:
    spawn.fork_server = loads("wave")
    job = {"inputs": {}, "out": ".", "options": {"names": ["wave"]}}
    with Worker(spawn) as worker:
        os.kill(spawn.fork_server.pid, signal.SIGKILL)
        wait_for(lambda: gone(spawn.fork_server.pid))  # type: ignore[union-attr]
        assert worker.work("jobs:about", job)["loaded"] == ["wave"]
        with pytest.raises(StepFailed, match="the worker was killed by SIG"):  # by which, nobody can say any more
            worker.work("jobs:crash", job)
    assert gone(worker.pid)


def test_a_fork_server_ends_with_its_keeper_in_the_midst_of_loading(tmp_path: Path) -> None:
    """TensorFlow takes seconds to load, and a command may be killed at any moment. This one never ends loading."""
    (tmp_path / "endless.py").write_text("import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(3600)\n")
    keeper = tmp_path / "keeper.py"
    keeper.write_text(f"""
import os, signal, time
from pathlib import Path
from transload.pipeline.workers.fork_server import ForkServer
folder = Path({str(tmp_path)!r})
made = ForkServer(("endless",), {{**os.environ, "PYTHONPATH": str(folder)}}, folder / "fork_server")
print(made.pid, flush=True)
while not (folder / "fork_server" / "begun").exists():
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
""")
    done = subprocess.run([sys.executable, str(keeper)], capture_output=True, text=True, check=False)
    wait_for(lambda: gone(int(done.stdout)), pause_s=0.01)


def test_a_fork_that_has_ended_is_let_go_while_the_fork_server_loads(
    loads: Callable[..., ForkServer], spawn: Spawn
) -> None:
    """It cannot say how the fork ended until then, and nobody has to wait for that."""
    spawn.fork_server = loads("wave")
    with Worker(spawn) as worker:
        os.kill(spawn.fork_server.pid, signal.SIGSTOP)  # as busy as can be
        started = time.monotonic()
        worker.close()
        took = time.monotonic() - started
        os.kill(spawn.fork_server.pid, signal.SIGCONT)
    assert took < 4


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_the_frameworks_have_one_thread_once_they_are_loaded_and_compute_in_a_fork(
    framework: str, tmp_path: Path, spawn: Spawn
) -> None:
    """With threads asked for, too: numpy's would start with the import."""
    spawn.limits = Limits(seconds=120, threads=2)
    spawn.fork_server = start_fork_server(framework, spawn.limits, tmp_path / "fork_server")
    try:
        seen = do("about", spawn, names=[framework])
        assert (seen["fork_of"], seen["loaded"], seen["folder"]) == (spawn.fork_server.pid, [framework], str(spawn.cwd))
        for _ in range(2):
            answer = do(f"compute_{framework}", spawn)
            assert answer["sum"] == 256**3 * 4
            assert answer.get("threads", 2) == min(2, len(os.sched_getaffinity(0)))
    finally:
        spawn.fork_server.close()


@pytest.fixture
def small_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transload.pipeline.workers.engine.entry_digest", lambda entry: entry)
    monkeypatch.setitem(LOADED, "small", ("wave",))


@pytest.fixture
def executor(tmp_path: Path, small_framework: None) -> LocalExecutor:
    return LocalExecutor(Store(tmp_path / "store"), tmp_path / "run")


def action(spawn: Spawn, framework: str, **changes: Any) -> Action:
    (root,) = spawn.sys_path
    options = {"names": ["wave"], "framework": framework}
    return replace(Action("about", "jobs:about", options=options, root=root, framework=framework), **changes)


def test_an_executor_forks_what_was_expected_and_starts_the_rest(executor: LocalExecutor, spawn: Spawn) -> None:
    executor.expect(["small"], Limits())
    forked = executor.perform(action(spawn, "small")).facts
    started = executor.perform(action(spawn, "")).facts
    executor.close()
    assert (forked["loaded"], started["loaded"]) == (["wave"], [])
    assert started["fork_of"] is None
    assert not Path(f"/proc/{forked['fork_of']}").exists()


def test_a_framework_is_not_loaded_for_what_is_found(executor: LocalExecutor, spawn: Spawn) -> None:
    executor.perform(action(spawn, "small"))
    executor.expect(["small"], Limits())
    assert executor.perform(action(spawn, "small")).cached
    assert not executor._frameworks._fork_servers
    executor.close()


@pytest.mark.usefixtures("small_framework")
def test_executors_that_share_frameworks_fork_from_one_process(
    tmp_path: Path, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LOADED, "other", ("wave",))
    with closing(LoadedFrameworks(tmp_path)) as frameworks:
        facts = []
        for number, expected in enumerate([["small"], ["other"]]):
            store = Store(tmp_path / f"store-{number}")
            executor = LocalExecutor(store, tmp_path / f"run-{number}", frameworks=frameworks)
            executor.expect(expected, Limits())  # beside what the first one expects
            facts.append(executor.perform(action(spawn, "small")).facts)
            executor.close()
        assert Path(f"/proc/{facts[0]['fork_of']}").exists()
    assert facts[0]["loaded"] == ["wave"]
    assert facts[0]["fork_of"] == facts[1]["fork_of"]
    assert not Path(f"/proc/{facts[0]['fork_of']}").exists()


def test_how_a_worker_is_made_does_not_count_in_the_key(executor: LocalExecutor, spawn: Spawn) -> None:
    assert action(spawn, "small", options={}).key == action(spawn, "", options={}).key
