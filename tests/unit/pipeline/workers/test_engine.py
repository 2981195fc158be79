"""An action is done once; what it refuses it is not asked again; what died is."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from transload.models.errors import DiskFull, Refused, StepFailed
from transload.models.store import Store
from transload.pipeline.workers.engine import Action, LocalExecutor
from transload.pipeline.workers.isolation import Limits
from transload.pipeline.workers.worker_slots import WorkerSlots

JOBS = '''
import os, time
from transload.models.errors import Refused

def count(job):
    """How often it ran, in a file outside of everything."""
    with open(job.options["tally"], "a") as file: file.write("x")

def write(job):
    count(job)
    (job.out / "file").write_text(job.options["text"] + "".join((p / "file").read_text() for p in job.inputs.values()))
    return {"n": len(job.options["text"])}
def refuse(job): count(job); raise Refused("operator Foo is not carried", fix="use Bar")
def raise_(job): count(job); raise ValueError("always")
def die(job): count(job); os.abort()
def litter(job):
    import tempfile
    count(job); (job.checkpoints / "path").write_text(tempfile.mkstemp()[1]); os.abort()
def slow(job): count(job); time.sleep(0.5); (job.out / "file").write_text("slow"); return {}
def resume(job):
    count(job)
    done = job.checkpoints / "done"
    if not done.exists(): done.touch(); os.abort()
    (job.out / "file").write_text("resumed"); return {}
def train(job):
    count(job)
    half = job.checkpoints / "half"
    half.touch(); time.sleep(0.5); half.rename(job.out / "file"); return {}
def full(job): raise OSError(28, "No space left on device")
def read(job):
    with open(job.options["data"]) as file: return {"text": file.read()}
def spoil(job): (job.inputs["a"] / "file").write_text("spoilt"); return {}
def link(job): count(job); (job.out / "file").symlink_to(job.options["data"]); return {}
def loop(job): count(job); [(job.out / name).symlink_to(".") for name in "ab"]; return {}
def serve(job): return {"address": job.services["grpc"]}
'''


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "user"
    folder.mkdir()
    (folder / "jobs.py").write_text(JOBS)
    # these entries are the test's own: their code is no part of the package
    monkeypatch.setattr("transload.pipeline.workers.engine.entry_digest", lambda entry: entry)
    return folder


@pytest.fixture
def executor(tmp_path: Path, root: Path) -> LocalExecutor:
    return LocalExecutor(Store(tmp_path / "store"), tmp_path / "run")


def action(root: Path, name: str, **changes: object) -> Action:
    options = {"tally": str(root / "tally"), "text": "hello"}
    made = Action(
        f"step.{name}", f"jobs:{name}", options=options, root=str(root), limits=Limits(seconds=60, walled=False)
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def runs(root: Path) -> int:
    return len((root / "tally").read_text())


def test_a_second_time_is_found_and_not_done(executor: LocalExecutor, root: Path) -> None:
    first = executor.perform(action(root, "write"))
    second = executor.perform(action(root, "write"))
    assert (first.cached, second.cached, runs(root)) == (False, True, 1)
    assert (second.folder / "file").read_text() == "hello"
    assert second.facts == first.facts
    assert second.facts["n"] == 5


@pytest.mark.parametrize(
    "change",
    [
        {"code": "other"},
        {"requires": ("scipy",)},
        {"options": {"tally": "/dev/null", "text": "hello"}},
        {"limits": Limits(seconds=60, device="cuda")},
        {"entry": "jobs:slow"},
    ],
    ids=["code", "toolchain", "options", "device", "entry"],
)
def test_the_key_depends_on_all_that_the_result_depends_on(change: dict[str, object], root: Path) -> None:
    assert action(root, "write", **change).key != action(root, "write").key


def test_the_key_does_not_depend_on_time_limits_or_the_root(root: Path) -> None:
    todo = action(root, "write")
    assert replace(todo, limits=Limits(seconds=1), root=None).key == todo.key


def test_inputs_come_by_content(executor: LocalExecutor, root: Path) -> None:
    before = executor.perform(action(root, "write"))
    after = executor.perform(action(root, "write", inputs={"a": before}))
    assert (after.folder / "file").read_text() == "hellohello"


def test_a_step_that_writes_into_its_input_fails_and_the_input_is_made_again(
    executor: LocalExecutor, root: Path
) -> None:
    before = executor.perform(action(root, "write"))
    with pytest.raises(StepFailed, match="jobs:spoil wrote into its input file"):
        executor.perform(action(root, "spoil", inputs={"a": before}))
    again = executor.perform(action(root, "write"))
    assert not again.cached
    assert (again.folder / "file").read_text() == "hello"


@pytest.mark.parametrize("walled", [True, False])
@pytest.mark.parametrize("name", ["link", "loop"])
def test_a_link_in_a_result_is_refused_and_nothing_is_kept(
    name: str, walled: bool, executor: LocalExecutor, root: Path
) -> None:
    secret = root.parent / "secret"
    secret.write_text("secret")
    options = {"tally": "/dev/null", "data": str(secret)}
    with pytest.raises(StepFailed, match=r"refused, for it holds '(file|[ab])', a link"):
        executor.perform(action(root, name, options=options, limits=Limits(seconds=60, walled=walled)))
    assert not [*(executor.store.root / "objects").iterdir()]


@pytest.mark.parametrize(
    "name", ["m\ntouch X\n#", "$(touch X)", "`touch X`", "';touch X;'", "a/../../b", "ä" * 300, "x" * 300, "\x1b[2J"]
)
def test_a_name_that_a_model_brings_is_a_file_name_and_no_command(
    name: str, executor: LocalExecutor, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    with pytest.raises(StepFailed) as error:
        executor.perform(replace(action(root, "die"), name=f"given.{name}"))
    (script,) = (root.parent / "run" / "repeat").glob("*.sh")
    call = error.value.fix.rpartition("repeat it alone: ")[2]
    assert shlex.split(call) == ["sh", str(script)]
    assert subprocess.run(["sh", "-c", call], capture_output=True, timeout=60, check=False).returncode != 0
    assert not [*root.rglob("X")]
    assert len([*(root.parent / "run" / "logs").iterdir()]) == 1


def test_a_full_disk_names_the_store_and_is_not_remembered(executor: LocalExecutor, root: Path) -> None:
    todo = action(root, "full", remembers_refusal=True)
    with pytest.raises(DiskFull) as caught:
        executor.perform(todo)
    assert str(caught.value) == (
        f"the disk under {executor.store.root} is full\n  fix: free some space, or name a folder elsewhere with --store"
    )
    assert executor.store.refusal(todo.key) is None


def test_a_step_is_done_again_when_a_file_that_the_users_code_read_has_changed(
    executor: LocalExecutor, root: Path
) -> None:
    """A recipe's data is read by its code, and only the interpreter sees which files that takes."""
    data = root.parent / "data.csv"
    data.write_text("1,2")
    todo = action(root, "read", options={"tally": str(root / "tally"), "data": str(data)})
    assert not executor.perform(todo).cached
    assert executor.perform(todo).cached
    data.write_text("1,3")
    again = executor.perform(todo)
    assert (again.cached, again.facts["text"]) == (False, "1,3")


