"""A discrete-event simulation of many models on many nodes, from durations that the zoo has recorded.

    python benchmarks/cluster/simulate.py [--models 10000] [--slots 4] [--former ZOO.json] [--out FILE.json]

The order of models, the queues of ready steps, the rule for copies and the number of drivers are the product's own
(transload.pipeline.schedule); what is simulated is the cluster. A model is its conversions: each waits for the one that
it is made from, and for nothing else, as in `convert`. As many models are under way as the cluster has slots. A step
passes three places in turn: its driver, which orders one step at a time and keeps its own share of the slots; the
store, whose bandwidth all nodes share; and a slot of a node, which loads a framework when it first needs it. Checks and
references are not in the record, and not simulated but for what they cost the driver.

A straggler takes several times as long. Most are slow by their place: a copy elsewhere draws anew. A share
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
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from recorded_models import ModelDraw, SimulatedStep, chain_s, recorded_steps

from transload.pipeline.schedule.backup_rule import BackupRule, Pace
from transload.pipeline.schedule.driver_count import driver_count
from transload.pipeline.schedule.step_queue import StepQueue, StepTicket

RESULTS = Path(__file__).resolve().parents[1] / "results"
_LOOK_AGAIN_S = 2.0  # as step_race.py looks for steps that are late
_END, _LOOK = "end", "look"


@dataclass(frozen=True)
class Setting:
    """The properties of the cluster and of the steps, and the rules in use. Times in seconds, sizes in bytes."""

    nodes: int = 1
    slots: int = 4  # steps at once on a node
    drivers: int = 0  # processes that the models are dealt to; 0: as many as the product begins
    model_s: float = 0.05  # that a driver is busy with a model: 40 ms, and three steps (driver_cost.py)
    driver_s: float = 0.006  # with a conversion and its check: 3 ms each
    warm_up_s: float = 6.5  # torch and TensorFlow, once on each node (docs/design/engine.md)
    step_bytes: float | None = None  # that a step reads and writes; None: twice the weights of its model
    store_bytes_s: float = 10e9  # of the store, all nodes together
    node_bytes_s: float = 1e9  # of a node's own network
    straggler_share: float = 0.01  # of the steps
    straggler_factor: float = 5.0
    by_nature: float = 0.0  # share of the stragglers that are as slow on every node
    slow_nodes: int = 0  # number of nodes that take straggler_factor times as long for every step
    noise: float = 0.0  # standard deviation of the logarithm of a step's time, each time that it is done
    longest_first: bool = True
    chains_first: bool = True
    backups: bool = True
    rule: BackupRule = field(default_factory=BackupRule)


@dataclass(frozen=True)
class Outcome:
    """The result of a simulation."""

    nodes: int
    drivers: int
    hours: float
    efficiency: float
    of_best: float
    speed_up: float  # over the needed work, one step after the other
    slots_busy: float  # share of the time, with copies, stragglers, moved bytes and warm-ups
    copies: int
    copies_won: int
    driver_busy: float  # the busiest of them
    store_busy: float


@dataclass(eq=False)
class Attempt:
    """One attempt at a step, which waits in the queue or runs on a node."""

    race: Race
    ticket: StepTicket
    slot: int | None = None
    begun_s: float = 0.0


@dataclass(eq=False)
class Race:
    """A step with the attempts at it; the first one that ends counts."""

    driver: Driver
    model: int
    step: SimulatedStep
    number: int  # of the step in its model
    attempts: list[Attempt] = field(default_factory=list)
    is_over: bool = False


@dataclass
class Driver:
    """A process that orders steps, with its share of the cores: it knows its own steps only."""

    queue: StepQueue
    pace: Pace = field(default_factory=Pace)
    models: int = 0  # under way
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
        count_of_drivers = setting.drivers or driver_count(self.slots)
        self.drivers = [
            Driver(StepQueue(self.slots // count_of_drivers, setting.rule)) for _ in range(count_of_drivers)
        ]
        self._idle = list(range(self.slots))[::-1]
        self._cold = set(range(setting.nodes))
        self._events: list[tuple[float, int, str, Attempt]] = []
        self._numbers = count()  # of events, in the order of which equal times come
        self._attempts: dict[StepTicket, Attempt] = {}
        self._left: dict[int, int] = {}  # steps of a model that are not done
        self._next_model = 0
        self._store = 0.0
        self.now = self.busy_s = self.store_s = 0.0
        self.copies = self.copies_won = 0

    def run(self) -> None:
        """Carry all models to their end."""
        self._admit()
        while self._events:
            at, _, kind, attempt = heapq.heappop(self._events)
            if attempt.race.is_over:
                continue
            self.now = at
            if kind == _END:
                self._end(attempt)
            else:
                self._look(attempt)

    def _admit(self) -> None:
        """Begin models: as many are under way as there are slots, each with the driver that has the fewest."""
        while self._next_model < len(self._models) and len(self._left) < self.slots:
            model, self._next_model = self._next_model, self._next_model + 1
            driver = min(self.drivers, key=lambda driver: driver.models)
            driver.models += 1
            driver.work(self.now, self._setting.model_s)
            self._left[model] = len(self._models[model])
            for number, step in enumerate(self._models[model]):
                if step.needs is None:
                    self._join(Race(driver, model, step, number))

    def _join(self, race: Race) -> None:
        rest_s = race.step.rest_s if self._setting.chains_first else 0.0
        ticket = race.driver.queue.join(rest_s, is_copy=bool(race.attempts))
        attempt = self._attempts[ticket] = Attempt(race, ticket)
        race.attempts.append(attempt)
        if ticket.wait(0):
            self._begin(attempt)

    def _begin(self, attempt: Attempt) -> None:
        setting, race = self._setting, attempt.race
        slot = attempt.slot = self._take_slot(race)
        node, ordered_s = slot % setting.nodes, race.driver.work(self.now, setting.driver_s)
        moved_s = race.step.bytes / setting.store_bytes_s
        self._store = max(ordered_s, self._store) + moved_s
        self.store_s += moved_s
        begin = max(self._store, ordered_s + race.step.bytes / setting.node_bytes_s)
        if node in self._cold:
            self._cold.discard(node)
            begin += setting.warm_up_s
        by_place = setting.straggler_share * (1.0 - setting.by_nature)
        is_slow = self._rng.random() < by_place or node < setting.slow_nodes
        seconds = race.step.seconds * (setting.straggler_factor if is_slow else 1.0)
        if setting.noise:
            seconds *= self._rng.lognormvariate(0.0, setting.noise)
        attempt.begun_s = self.now
        self._push(begin + seconds, _END, attempt)
        self.copies += attempt is not race.attempts[0]
        if setting.backups and attempt is race.attempts[-1] and len(race.attempts) < setting.rule.most_attempts:
            self._look_later(attempt, self.now + self._late_after_s(race))

    def _take_slot(self, race: Race) -> int:
        """Return an idle slot; of a copy on another node, where there is one."""
        nodes = self._setting.nodes
        others = {attempt.slot % nodes for attempt in race.attempts if attempt.slot is not None}
        slot = next((slot for slot in reversed(self._idle) if slot % nodes not in others), self._idle[-1])
        self._idle.remove(slot)
        return slot

    def _late_after_s(self, race: Race) -> float:
        driver = race.driver
        return self._setting.rule.late_after_s(
            race.step.expected_s, driver.pace.value, has_idle_cores=driver.queue.has_idle_cores
        )

    def _look(self, attempt: Attempt) -> None:
        """Queue a copy of a step that is late; all that it may have, where it is long."""
        race, rule = attempt.race, self._setting.rule
        if len(race.attempts) >= rule.most_attempts:
            return
        late_s = attempt.begun_s + self._late_after_s(race)
        if self.now < late_s:
            self._look_later(attempt, late_s)
            return
        self._join(race)
        while rule.is_long(race.step.expected_s) and len(race.attempts) < rule.most_attempts:
            self._join(race)

    def _look_later(self, attempt: Attempt, late_s: float) -> None:
        self._push(min(late_s, self.now + _LOOK_AGAIN_S), _LOOK, attempt)

    def _end(self, attempt: Attempt) -> None:
        """End a step, the other attempts at it, and what waits for it."""
        race = attempt.race
        race.is_over = True
        if attempt is race.attempts[0]:
            race.driver.pace.add(self.now - attempt.begun_s, race.step.expected_s)
        else:
            self.copies_won += 1
        self._left[race.model] -= 1
        for number, step in enumerate(self._models[race.model]):
            if step.needs == race.number:
                self._join(Race(race.driver, race.model, step, number))
        if not self._left[race.model]:
            del self._left[race.model]
            race.driver.models -= 1
        self._admit()
        for other in reversed(race.attempts):  # those that still wait are the last ones
            self._free(other)

    def _free(self, attempt: Attempt) -> None:
        if attempt.slot is not None:
            self._idle.append(attempt.slot)
            self.busy_s += self.now - attempt.begun_s
        for ticket in attempt.ticket.leave():
            self._begin(self._attempts.pop(ticket))

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
        setting.nodes, len(simulation.drivers), round(seconds / 3600, 3), round(work / (slots * seconds), 4),
        round(best / seconds, 4), round(work / seconds, 1), round(simulation.busy_s / slots / seconds, 3),
        simulation.copies, simulation.copies_won,
        round(max(driver.busy_s for driver in simulation.drivers) / seconds, 3),
        round(simulation.store_s / seconds, 3),
    )  # fmt: skip


def models_for(draw: ModelDraw, count: int, setting: Setting, seed: int = 0) -> list[list[SimulatedStep]]:
    """Return models that are drawn for a setting."""
    return draw.draw(
        count, seed, long_share=setting.straggler_share * setting.by_nature, long_factor=setting.straggler_factor,
        step_bytes=setting.step_bytes, is_ordered=setting.longest_first,
    )  # fmt: skip


CASES: dict[str, dict[str, Any]] = {
    "as the product does it": {},
    "models in the order of the list": {"longest_first": False},
    "steps in the order in which they are ready": {"chains_first": False},
    "no copies": {"backups": False},
    "none of the three": {"longest_first": False, "chains_first": False, "backups": False},
    "copies only after 3 times the time": {"rule": BackupRule(factor=3.0, margin_s=0.0, margin_of_idle_s=1e9)},
    "one copy at most": {"rule": BackupRule(most_attempts=2)},
    "no stragglers": {"straggler_share": 0.0},
    "times that differ by 10 %": {"noise": 0.1},
    "a quarter of the stragglers long by nature": {"by_nature": 0.25},
    "all stragglers long by nature": {"by_nature": 1.0},
    "3 nodes 5 times as slow": {"slow_nodes": 3},
    "1 process": {"drivers": 1},
    "2 processes": {"drivers": 2},
    "8 processes": {"drivers": 8},
    "processes twice as slow": {"model_s": 2 * Setting.model_s, "driver_s": 2 * Setting.driver_s},
    "no time of the processes": {"model_s": 0.0, "driver_s": 0.0},
    "store of 1 GB/s": {"store_bytes_s": 1e9},
    "100 MB of every step": {"step_bytes": 100e6},
    "no warm-up": {"warm_up_s": 0.0},
}


def middle_of_draws(draw: ModelDraw, models: int, setting: Setting, draws: int) -> dict[str, Any]:
    """Return the outcome of median efficiency over several draws of models and stragglers, with all efficiencies: one
    straggler whose copies straggle as well may tell."""
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
    parser.add_argument("--draws", type=int, default=5, help="of models and stragglers, for each row")
    parser.add_argument("--draws-256", type=int, default=15, help="for the row of 256 nodes")
    parser.add_argument("--former", type=Path, help="a zoo.json of an earlier run, that is all the product knows")
    parser.add_argument("--out", type=Path, default=RESULTS / "cluster_simulation.json")
    options = parser.parse_args()
    recorded = recorded_steps(RESULTS / "zoo.json")
    former = recorded_steps(options.former) if options.former else recorded
    draw = ModelDraw(recorded, former, json.loads((RESULTS / "zoo_bytes.json").read_text()))
    base = Setting(slots=options.slots)

    def row(name: str, draws: int, **changes: Any) -> dict[str, Any]:
        middle = middle_of_draws(draw, options.models, replace(base, **changes), draws)
        print(name, json.dumps(middle), flush=True)
        return middle

    draws = [options.draws] * 8 + [options.draws_256]
    curve = [row("", draws[power], nodes=1 << power) for power in range(9)]
    cases = {name: row(name, options.draws, nodes=256, **changes) for name, changes in CASES.items()}
    models = models_for(draw, options.models, base)
    seconds = [step.seconds for steps in models for step in steps]
    chains = [chain_s(steps) for steps in models]
    document = {
        "models": options.models, "former": str(options.former.name) if options.former else None,
        "setting": asdict(base), "recorded_models": len(recorded), "steps": len(seconds),
        "step_s": {"mean": round(statistics.mean(seconds), 2), "median": round(statistics.median(seconds), 2)},
        "work_hours": round(sum(seconds) / 3600, 2), "longest_chain_s": round(max(chains), 1),
        "curve": curve, "at_256_nodes": cases,
    }  # fmt: skip
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    print({name: document[name] for name in ("steps", "step_s", "work_hours", "longest_chain_s")})
    return 0


if __name__ == "__main__":
    sys.exit(main())
