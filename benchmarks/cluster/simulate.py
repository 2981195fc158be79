"""A discrete-event simulation of many models on many nodes, from durations that the zoo has recorded.

    python benchmarks/cluster/simulate.py [--models 10000] [--slots 4] [--former ZOO.json] [--out FILE.json]

The order of models is the product's own (commands/model_list/model_order.py); what is simulated is the cluster.
A model is its conversions: each waits for the one that it is made from, and for nothing else, as in `convert`.
A command has as many models under way as the cluster has slots. A step passes three places in turn: its command, which
orders one step at a time; the store, whose bandwidth all nodes share; and a slot of a node, which loads a framework
when it first needs it. Ray gives slots to ready steps in the order in which they are ready. Checks and references are
not in the record, and not simulated but for what they cost the command.

A straggler takes several times as long. Most are slow by their place. A share (`by_nature`) is slow wherever it is
done, and was not in the former run.

`efficiency` is the work that was needed (each step once, without what stragglers lose by their place) over slots times
makespan. `of_best` is the shortest makespan that any order could have, over this one: no run is shorter than its work
over the slots, or than its longest chain without stragglers.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import statistics
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from recorded_models import ModelDraw, SimulatedStep, chain_s, recorded_steps

RESULTS = Path(__file__).resolve().parents[1] / "results"


@dataclass(frozen=True)
class Setting:
    """The properties of the cluster and of the steps. Times in seconds, sizes in bytes."""

    nodes: int = 1
    slots: int = 4  # steps at once on a node
    commands: int = 1  # that share the list and the cluster
    model_s: float = 0.05  # that a command is busy with a model: 40 ms, and three steps (driver_cost.py)
    step_s: float = 0.006  # with a conversion and its check: 3 ms each
    warm_up_s: float = 6.5  # torch and TensorFlow, once on each node (docs/design/engine.md)
    step_bytes: float | None = None  # that a step reads and writes; None: twice the weights of its model
    store_bytes_s: float = 10e9  # of the store, all nodes together
    node_bytes_s: float = 1e9  # of a node's own network
    straggler_share: float = 0.01  # of the steps
    straggler_factor: float = 5.0
    by_nature: float = 0.0  # share of the stragglers that are as slow on every node
    slow_nodes: int = 0  # number of nodes that take straggler_factor times as long for every step
    noise: float = 0.0  # standard deviation of the logarithm of a step's time
    longest_first: bool = True


@dataclass(frozen=True)
class Outcome:
    """The result of a simulation."""

    nodes: int
    commands: int
    hours: float
    efficiency: float
    of_best: float
    speed_up: float  # over the needed work, one step after the other
    slots_busy: float  # share of the time, with stragglers, moved bytes and warm-ups
    command_busy: float  # the busiest of them
    store_busy: float


@dataclass(eq=False)
class ReadyStep:
    """A step that waits for a slot or has one."""

    command: Command
    model: int
    step: SimulatedStep
    number: int  # of the step in its model
    slot: int = -1
    begun_s: float = 0.0


@dataclass(eq=False)
class Command:
    """A command with its models, which it begins in turn."""

    waiting: deque[int]
    under_way: int = 0
    free_s: float = 0.0  # when it has ordered all that it was asked for
    busy_s: float = 0.0

    def work(self, now: float, seconds: float) -> float:
        """Be busy for so long, after all that was asked before; return the end."""
        self.free_s = max(now, self.free_s) + seconds
        self.busy_s += seconds
        return self.free_s


class Simulation:
    """Carries models through the cluster; `now` is the end of the last step."""

    def __init__(self, models: Sequence[Sequence[SimulatedStep]], setting: Setting, seed: int) -> None:
        self._models, self._setting = models, setting
        self.slots = setting.nodes * setting.slots
        self._rng = random.Random(seed + 1)  # noqa: S311  (not a secret)
        self.commands = [
            Command(deque(range(first, len(models), setting.commands))) for first in range(setting.commands)
        ]
        self._ready: deque[ReadyStep] = deque()
        self._idle = list(range(self.slots))[::-1]
        self._cold = set(range(setting.nodes))
        self._events: list[tuple[float, int, ReadyStep]] = []
        self._numbers = count()  # of events, in the order of which equal times come
        self._left: dict[int, int] = {}  # steps of a model that are not done
        self._store = 0.0
        self.now = self.busy_s = self.store_s = 0.0

    def run(self) -> None:
        """Carry all models to their end."""
        for command in self.commands:
            self._admit(command)
        self._fill()
        while self._events:
            self.now, _, ended = heapq.heappop(self._events)
            self._end(ended)
            self._fill()

    def _admit(self, command: Command) -> None:
        """Begin models: a command has as many under way as there are slots."""
        while command.waiting and command.under_way < self.slots:
            model = command.waiting.popleft()
            command.under_way += 1
            command.work(self.now, self._setting.model_s)
            self._left[model] = len(self._models[model])
            self._queue(command, model, None)

    def _queue(self, command: Command, model: int, done: int | None) -> None:
        """Queue the steps of a model that wait for the one that is done, or for none."""
        steps = enumerate(self._models[model])
        self._ready.extend(ReadyStep(command, model, step, number) for number, step in steps if step.needs == done)

    def _fill(self) -> None:
        while self._ready and self._idle:
            self._begin(self._ready.popleft(), self._idle.pop())

    def _begin(self, ready: ReadyStep, slot: int) -> None:
        setting, step = self._setting, ready.step
        node, ordered_s = slot % setting.nodes, ready.command.work(self.now, setting.step_s)
        moved_s = step.bytes / setting.store_bytes_s
        self._store = max(ordered_s, self._store) + moved_s
        self.store_s += moved_s
        begin = max(self._store, ordered_s + step.bytes / setting.node_bytes_s)
        if node in self._cold:
            self._cold.discard(node)
            begin += setting.warm_up_s
        by_place = setting.straggler_share * (1.0 - setting.by_nature)
        is_slow = self._rng.random() < by_place or node < setting.slow_nodes
        seconds = step.seconds * (setting.straggler_factor if is_slow else 1.0)
        if setting.noise:
            seconds *= self._rng.lognormvariate(0.0, setting.noise)
        ready.slot, ready.begun_s = slot, self.now
        heapq.heappush(self._events, (begin + seconds, next(self._numbers), ready))

    def _end(self, ended: ReadyStep) -> None:
        """End a step: free its slot, and begin what waits for it."""
        self._idle.append(ended.slot)
        self.busy_s += self.now - ended.begun_s
        self._queue(ended.command, ended.model, ended.number)
        self._left[ended.model] -= 1
        if not self._left[ended.model]:
            del self._left[ended.model]
            ended.command.under_way -= 1
            self._admit(ended.command)


def simulate(models: Sequence[Sequence[SimulatedStep]], setting: Setting, seed: int = 0) -> Outcome:
    """Carry all models through the cluster."""
    simulation = Simulation(models, setting, seed)
    simulation.run()
    seconds, slots = simulation.now, simulation.slots
    work = sum(step.seconds for steps in models for step in steps)
    best = max(work / slots, *map(chain_s, models))
    return Outcome(
        setting.nodes, setting.commands, round(seconds / 3600, 3), round(work / (slots * seconds), 4),
        round(best / seconds, 4), round(work / seconds, 1), round(simulation.busy_s / slots / seconds, 3),
        round(max(command.busy_s for command in simulation.commands) / seconds, 3),
        round(simulation.store_s / seconds, 3),
    )  # fmt: skip


def models_for(draw: ModelDraw, count: int, setting: Setting, seed: int = 0) -> list[list[SimulatedStep]]:
    """Return models that are drawn for a setting."""
    return draw.draw(
        count, seed, long_share=setting.straggler_share * setting.by_nature, long_factor=setting.straggler_factor,
        step_bytes=setting.step_bytes, is_ordered=setting.longest_first,
    )  # fmt: skip


CASES: dict[str, dict[str, Any]] = {
    "models in the order of the list": {"longest_first": False},
    "no stragglers": {"straggler_share": 0.0},
    "times that differ by 10 %": {"noise": 0.1},
    "a quarter of the stragglers long by nature": {"by_nature": 0.25},
    "3 nodes 5 times as slow": {"slow_nodes": 3},
    "the list in 2 commands": {"commands": 2},
    "a command twice as slow": {"model_s": 2 * Setting.model_s, "step_s": 2 * Setting.step_s},
    "no time of the command": {"model_s": 0.0, "step_s": 0.0},
    "store of 1 GB/s": {"store_bytes_s": 1e9},
    "100 MB of every step": {"step_bytes": 100e6},
    "no warm-up": {"warm_up_s": 0.0},
}
_SPLIT = ((128, 2), (128, 4), (256, 2), (256, 4), (256, 8))  # nodes, and commands that share the list


def middle_of_draws(draw: ModelDraw, models: int, setting: Setting, draws: int) -> dict[str, Any]:
    """Return the outcome of median efficiency over several draws of models and stragglers, with all efficiencies."""
    outcomes = sorted(
        (simulate(models_for(draw, models, setting, seed), setting, seed) for seed in range(draws)),
        key=lambda outcome: outcome.efficiency,
    )
    return {**asdict(outcomes[draws // 2]), "draws": [outcome.efficiency for outcome in outcomes]}


def main() -> int:
    """Simulate, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--draws", type=int, default=7, help="of models and stragglers, for each row")
    parser.add_argument("--former", type=Path, help="a zoo.json of an earlier run, that is all the product knows")
    parser.add_argument("--out", type=Path, default=RESULTS / "cluster_simulation.json")
    options = parser.parse_args()
    recorded = recorded_steps(RESULTS / "zoo.json")
    former = recorded_steps(options.former) if options.former else recorded
    draw = ModelDraw(recorded, former, json.loads((RESULTS / "zoo_bytes.json").read_text()))
    base = Setting(slots=options.slots)

    def row(name: str, **changes: Any) -> dict[str, Any]:
        middle = middle_of_draws(draw, options.models, replace(base, **changes), options.draws)
        print(name, json.dumps(middle), flush=True)
        return middle

    curve = [row("", nodes=1 << power) for power in range(9)]
    split = [row("split", nodes=nodes, commands=commands) for nodes, commands in _SPLIT]
    cases = {name: row(name, nodes=64, **changes) for name, changes in CASES.items()}
    models = models_for(draw, options.models, base)
    seconds = [step.seconds for steps in models for step in steps]
    chains = [chain_s(steps) for steps in models]
    document = {
        "models": options.models, "former": str(options.former.name) if options.former else None,
        "setting": asdict(base), "recorded_models": len(recorded), "steps": len(seconds),
        "step_s": {"mean": round(statistics.mean(seconds), 2), "median": round(statistics.median(seconds), 2)},
        "work_hours": round(sum(seconds) / 3600, 2), "longest_chain_s": round(max(chains), 1),
        "curve": curve, "split": split, "at_64_nodes": cases,
    }  # fmt: skip
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    print({name: document[name] for name in ("steps", "step_s", "work_hours", "longest_chain_s")})
    return 0


if __name__ == "__main__":
    sys.exit(main())
