"""A discrete-event simulation of many models on many nodes, from durations that the zoo has recorded.

    python benchmarks/cluster/simulate.py [--models 10000] [--slots 4] [--out FILE.json]

A model is its first target (onnx) and then the others, which wait for that one and not for each other, as in `convert`.
As many models are under way as the cluster has slots; steps are done in the order in which they became ready. Each one
passes three places in turn: the driver, which orders one step at a time; the store, whose bandwidth all nodes share;
and a slot of a node, which loads a framework when it first needs it. Stragglers take several times as long.

Two shares are told. `efficiency` is the work of all steps over slots times makespan. `of_best` is the shortest makespan
that any order could have, over this one: no run is shorter than its work over the slots, or than its longest model.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import statistics
import sys
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "results"


@dataclass(frozen=True)
class Setting:
    """What the cluster is like. Seconds and bytes."""

    nodes: int = 1
    slots: int = 4  # steps at once on a node
    driver_s: float = (
        0.007  # that the driver is busy with a step: the measured overhead, taken as if it were all its own
    )
    warm_up_s: float = 6.5  # torch and TensorFlow, once on each node (docs/design/engine.md)
    step_bytes: float = 100e6  # that a step reads and writes behind the URL of the store
    store_bytes_s: float = 10e9  # of the store, all nodes together
    node_bytes_s: float = 1e9  # of a node's own network
    straggler_share: float = 0.01  # of the steps
    straggler_factor: float = 5.0
    longest_first: bool = False  # models in the order of what they took in a former run


@dataclass(frozen=True)
class Outcome:
    """What a simulation gives."""

    nodes: int
    hours: float
    efficiency: float
    of_best: float
    speed_up: float  # over the work of all steps, one after the other
    driver_busy: float  # share of the time
    store_busy: float


def recorded_chains(path: Path) -> list[list[float]]:
    """Return the seconds of each zoo model's targets, in the order of the table; a model without any is left out."""
    chains: dict[str, list[float]] = defaultdict(list)
    for row in json.loads(path.read_text())["rows"]:
        if row["seconds"]:
            chains[row["model"]].append(float(row["seconds"]))
    return list(chains.values())


def draw_models(chains: Sequence[Sequence[float]], count: int, setting: Setting, seed: int = 0) -> list[list[float]]:
    """Draw models from the recorded ones, with stragglers among their steps."""
    rng = random.Random(seed)  # noqa: S311  (not a secret)
    factors = (1.0, setting.straggler_factor)
    return [
        [seconds * factors[rng.random() < setting.straggler_share] for seconds in rng.choice(chains)]
        for _ in range(count)
    ]


def simulate(models: Sequence[Sequence[float]], setting: Setting) -> Outcome:
    """Carry all models through the cluster."""
    waiting = sorted(models, key=sum, reverse=True) if setting.longest_first else list(models)
    waiting.reverse()  # the next one is taken from the end
    slots = setting.nodes * setting.slots
    free_driver = free_store = busy_driver = busy_store = now = 0.0
    cold, idle = set(range(setting.nodes)), list(range(slots))[::-1]
    started: dict[int, Sequence[float]] = {}
    left: dict[int, int] = {}  # the steps of a model that are not done, by its number
    ready: deque[tuple[int, int]] = deque()  # the number of a model, and of its step
    events: list[tuple[float, int, int, int]] = []  # the end of a step, its slot, its model, its number
    moving = setting.step_bytes / setting.store_bytes_s
    while True:
        while waiting and len(left) < slots:
            number = len(models) - len(waiting)
            started[number] = waiting.pop()
            left[number] = len(started[number])
            ready.append((number, 0))
        while ready and idle:
            number, step = ready.popleft()
            slot = idle.pop()
            free_driver = max(now, free_driver) + setting.driver_s
            free_store = max(free_driver, free_store) + moving
            busy_driver, busy_store = busy_driver + setting.driver_s, busy_store + moving
            begin = max(free_store, free_driver + setting.step_bytes / setting.node_bytes_s)
            if slot % setting.nodes in cold:
                cold.discard(slot % setting.nodes)
                begin += setting.warm_up_s
            heapq.heappush(events, (begin + started[number][step], slot, number, step))
        if not events:
            break
        now, slot, number, step = heapq.heappop(events)
        idle.append(slot)
        left[number] -= 1
        if step == 0:
            ready.extend((number, later) for later in range(1, len(started[number])))
        if not left[number]:
            del left[number], started[number]
    makespan = now
    work = sum(map(sum, models))
    best = max(work / slots, *(model[0] + max(model[1:], default=0.0) for model in models))
    return Outcome(
        setting.nodes, round(makespan / 3600, 3), round(work / (slots * makespan), 4), round(best / makespan, 4),
        round(work / makespan, 1),
        round(busy_driver / makespan, 3), round(busy_store / makespan, 3),
    )  # fmt: skip


def main() -> int:
    """Simulate, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--out", type=Path, default=RESULTS / "cluster_simulation.json")
    options = parser.parse_args()
    chains = recorded_chains(RESULTS / "zoo.json")
    base = Setting(slots=options.slots)
    models = draw_models(chains, options.models, base)
    curve = [simulate(models, replace(base, nodes=1 << power)) for power in range(9)]
    largest = replace(base, nodes=256)
    changes = {
        "longest first": {"longest_first": True},
        "no warm-up": {"warm_up_s": 0.0},
        "store of 1 GB/s": {"store_bytes_s": 1e9},
        "store of 100 GB/s": {"store_bytes_s": 100e9},
        "driver 10 ms a step more": {"driver_s": base.driver_s + 0.01},
        "driver of 1 ms": {"driver_s": 0.001},
    }
    variants = {name: asdict(simulate(models, replace(largest, **change))) for name, change in changes.items()}
    many = draw_models(chains, 10 * options.models, base)
    variants["10 times the models"] = asdict(simulate(many, largest))
    variants["10 times the models, longest first"] = asdict(simulate(many, replace(largest, longest_first=True)))
    calm = replace(largest, straggler_share=0.0)
    variants["no stragglers"] = asdict(simulate(draw_models(chains, options.models, calm), calm))
    sums = [sum(model) for model in models]
    document = {
        "models": options.models, "setting": asdict(base), "recorded_models": len(chains),
        "steps": sum(map(len, models)), "model_s": {"median": statistics.median(sums), "largest": max(sums)},
        "curve": [asdict(outcome) for outcome in curve], "at_256_nodes": variants,
    }  # fmt: skip
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    for row in (*document["curve"], *({"case": name, **row} for name, row in variants.items())):
        print(json.dumps(row))
    print(document["steps"], document["model_s"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
