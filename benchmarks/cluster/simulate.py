"""A discrete-event simulation of many models on many nodes, from durations that the zoo has recorded.

    python benchmarks/cluster/simulate.py [--models 10000] [--slots 4] [--former ZOO.json] [--out FILE.json]

The order of models, the queue of ready steps and the rule for second copies are the product's own
(transload.pipeline.schedule); what is simulated is the cluster. A model is its conversions: each waits for the one that
it is made from, and for nothing else, as in `convert`. As many models are under way as the cluster has slots. A step
passes three places in turn: the driver, which orders one step at a time; the store, whose bandwidth all nodes share;
and a slot of a node, which loads a framework when it first needs it. Checks, references and what a command does between
steps are not in the record, and not simulated.

A straggler takes several times as long. Most are slow by their place: a second copy elsewhere draws anew. A share
(`by_nature`) is slow wherever it is done, and was not in the former run.

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
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from transload.pipeline.schedule.backup_rule import BackupRule, Pace
from transload.pipeline.schedule.model_order import longest_first
from transload.pipeline.schedule.step_durations import StepDurations, StepRecord
from transload.pipeline.schedule.step_queue import StepQueue, StepTicket

RESULTS = Path(__file__).resolve().parents[1] / "results"
_LOOK_AGAIN_S = 5.0  # as step_race.py looks for steps that are late
_END, _LOOK = "end", "look"
Zoo = Mapping[str, Mapping[str, float]]  # seconds by model and step


@dataclass(frozen=True)
class Setting:
    """What the cluster is like. Seconds and bytes."""

    nodes: int = 1
    slots: int = 4  # steps at once on a node
    drivers: int = 1  # commands that the models are dealt to; their queues are taken as one
    driver_s: float = 0.007  # that the driver is busy with a step (driver_cost.py: 5 to 9 ms)
    warm_up_s: float = 6.5  # torch and TensorFlow, once on each node (docs/design/engine.md)
    step_bytes: float | None = None  # that a step reads and writes; None: twice the weights of its model
    store_bytes_s: float = 10e9  # of the store, all nodes together
    node_bytes_s: float = 1e9  # of a node's own network
    straggler_share: float = 0.01  # of the steps
    straggler_factor: float = 5.0
    by_nature: float = 0.0  # of the stragglers: those that are as slow everywhere
    slow_nodes: int = 0  # that do every step straggler_factor times as slowly
    longest_first: bool = True
    chains_first: bool = True
    backups: bool = True
    rule: BackupRule = field(default_factory=BackupRule)


@dataclass(frozen=True)
class SimulatedStep:
    """A step of a model that was drawn."""

    needs: int | None  # the number of the step that it is made from, in its model
    seconds: float  # that it takes where no place is slow
    expected_s: float | None  # as the product forecasts it
    rest_s: float  # likewise, with what follows it
    bytes: float


@dataclass(frozen=True)
class Outcome:
    """What a simulation gives."""

    nodes: int
    hours: float
    efficiency: float
    of_best: float
    speed_up: float  # over the needed work, one step after the other
    slots_busy: float  # share of the time, with copies, stragglers, moved bytes and warm-ups
    copies: int
    copies_won: int
    driver_busy: float
    store_busy: float


def recorded_steps(path: Path) -> dict[str, dict[str, float]]:
    """Return the seconds of each zoo model's conversions by their names; a row's seconds are those of its route."""
    rows: dict[str, dict[tuple[str, ...], tuple[str, float]]] = defaultdict(dict)
    for row in json.loads(path.read_text())["rows"]:
        if row["seconds"]:
            rows[row["model"]][tuple(row["route"])] = row["column"].rpartition("onnx2tf:")[2], float(row["seconds"])
    return {model: _steps_of(routes) for model, routes in rows.items()}


def _steps_of(routes: Mapping[tuple[str, ...], tuple[str, float]]) -> dict[str, float]:
    start: tuple[str, ...] = next((route for route, (column, _) in routes.items() if column == "onnx"), ())
    steps = {}
    for route, (column, route_s) in routes.items():
        parts = [other for other in routes if other != route and route[: len(other)] == other]
        seconds = route_s - routes[max(parts, key=len)][1] if parts else route_s
        if seconds <= 0:  # its parts were recorded in different runs
            seconds = route_s / 20
        names = (*start, *route) if route[0] == "onnx2tf" else route  # that one begins with the ONNX file
        steps[f"convert.{column.replace(':', '-')}.{'+'.join(names)}"] = seconds
    return steps


class ModelDraw:
    """Draws models from the recorded ones. What is expected of them comes from `former`, as in the product."""

    def __init__(self, recorded: Zoo, former: Zoo, weight_bytes: Mapping[str, int]) -> None:
        self._recorded = recorded
        self._known = StepDurations(StepRecord(model, step, s) for model in former for step, s in former[model].items())
        self._bytes = weight_bytes
        self._mean_bytes = statistics.mean(weight_bytes.values())

    def draw(self, count: int, setting: Setting, seed: int = 0) -> list[list[SimulatedStep]]:
        """Return models in the order in which the product begins them."""
        rng = random.Random(seed)  # noqa: S311  (not a secret)
        names = rng.choices(list(self._recorded), k=count)
        if setting.longest_first:
            names = longest_first(names, cache(self._known.model_s))
        share = setting.straggler_share * setting.by_nature
        return [
            [
                replace(step, seconds=step.seconds * (setting.straggler_factor if rng.random() < share else 1.0))
                for step in self._steps(name, setting.step_bytes)
            ]
            for name in names
        ]

    @cache  # noqa: B019  (lives as long as the program)
    def _steps(self, model: str, step_bytes: float | None) -> tuple[SimulatedStep, ...]:
        names = sorted(self._recorded[model], key=lambda step: step.count("+"))
        routes = [name.split(".", 2)[2] for name in names]
        moved = 2.0 * self._bytes.get(model, self._mean_bytes) if step_bytes is None else step_bytes
        steps = []
        for at, name in enumerate(names):
            before = [other for other in range(at) if routes[at].startswith(f"{routes[other]}+")]
            expected_s, rest_s = self._known.step_s(model, name), self._known.rest_s(model, name)
            needs = max(before, key=lambda other: len(routes[other]), default=None)
            steps.append(SimulatedStep(needs, self._recorded[model][name], expected_s, rest_s, moved))
        return tuple(steps)


def chain_s(steps: Sequence[SimulatedStep]) -> float:
    """Return the longest chain of a model where no place is slow."""
    ends: list[float] = []
    for step in steps:
        ends.append(step.seconds + (0.0 if step.needs is None else ends[step.needs]))
    return max(ends)


@dataclass(eq=False)
class Attempt:
    """A step in the queue or on a node: the first one, or a copy."""

    model: int
    step: int
    ticket: StepTicket
    first: Attempt | None = None  # that this one is a copy of
    copy: Attempt | None = None
    slot: int | None = None
    begun_s: float = 0.0
    is_over: bool = False


class Simulation:
    """Carries models through the cluster; `now` is the end of the last step."""

    def __init__(self, models: Sequence[Sequence[SimulatedStep]], setting: Setting, seed: int) -> None:
        self._models, self._setting = models, setting
        self.slots = setting.nodes * setting.slots
        self._rng = random.Random(seed + 1)  # noqa: S311  (not a secret)
        self._queue = StepQueue(self.slots, setting.rule)
        self._pace = Pace()
        self._idle = list(range(self.slots))[::-1]
        self._cold = set(range(setting.nodes))
        self._events: list[tuple[float, int, str, Attempt]] = []
        self._numbers = count()  # of events, in the order of which equal times come
        self._attempts: dict[int, Attempt] = {}  # by the number of the ticket
        self._left: dict[int, int] = {}  # steps of a model that are not done
        self._next_model = 0
        self._drivers = [0.0] * setting.drivers  # when each is free
        self._store = 0.0
        self.now = self.busy_s = self.driver_s = self.store_s = 0.0
        self.copies = self.copies_won = 0

    def run(self) -> None:
        """Carry all models to their end."""
        self._admit()
        while self._events:
            at, _, kind, attempt = heapq.heappop(self._events)
            if attempt.is_over:
                continue
            self.now = at
            if kind == _END:
                self._end(attempt)
            else:
                self._look(attempt)

    def _admit(self) -> None:
        """Begin models: as many are under way as there are slots."""
        while self._next_model < len(self._models) and len(self._left) < self.slots:
            model, self._next_model = self._next_model, self._next_model + 1
            self._left[model] = len(self._models[model])
            for number, step in enumerate(self._models[model]):
                if step.needs is None:
                    self._join(model, number)

    def _join(self, model: int, step: int, first: Attempt | None = None) -> Attempt:
        rest_s = self._models[model][step].rest_s if self._setting.chains_first else 0.0
        ticket = self._queue.join(rest_s, is_copy=first is not None)
        attempt = self._attempts[ticket.number] = Attempt(model, step, ticket, first)
        if ticket.wait(0):
            self._begin(attempt)
        return attempt

    def _begin(self, attempt: Attempt) -> None:
        setting, step = self._setting, self._models[attempt.model][attempt.step]
        slot = attempt.slot = self._take_slot(attempt.first)
        node, driver = slot % setting.nodes, attempt.model % setting.drivers
        self._drivers[driver] = max(self.now, self._drivers[driver]) + setting.driver_s
        self._store = max(self._drivers[driver], self._store) + step.bytes / setting.store_bytes_s
        begin = max(self._store, self._drivers[driver] + step.bytes / setting.node_bytes_s)
        self.driver_s += setting.driver_s
        self.store_s += step.bytes / setting.store_bytes_s
        if node in self._cold:
            self._cold.discard(node)
            begin += setting.warm_up_s
        by_place = setting.straggler_share * (1.0 - setting.by_nature)
        is_slow = self._rng.random() < by_place or node < setting.slow_nodes
        attempt.begun_s = self.now
        self._push(begin + step.seconds * (setting.straggler_factor if is_slow else 1.0), _END, attempt)
        if attempt.first:
            self.copies += 1
        elif setting.backups:
            self._push(self.now + _LOOK_AGAIN_S, _LOOK, attempt)

    def _take_slot(self, first: Attempt | None) -> int:
        """Return an idle slot; of a copy on another node, where there is one."""
        other = None if first is None or first.slot is None else first.slot % self._setting.nodes
        slot = next((slot for slot in reversed(self._idle) if slot % self._setting.nodes != other), self._idle[-1])
        self._idle.remove(slot)
        return slot

    def _look(self, attempt: Attempt) -> None:
        """Queue a copy of a step that is late."""
        expected_s = self._models[attempt.model][attempt.step].expected_s
        if self.now - attempt.begun_s > self._setting.rule.late_after_s(expected_s, self._pace.value):
            attempt.copy = self._join(attempt.model, attempt.step, attempt)
        else:
            self._push(self.now + _LOOK_AGAIN_S, _LOOK, attempt)

    def _end(self, attempt: Attempt) -> None:
        """End a step, the other one of it, and what waits for it."""
        model, steps = attempt.model, self._models[attempt.model]
        if attempt.first is None:
            self._pace.add(self.now - attempt.begun_s, steps[attempt.step].expected_s)
        self.copies_won += attempt.first is not None
        self._left[model] -= 1
        for number, step in enumerate(steps):
            if step.needs == attempt.step:
                self._join(model, number)
        if not self._left[model]:
            del self._left[model]
        self._admit()
        for entry in (attempt, attempt.first or attempt.copy):
            if entry is not None:
                self._free(entry)

    def _free(self, attempt: Attempt) -> None:
        attempt.is_over = True
        if attempt.slot is not None:
            self._idle.append(attempt.slot)
            self.busy_s += self.now - attempt.begun_s
        for ticket in attempt.ticket.leave():
            self._begin(self._attempts[ticket.number])

    def _push(self, at: float, kind: str, attempt: Attempt) -> None:
        heapq.heappush(self._events, (at, next(self._numbers), kind, attempt))


def simulate(models: Sequence[Sequence[SimulatedStep]], setting: Setting, seed: int = 0) -> Outcome:
    """Carry all models through the cluster."""
    simulation = Simulation(models, setting, seed)
    simulation.run()
    seconds, slots = simulation.now, simulation.slots
    work = sum(step.seconds for steps in models for step in steps)
    best = max(work / slots, *map(chain_s, models))
    return Outcome(
        setting.nodes, round(seconds / 3600, 3), round(work / (slots * seconds), 4), round(best / seconds, 4),
        round(work / seconds, 1), round(simulation.busy_s / slots / seconds, 3), simulation.copies,
        simulation.copies_won, round(simulation.driver_s / setting.drivers / seconds, 3),
        round(simulation.store_s / seconds, 3),
    )  # fmt: skip


CASES: dict[str, dict[str, Any]] = {
    "as the product does it": {},
    "models in the order of the list": {"longest_first": False},
    "steps in the order in which they are ready": {"chains_first": False},
    "no second copies": {"backups": False},
    "none of the three": {"longest_first": False, "chains_first": False, "backups": False},
    "second copies only after 3 times the time": {"rule": BackupRule(factor=3.0, margin_s=0.0)},
    "no stragglers": {"straggler_share": 0.0},
    "a quarter of the stragglers long by nature": {"by_nature": 0.25},
    "all stragglers long by nature": {"by_nature": 1.0},
    "3 nodes 5 times as slow": {"slow_nodes": 3},
    "list split over 2 commands": {"drivers": 2},
    "list split over 4 commands": {"drivers": 4},
    "driver busy for 3.5 ms": {"driver_s": 0.0035},
    "no time of the driver": {"driver_s": 0.0},
    "list split over 4 commands, no stragglers": {"drivers": 4, "straggler_share": 0.0},
    "store of 1 GB/s": {"store_bytes_s": 1e9},
    "100 MB of every step": {"step_bytes": 100e6},
    "no warm-up": {"warm_up_s": 0.0},
}


def efficiency_of_draws(draw: ModelDraw, models: int, setting: Setting, draws: int = 3) -> list[float]:
    """Return the efficiencies of several draws of models and stragglers, sorted: one late copy may tell."""
    return sorted(simulate(draw.draw(models, setting, seed), setting, seed).efficiency for seed in range(draws))


DRAWS: dict[str, dict[str, Any]] = {
    "128 nodes": {"nodes": 128},
    "256 nodes": {"nodes": 256},
    "256 nodes, list split over 4 commands": {"nodes": 256, "drivers": 4},
}


def main() -> int:
    """Simulate, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--former", type=Path, help="a zoo.json of an earlier run, that is all the product knows")
    parser.add_argument("--out", type=Path, default=RESULTS / "cluster_simulation.json")
    options = parser.parse_args()
    recorded = recorded_steps(RESULTS / "zoo.json")
    former = recorded_steps(options.former) if options.former else recorded
    draw = ModelDraw(recorded, former, json.loads((RESULTS / "zoo_bytes.json").read_text()))
    base = Setting(slots=options.slots)

    def row(**changes: Any) -> dict[str, Any]:
        setting = replace(base, **changes)
        return asdict(simulate(draw.draw(options.models, setting), setting))

    curve, cases = [], {}
    for power in range(9):
        curve.append(row(nodes=1 << power))
        print(json.dumps(curve[-1]), flush=True)
    for name, changes in CASES.items():
        cases[name] = row(nodes=256, **changes)
        print(name, json.dumps(cases[name]), flush=True)
    draws = {
        name: efficiency_of_draws(draw, options.models, replace(base, **changes)) for name, changes in DRAWS.items()
    }
    models = draw.draw(options.models, base)
    seconds = [step.seconds for steps in models for step in steps]
    chains = [chain_s(steps) for steps in models]
    document = {
        "models": options.models, "former": str(options.former.name) if options.former else None,
        "setting": asdict(base), "recorded_models": len(recorded), "steps": len(seconds),
        "step_s": {"mean": round(statistics.mean(seconds), 2), "median": round(statistics.median(seconds), 2)},
        "work_hours": round(sum(seconds) / 3600, 2), "longest_chain_s": round(max(chains), 1),
        "curve": curve, "at_256_nodes": cases, "efficiency_of_draws": draws,
    }  # fmt: skip
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    print({name: document[name] for name in ("steps", "step_s", "work_hours", "longest_chain_s")})
    return 0


if __name__ == "__main__":
    sys.exit(main())
