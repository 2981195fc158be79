"""Connecting to a cluster, and node workers that die while their nodes live on; Ray is a stand-in here."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.models.store import Store
from transload.pipeline.extras.cluster import node_tasks, ray_cluster
from transload.pipeline.extras.cluster.node_tasks import perform_on_this_node
from transload.pipeline.extras.cluster.ray_cluster import RayCluster, connect
from transload.pipeline.extras.cluster.ray_executor import RayExecutor
from transload.pipeline.extras.cluster.step_order import StepReply
from transload.pipeline.workers.worker_slots import WorkerSlots


class RayError(Exception):
    """The base of Ray's errors."""


class RayActorError(RayError):
    """The error of a call to an actor that has died."""


class FakeActor:
    """An actor whose calls answer at once, or raise where it has died."""

    def __init__(self, reply: object) -> None:
        self.is_dead = False
        self.node = self.perform = SimpleNamespace(remote=lambda *_arguments: self._answer)
        self._reply = reply

    def _answer(self) -> object:
        if self.is_dead:
            raise RayActorError
        return self._reply


def fake_ray(**names: Any) -> Any:
    """Return what RayCluster and its tasks call of the module ray. A reference is a function."""
    facts = [{"NodeID": name, "NodeManagerHostname": name, "Resources": {"CPU": 2}, "Alive": True} for name in "ab"]
    return SimpleNamespace(
        remote=lambda **_options: lambda target: target, nodes=lambda: facts, get=lambda ref, timeout=0.0: ref(),
        wait=lambda refs, **_options: (refs, []), get_gpu_ids=list,
        get_runtime_context=lambda: SimpleNamespace(get_node_id=lambda: "a"),
        exceptions=SimpleNamespace(RayError=RayError, RayActorError=RayActorError), **names,
    )  # fmt: skip


def test_a_cluster_that_does_not_greet_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    greeted = threading.Event()
    monkeypatch.setitem(sys.modules, "ray", fake_ray(init=lambda **_options: greeted.wait(20)))
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    monkeypatch.setattr(ray_cluster, "_clusters", {})
    monkeypatch.setattr(ray_cluster, "_CONNECT_S", 0.01)
    monkeypatch.setattr(RayCluster, "_new_actor", lambda _cluster, node: FakeActor(node))
    with pytest.raises(BadRequest, match=r"the Ray cluster at auto does not answer: no greeting in 0\.01 s"):
        connect(None)
    greeted.set()
    assert connect(None).cores == 4


@pytest.mark.parametrize("reply", [None, StepReply("a", is_new=True)])
def test_a_node_worker_that_has_died_is_replaced_and_the_others_stay(
    reply: StepReply | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, FakeActor]] = []

    def start(_cluster: RayCluster, node: str) -> FakeActor:
        started.append((node, FakeActor(node)))
        return started[-1][1]

    monkeypatch.setattr(RayCluster, "_new_actor", start)
    cluster = RayCluster(fake_ray())
    cluster.start_workers()
    assert [node for node, _ in started] == ["a", "b"]
    replies = iter([reply, StepReply("b")])
    monkeypatch.setattr(cluster, "_ask", lambda *_arguments: next(replies))
    started[0][1].is_dead = True
    order: Any = SimpleNamespace(run=SimpleNamespace(number="1"))
    cluster.perform(order, SimpleNamespace())  # type: ignore[arg-type]
    assert [node for node, _ in started] == ["a", "b", "a"]


def test_a_task_asks_for_the_node_worker_anew_once_it_has_died(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = [StepReply("first"), StepReply("second")]
    workers = [FakeActor(reply) for reply in replies]
    ray = fake_ray(get_actor=lambda *_name, **_options: workers[workers[0].is_dead])
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(node_tasks, "_workers", {})
    order: Any = SimpleNamespace(run=SimpleNamespace(driver="driver"))
    assert perform_on_this_node(order) == replies[0]
    workers[0].is_dead = True
    with pytest.raises(RayActorError):  # the driver is told, and has it replaced
        perform_on_this_node(order)
    assert perform_on_this_node(order) == replies[1]


def test_steps_go_to_the_cluster_side_by_side_where_few_slots_are_here(tmp_path: Path) -> None:
    cluster: Any = SimpleNamespace(driver="driver")
    executor = RayExecutor(Store(tmp_path / "store"), tmp_path / "run", WorkerSlots(1), cluster, threads=3)
    for _ in range(2):
        assert executor._threads._max_workers == 3
        executor.close()
