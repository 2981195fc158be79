"""How long a step takes beside its work on a node, over one here: a step that does nothing, in pairs."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from transload.models.store import Store
from transload.pipeline.extras.cluster.ray_cluster import connect
from transload.pipeline.extras.cluster.ray_executor import RayExecutor
from transload.pipeline.workers.engine import Action, LocalExecutor
from transload.pipeline.workers.isolation import Limits
from transload.pipeline.workers.worker_slots import WorkerSlots

_HERE = str(Path(__file__).resolve().parent)


def measure_overhead(home: Path, pairs: int) -> dict[str, Any]:
    """Return the medians in milliseconds of a step here and on a node of the cluster that RAY_ADDRESS names, and of the
    differences of the pairs. Both start a worker process, and keep the result."""
    here = LocalExecutor(Store(home / "here.store"), home / "here", WorkerSlots(1))
    there = RayExecutor(Store(home / "there.store"), home / "there", WorkerSlots(1), connect(None))
    seconds: dict[str, list[float]] = {"local": [], "ray": []}
    for number in range(-3, pairs):
        executors = [("local", here), ("ray", there)][:: 1 if number % 2 else -1]
        for name, executor in executors:
            start = time.perf_counter()
            executor.perform(_step(number))
            if number >= 0:  # the first ones load what later ones share
                seconds[name].append(time.perf_counter() - start)
    here.close()
    there.close()
    differences = [ray - local for local, ray in zip(seconds["local"], seconds["ray"], strict=True)]
    return {
        "pairs": pairs,
        "local_ms": round(1e3 * statistics.median(seconds["local"]), 1),
        "ray_ms": round(1e3 * statistics.median(seconds["ray"]), 1),
        "difference_ms": round(1e3 * statistics.median(differences), 1),
        "load": os.getloadavg()[0],
    }


def _step(number: int) -> Action:
    return Action(f"step{number}", "no_op:no_op", options={"number": number}, root=_HERE, limits=Limits(seconds=60))


if __name__ == "__main__":
    print(json.dumps(measure_overhead(Path(sys.argv[1]), int(sys.argv[2]))))
