"""A late step is begun once more on another node; the first result counts, and errors of a copy do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from transload.models.errors import StepFailed, ToolMissing
from transload.models.store import Stored
from transload.pipeline.cluster.cluster_records import DriverRun
from transload.pipeline.cluster.step_order import Lack, StepDemand, StepForecast, StepOrder, StepReply, Unfit
from transload.pipeline.cluster.step_race import NodeTask, StepRace
from transload.pipeline.schedule.backup_rule import BackupRule
from transload.pipeline.schedule.step_queue import StepQueue
from transload.pipeline.workers.engine import Action

ORDER = StepOrder(DriverRun("driver", "1", "/store", "id", "/run", "net"), Action("convert.onnx.a", "jobs:write"), "k")
DEMAND = StepDemand(1, 0)
FORECAST = StepForecast(10.0, 50.0, may_copy=True)
RULE = BackupRule(factor=2.0, margin_s=0.0, margin_of_idle_s=10.0, most_attempts=2)  # late after 20 s


def reply(node: str, *, seconds: float | None = 30.0, error: str = "") -> StepReply:
    if error:
        return StepReply(node, error=StepFailed(error, fix=""))
    return StepReply(node, Stored("k", "d", Path(), {}, Path(), seconds or 0.0, cached=False))


@dataclass
class FakeNodes:
    """Nodes of a clock that goes further with each wait; the nth task is on the nth node.
    `script`: by time, replies of the nth task."""

    script: dict[int, tuple[int, StepReply | None]]
    queued_s: float = 0.0  # that the first task waits for a node
    nodes: tuple[str, ...] = ("a", "b")
    stopped: bool = False
    lost_at: float = 1e9
    now: float = 0.0
    tasks: list[NodeTask] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)
    passed_over: list[list[str]] = field(default_factory=list)
    cancelled: list[tuple[int, str | None]] = field(default_factory=list)

    def submit(self, order: StepOrder, demand: StepDemand, without: Mapping[str, Unfit]) -> NodeTask:
        assert (order, demand) == (ORDER, DEMAND)
        able = frozenset(self.nodes) - without.keys()
        if not able:
            raise ToolMissing("no node", fix="")
        self.passed_over.append(sorted(without))
        self.tasks.append(NodeTask(object(), able))
        self.begun.append(self.now)
        return self.tasks[-1]

    def wait(self, tasks: list[NodeTask], seconds: float) -> list[NodeTask]:
        self.now += seconds
        number = self.script.get(int(self.now), (-1, None))[0]
        assert self.now < 200, "nothing comes any more"
        return [task for task in tasks if self.tasks.index(task) == number]

    def reply(self, task: NodeTask) -> StepReply | None:
        return self.script[int(self.now)][1]

    def is_lost(self, task: NodeTask) -> bool:
        return self.now >= self.lost_at

    def whereabouts(self, order: StepOrder) -> dict[str, float]:
        begun = [max(self.begun[0], self.queued_s), *self.begun[1:]]
        return {node: self.now - at for node, at in zip("abc", begun, strict=False) if at < self.now}

    def cancel(self, task: NodeTask, order: StepOrder, winner: str | None) -> None:
        self.cancelled.append((self.tasks.index(task), winner))

    def has_stopped(self, number: str) -> bool:
        return self.stopped


def race_of(nodes: FakeNodes, cores: int = 4, rule: BackupRule = RULE) -> StepRace:
    return StepRace(nodes, StepQueue(cores, rule), rule, clock=lambda: nodes.now)


def free_cores(race: StepRace) -> int:
    count = 0
    while race.queue.join(0.0).granted.is_set():
        count += 1
    return count


def test_a_step_in_time_has_no_copy() -> None:
    nodes = FakeNodes({20: (0, reply("a"))})
    race = race_of(nodes)
    assert race.run(ORDER, DEMAND, FORECAST, {"c": Unfit(Lack.LIBRARY, "unfit")}) == reply("a")
    assert (nodes.passed_over, nodes.cancelled, free_cores(race)) == ([["c"]], [], 4)


def test_a_late_step_is_done_on_another_node_and_the_first_one_is_ended() -> None:
    nodes = FakeNodes({40: (1, reply("b"))})
    race = race_of(nodes)
    assert race.run(ORDER, DEMAND, FORECAST, {"c": Unfit(Lack.LIBRARY, "unfit")}) == reply("b")
    assert nodes.passed_over == [["c"], ["a", "c"]]
    assert (nodes.cancelled, race.copies_won, free_cores(race)) == ([(0, "b")], 1, 4)


def test_the_first_one_may_still_win() -> None:
    nodes = FakeNodes({40: (0, reply("a"))})
    race = race_of(nodes)
    assert race.run(ORDER, DEMAND, FORECAST, {}) == reply("a")
    assert (nodes.cancelled, race.copies_won, free_cores(race)) == ([(1, "a")], 0, 4)


def test_an_error_of_the_first_counts_and_that_of_a_copy_does_not() -> None:
    nodes = FakeNodes({40: (1, reply("b", error="died")), 50: (0, reply("a"))})
    assert race_of(nodes).run(ORDER, DEMAND, FORECAST, {}) == reply("a")
    assert len(nodes.tasks) == 2  # the rule allows no third attempt
    nodes = FakeNodes({40: (0, reply("a", error="refused"))})
    answer = race_of(nodes).run(ORDER, DEMAND, FORECAST, {})
    assert answer is not None
    assert (str(answer.error), nodes.cancelled) == ("refused\n  fix: ", [(1, "a")])


def test_a_copy_goes_on_alone_where_the_node_of_the_first_dies() -> None:
    nodes = FakeNodes({40: (0, None), 60: (1, reply("b"))})
    assert race_of(nodes).run(ORDER, DEMAND, FORECAST, {}) == reply("b")
    nodes = FakeNodes({10: (0, None)})
    assert race_of(nodes).run(ORDER, DEMAND, FORECAST, {}) is None


def test_a_copy_that_is_late_has_a_copy_on_a_third_node() -> None:
    nodes = FakeNodes({46: (2, reply("c"))}, nodes=("a", "b", "c"))
    race = race_of(nodes, rule=replace(RULE, most_attempts=3))
    assert race.run(ORDER, DEMAND, FORECAST, {}) == reply("c")
    assert nodes.begun == [0.0, 22.0, 44.0]
    assert nodes.passed_over == [[], ["a"], ["a", "b"]]
    assert (nodes.cancelled, free_cores(race)) == ([(0, "c"), (1, "c")], 4)


def test_a_node_that_cannot_do_a_copy_is_not_asked_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    unfit = StepReply("b", unfit=Unfit(Lack.LIBRARY, "it has no torch"))
    nodes = FakeNodes({24: (1, unfit), 60: (2, reply("c"))}, nodes=("a", "b", "c"))
    monkeypatch.setattr(nodes, "whereabouts", lambda _order: {"a": nodes.now})
    race_of(nodes, rule=replace(RULE, most_attempts=3)).run(ORDER, DEMAND, FORECAST, {})
    assert nodes.passed_over == [[], ["a"], ["a", "b"]]


def test_a_long_step_that_is_late_has_all_its_copies_at_once() -> None:
    nodes = FakeNodes({30: (2, reply("c"))}, nodes=("a", "b", "c"))
    race_of(nodes, rule=replace(RULE, most_attempts=3, long_s=10.0)).run(ORDER, DEMAND, FORECAST, {})
    assert nodes.begun == [0.0, 22.0, 24.0]  # once the first copy is seen to run somewhere


def test_a_step_is_late_sooner_where_cores_are_idle() -> None:
    for cores, begun in ((1, [0.0]), (2, [0.0, 14.0])):
        nodes = FakeNodes({20: (0, reply("a"))})
        race_of(nodes, cores, replace(RULE, margin_of_idle_s=2.0)).run(ORDER, DEMAND, FORECAST, {})
        assert nodes.begun == begun


def test_the_time_in_which_a_step_waits_for_a_node_does_not_count() -> None:
    nodes = FakeNodes({60: (0, reply("a"))}, queued_s=45.0)
    race_of(nodes).run(ORDER, DEMAND, FORECAST, {})
    assert len(nodes.tasks) == 1


@pytest.mark.parametrize("forecast", [StepForecast(10.0, 50.0), StepForecast(None, 50.0, may_copy=True)])
def test_trainings_and_steps_that_nobody_knows_have_no_copy(forecast: StepForecast) -> None:
    nodes = FakeNodes({150: (0, reply("a"))})
    race_of(nodes).run(ORDER, DEMAND, forecast, {})
    assert len(nodes.tasks) == 1


def test_a_copy_waits_for_a_core_and_for_a_second_node() -> None:
    nodes = FakeNodes({60: (0, reply("a"))})
    race_of(nodes, cores=1).run(ORDER, DEMAND, FORECAST, {})
    assert len(nodes.tasks) == 1
    nodes = FakeNodes({60: (0, reply("a"))}, nodes=("a",))
    race = race_of(nodes)
    race.run(ORDER, DEMAND, FORECAST, {})
    assert (len(nodes.tasks), free_cores(race)) == (1, 4)


def test_where_all_steps_are_slow_none_is_late() -> None:
    nodes = FakeNodes({40: (0, reply("a"))})
    race = race_of(nodes)
    for _ in range(5):
        nodes.now, nodes.tasks[:], nodes.begun[:] = 0.0, [], []
        race.run(ORDER, DEMAND, StepForecast(10.0, 50.0), {})
    nodes.now, nodes.tasks[:], nodes.begun[:] = 0.0, [], []
    race.run(ORDER, DEMAND, FORECAST, {})
    assert len(nodes.tasks) == 1  # 3 times as slow as in the former run: late after 40 s


def test_a_node_that_is_gone_and_a_run_that_is_stopped_end_the_wait() -> None:
    nodes = FakeNodes({}, lost_at=10.0)
    assert race_of(nodes).run(ORDER, DEMAND, FORECAST, {}) is None
    assert nodes.cancelled == [(0, None)]
    race = race_of(FakeNodes({}, stopped=True), cores=1)
    race.queue.join(0.0)
    with pytest.raises(StepFailed, match="the run was stopped"):
        race.run(ORDER, DEMAND, FORECAST, {})