def test_what_depends_on_something_that_nobody_can_name_is_done_every_time(executor: LocalExecutor, root: Path) -> None:
    for _ in range(2):
        assert not executor.perform(action(root, "write", volatile=True)).cached
    assert runs(root) == 2


def test_equal_actions_at_the_same_time_are_done_once(executor: LocalExecutor, root: Path) -> None:
    threads = [threading.Thread(target=executor.perform, args=(action(root, "slow"),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runs(root) == 1


@pytest.mark.parametrize(("name", "kind"), [("refuse", Refused), ("raise_", StepFailed)])
def test_what_an_action_decides_to_refuse_is_remembered(
    name: str, kind: type[Exception], executor: LocalExecutor, root: Path
) -> None:
    todo = action(root, name, remembers_refusal=True)
    said = []
    for _ in range(2):
        with pytest.raises(kind) as caught:
            executor.perform(todo)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert runs(root) == 1


def test_a_crash_is_not_remembered(executor: LocalExecutor, root: Path) -> None:
    for _ in range(2):
        with pytest.raises(StepFailed, match="SIGABRT"):
            executor.perform(action(root, "die", remembers_refusal=True))
    assert runs(root) == 2


def test_commands_at_once_do_an_action_with_checkpoints_once(root: Path, tmp_path: Path) -> None:
    todo = action(root, "train", checkpoints=True)
    executors = [LocalExecutor(Store(tmp_path / "store"), tmp_path / f"run{at}") for at in range(2)]
    first, second = [future.result() for future in [executor.submit(todo) for executor in executors]]
    assert first.digest == second.digest
    assert runs(root) == 1


def test_a_killed_action_goes_on_from_its_checkpoints_and_they_are_gone_once_it_is_done(
    executor: LocalExecutor, root: Path
) -> None:
    todo = action(root, "resume", checkpoints=True)
    with pytest.raises(StepFailed, match="SIGABRT"):
        executor.perform(todo)
    assert (executor.perform(todo).folder / "file").read_text() == "resumed"
    assert not (executor.store.root / "checkpoints" / todo.key).exists()


def test_temporary_files_of_a_worker_that_was_killed_are_gone(executor: LocalExecutor, root: Path) -> None:
    """TensorFlow keeps the code that it generates in some, and removes them only where it may end in peace."""
    todo = action(root, "litter", checkpoints=True)
    with pytest.raises(StepFailed, match="SIGABRT"):
        executor.perform(todo)
    left = Path((executor.store.checkpoints(todo.key) / "path").read_text())
    assert left.is_relative_to(executor.store.root / "tmp")
    assert not left.exists()


def test_the_log_is_shown_again_for_a_step_that_was_found(executor: LocalExecutor, root: Path) -> None:
    executor.perform(action(root, "write"))
    log = executor.log("step.write")
    log.unlink()
    executor.perform(action(root, "write"))
    assert log.exists()


def test_every_step_leaves_a_script_that_repeats_it(executor: LocalExecutor, root: Path, tmp_path: Path) -> None:
    executor.perform(action(root, "write"))
    script = tmp_path / "run" / "repeat" / "step.write.sh"
    done = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"n": 5}
    assert (script.with_suffix("") / "out" / "file").read_text() == "hello"


def test_servers_are_started_only_for_a_step_that_is_done(executor: LocalExecutor, root: Path) -> None:
    from contextlib import contextmanager

    started = []

    @contextmanager
    def services():
        started.append(1)
        yield {"grpc": "127.0.0.1:1"}

    for _ in range(2):
        assert executor.perform(action(root, "serve", services=services)).facts["address"] == "127.0.0.1:1"
    assert started == [1]


def test_a_run_that_is_killed_goes_on_from_what_was_finished(tmp_path: Path, root: Path) -> None:
    """kill -9 in the middle of the second step: the first is found, the second is done, nothing half is seen."""
    script = tmp_path / "run.py"
    script.write_text(f"""
import os, signal, sys, threading, time
from pathlib import Path
import transload.pipeline.workers.engine as engine
engine.entry_digest = lambda entry: entry
from transload.models.store import Store
executor = engine.LocalExecutor(Store(Path({str(tmp_path / "store")!r})), Path({str(tmp_path / "run")!r}))
options = {{"tally": {str(root / "tally")!r}, "text": "hello"}}
limits = engine.Limits(walled=False)
def step(name):
    return executor.perform(engine.Action(name, f"jobs:{{name}}", options=options, root={str(root)!r}, limits=limits))
step("write")
if "kill" in sys.argv: threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGKILL)).start()
print(step("slow").cached)
""")
    killed = subprocess.run([sys.executable, str(script), "kill"], capture_output=True, text=True, check=False)
    assert killed.returncode == -9
    again = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert again.stdout == "False\n"
    assert (root / "tally").read_text().startswith("x")
    assert not list((tmp_path / "store" / "tmp").iterdir())
    assert subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout == "True\n"


def test_equal_actions_that_are_submitted_at_once_are_one_and_stopped_ones_say_so(
    executor: LocalExecutor, root: Path
) -> None:
    first, second = executor.submit(action(root, "slow")), executor.submit(action(root, "slow"))
    assert first is second
    assert first.result() == replace(executor.submit(action(root, "slow")).result(), cached=False)
    assert runs(root) == 1
    with pytest.raises(Refused, match="operator Foo is not carried"):
        executor.submit(action(root, "refuse")).result()
    executor.stop()
    with pytest.raises(StepFailed, match="the run was stopped"):
        executor.submit(action(root, "slow")).result()
    executor.close()


def test_no_more_actions_run_at_once_than_there_are_slots_and_queued_ones_are_taken_back(
    tmp_path: Path, root: Path
) -> None:
    executor = LocalExecutor(Store(tmp_path / "store"), tmp_path / "run", WorkerSlots(1))
    first = executor.submit(action(root, "slow"))
    queued = executor.submit(action(root, "write"))
    assert queued.cancel()
    first.result()
    executor.close()
    assert runs(root) == 1
