"""How long the driver's process is busy with a step on a node: its CPU time, over many steps side by side.

    python benchmarks/cluster/driver_cost.py [--steps 40] [--at-once 4] [--out benchmarks/results/driver_cost.json]

Ray's own test cluster of one node is begun here. The steps do nothing but leave a file of the size.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
_SIZES = (0, 1_000_000, 45_000_000)  # bytes: a check's, a small model's, ResNet-18's


def measure(home: Path, size: int, steps: int, at_once: int) -> dict[str, Any]:
    """Return the CPU milliseconds of this process for a step."""
    from transload.models.store import Store
    from transload.pipeline.cluster.ray_cluster import connect
    from transload.pipeline.cluster.ray_executor import RayExecutor
    from transload.pipeline.workers.engine import Action
    from transload.pipeline.workers.isolation import Limits
    from transload.pipeline.workers.worker_slots import WorkerSlots

    executor = RayExecutor(Store(home / f"{size}.store"), home / str(size), WorkerSlots(at_once), connect(None))

    def perform(number: int) -> None:
        options = {"number": number, "bytes": size}
        executor.perform(
            Action(f"step{number}", "no_op:write", options=options, root=str(HERE), limits=Limits(seconds=60))
        )

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(perform, range(-at_once, 0)))  # the first ones load what later ones share
        start = time.process_time()
        list(pool.map(perform, range(steps)))
        cpu_s = time.process_time() - start
    executor.close()
    shutil.rmtree(home / f"{size}.store")
    return {"bytes": size, "steps": steps, "driver_cpu_ms": round(1e3 * cpu_s / steps, 2)}


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--out", type=Path, default=RESULTS / "driver_cost.json")
    options = parser.parse_args()
    from proof import cluster

    home = Path(tempfile.mkdtemp(prefix="tc-"))
    try:
        with cluster(1, options.at_once, home) as nodes:
            os.environ["RAY_ADDRESS"] = nodes.address
            rows = [measure(home, size, options.steps, options.at_once) for size in _SIZES]
            document = {"at_once": options.at_once, "load": os.getloadavg()[0], "rows": rows}
            options.out.write_text(json.dumps(document, indent=1) + "\n")
            print(json.dumps(document), flush=True)
            os._exit(0)  # Ray ends a process whose cluster has gone
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
