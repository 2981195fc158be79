"""How long the process that orders steps is busy with a step on a node, and with a model: its CPU time.

    python benchmarks/cluster/driver_cost.py [--steps 100] [--models 120] [--out benchmarks/results/driver_cost.json]

Steps: many side by side on Ray's own test cluster of one node, which is begun here; they do nothing but leave a file of
the size. Models: `convert` of two lists to ONNX, a short and a long one, with all steps in the store; the difference is
the cost of the models themselves, without their steps. The models are those of nets.py, each several times.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
_SIZES = (0, 1_000_000, 45_000_000)  # bytes: a check's, a small model's, ResNet-18's
_NETS = 10
# Does a command, and prints the CPU seconds of its own process on stderr's last line.
_COMMAND = """
import atexit, sys, time
atexit.register(lambda: print(time.process_time(), file=sys.stderr))
from transload.pipeline.cli import main
main()
"""


def cost_of_steps(home: Path, size: int, steps: int, at_once: int) -> dict[str, Any]:
    """Return the CPU milliseconds of this process for a step."""
    from transload.models.store import Store
    from transload.pipeline.extras.cluster.ray_cluster import connect
    from transload.pipeline.extras.cluster.ray_executor import RayExecutor
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
    return {"bytes": size, "steps": steps, "cpu_ms": round(1e3 * cpu_s / steps, 2)}


def cost_of_models(home: Path, models: int) -> dict[str, Any]:
    """Return the CPU milliseconds of a command for a model, beside its steps."""
    seconds = {}
    for copies in (1, 1, models // _NETS):  # the first time the steps are done
        file = home / f"{copies}.toml"
        file.write_text(_models_file(copies))
        words = ["convert", str(file), "--quiet", "--out", str(home / "out"), "--store", str(home / "store")]
        result = subprocess.run(
            [sys.executable, "-P", "-c", _COMMAND, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
            text=True, check=True, cwd=home,
        )  # fmt: skip
        seconds[copies] = float(result.stderr.splitlines()[-1])
        shutil.rmtree(home / "out")
    more = models // _NETS - 1
    return {"models": _NETS * more, "cpu_ms": round(1e3 * (seconds[more + 1] - seconds[1]) / (_NETS * more), 1)}


def _models_file(copies: int) -> str:
    tables = [
        f'[[model]]\nname = "copy_{copy}_net_{net}"\nsource = "{HERE / "nets.py"}:net_{net}"\n'
        'inputs = ["x=float32[batch,16]"]\n'
        for copy in range(copies)
        for net in range(_NETS)
    ]
    return "\n".join(["[defaults]\nto = ['onnx']\npython = 'self'\n", *tables])


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--models", type=int, default=120)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--out", type=Path, default=RESULTS / "driver_cost.json")
    options = parser.parse_args()
    from proof import cluster

    home = Path(tempfile.mkdtemp(prefix="tc-"))
    try:
        models = cost_of_models(home, options.models)
        with cluster(1, options.at_once, home, {}) as nodes:
            os.environ["RAY_ADDRESS"] = nodes.address
            steps = [cost_of_steps(home, size, options.steps, options.at_once) for size in _SIZES]
            document = {"at_once": options.at_once, "load": os.getloadavg()[0], "model": models, "steps": steps}
            options.out.write_text(json.dumps(document, indent=1) + "\n")
            print(json.dumps(document), flush=True)
            os._exit(0)  # Ray ends a process whose cluster has gone
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
