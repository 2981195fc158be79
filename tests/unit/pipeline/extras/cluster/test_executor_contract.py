"""What every executor does: an action once, its errors whole, its log and its script in the run's folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from transload.models.errors import Refused, StepFailed
from transload.models.store import Store
from transload.pipeline.workers.engine import Action, LocalExecutor
from transload.pipeline.workers.isolation import Limits
from transload.pipeline.workers.worker_slots import WorkerSlots

Make = Callable[..., Action]


def tally(action: Action) -> str:
    return Path(str(action.options["tally"])).read_text()


def test_a_second_time_is_found_and_not_done(executor: LocalExecutor, make_action: Make) -> None:
    first, second = executor.perform(make_action("write")), executor.perform(make_action("write"))
    assert (first.cached, second.cached, tally(make_action("write"))) == (False, True, "x")
    assert (second.folder / "file").read_text() == "hello"
    assert second.facts["n"] == 5


def test_steps_give_each_other_what_they_made(executor: LocalExecutor, make_action: Make) -> None:
    before = executor.perform(make_action("write"))
    after = executor.submit(replace(make_action("write"), inputs={"a": before})).result()
    assert (after.folder / "file").read_text() == "hellohello"


def test_log_and_script_lie_in_the_folder_of_the_run(executor: LocalExecutor, make_action: Make) -> None:
    executor.perform(make_action("write"))
    assert "wrote it" in executor.log("step.write").read_text()
    scripts = executor.log("step.write").parents[1] / "repeat"
    assert {file.name for file in scripts.iterdir()} == {"step.write.sh", "step.write.json"}


def test_a_refusal_keeps_its_words_and_is_remembered(executor: LocalExecutor, make_action: Make) -> None:
    action = replace(make_action("refuse"), remembers_refusal=True)
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            executor.perform(action)
        assert str(caught.value) == "operator Foo is not carried\n  fix: use Bar"
    assert tally(action) == "x"


def test_a_crash_names_the_log_and_the_script_here_and_is_done_again(
    executor: LocalExecutor, make_action: Make
) -> None:
    for _ in range(2):
        with pytest.raises(StepFailed, match="killed by SIGABRT") as caught:
            executor.perform(make_action("die"))
        run = executor.log("step.die").parents[1]
        assert caught.value.fix == f"read {run}/logs/step.die.log, or repeat it alone: sh {run}/repeat/step.die.sh"
        assert executor.log("step.die").exists()
    assert tally(make_action("die")) == "xx"


def test_stop_ends_what_is_under_way_and_takes_no_more(executor: LocalExecutor, make_action: Make) -> None:
    action = make_action("sleep", seconds=100)
    future = executor.submit(action)
    marks = Path(str(action.options["tally"]))
    while not (marks.exists() and marks.read_text()):
        time.sleep(0.05)
    executor.stop()
    with pytest.raises(StepFailed, match="stopped"):
        future.result(timeout=30)
    pid = int(tally(action).split()[0])
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.05)
    with pytest.raises(StepFailed, match="the run was stopped"):
        executor.submit(make_action("write")).result(timeout=30)


def test_a_worker_that_is_opened_after_a_stop_is_ended(tmp_path: Path) -> None:
    executor = LocalExecutor(Store(tmp_path / "store"), tmp_path / "run")
    executor.stop()
    worker = executor.open_worker("session", Limits(walled=False), tmp_path / "cwd")
    with pytest.raises(StepFailed, match="was stopped"):
        worker.open("cluster_jobs:write", {})
    worker.close()
    executor.close()


@pytest.mark.slow
def test_what_waits_for_a_node_ends_with_its_run(
    cluster_address: str, make_action: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two steps have the two cores of the cluster; the third one gets none before the run is stopped."""
    from transload.pipeline.extras.cluster.ray_cluster import connect
    from transload.pipeline.extras.cluster.ray_executor import RayExecutor

    monkeypatch.setenv("RAY_ADDRESS", cluster_address)
    store = Store(tmp_path / "store", tmp_path / "run")
    executors = [RayExecutor(store, tmp_path / name, WorkerSlots(4), connect(None)) for name in ("busy", "late")]
    running = [executors[0].submit(make_action("sleep", seconds=seconds)) for seconds in (600, 601)]
    marks = tmp_path / "tally"
    while not (marks.exists() and len(marks.read_text().split()) == 2):
        time.sleep(0.05)
    waiting = executors[1].submit(make_action("write"))
    time.sleep(1)
    executors[1].stop()
    with pytest.raises(StepFailed, match="the run was stopped"):
        waiting.result(timeout=30)
    assert not any(future.done() for future in running)
    executors[0].stop()
    for future in running:
        with pytest.raises(StepFailed, match="stopped"):
            future.result(timeout=30)
    store.close()


@pytest.mark.slow
def test_node_workers_that_have_died_are_replaced(
    cluster_address: str, make_action: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    from transload.pipeline.extras.cluster.ray_cluster import connect
    from transload.pipeline.extras.cluster.ray_executor import RayExecutor

    monkeypatch.setenv("RAY_ADDRESS", cluster_address)
    cluster, store = connect(None), Store(tmp_path / "store", tmp_path / "run")
    executor = RayExecutor(store, tmp_path / "run", WorkerSlots(4), cluster)
    executor.perform(make_action("write"))  # now Ray's process for tasks has a handle of the node worker that is killed
    for text in ("second", "third"):
        for actor in cluster._actors.values():
            ray.kill(actor)
        assert executor.perform(make_action("write", text=text)).facts["n"] == len(text)
    executor.close()
    store.close()
