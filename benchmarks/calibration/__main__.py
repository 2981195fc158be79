"""How often the verdicts of `transload bench` are right: a model against its copy, and against itself slowed down.

    python benchmarks/calibration collect [--pairs 200] [--kinds in-process,served] [--pool FOLDER]
    python benchmarks/calibration judge [--pool FOLDER] [--out FILE.json]

`collect` measures pairs of equal ONNX files with `transload bench`, each in 10 or 12 sets of new processes, and keeps
every sample in the pool; a pool that has some goes on. `judge` replays the rule of `transload bench` on them, set by
set, until it stops, and the rules of other tools on the same samples. A candidate that is slowed down by 5 % has the
same samples times 1.05: what calls would take that wait for a twentieth of their own time before they return.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from judging import judge_pool

import transload

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "calibration.json"
RUNTIMES = {"in-process": "onnxruntime", "served": "oip-http"}
# Sets of processes and rounds in each, which about fill a minute. By itself `transload bench` makes as many rounds as
# fit into the time that it took to start the processes.
SETS = {"in-process": (12, 10), "served": (10, 40)}


def collect(pool: Path, kinds: list[str], pairs: int) -> None:
    """Measure pairs until the pool has `pairs` of each kind, the kinds in turns."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        converted = transload.convert("zoo:digits-cnn", to=["onnx"], out=work / "made", store=work / "store")
        folder = converted.folder / "onnx"
        copy = shutil.copytree(folder, work / "copy")
        for number in range(pairs):
            for kind in kinds:
                target = pool / kind / f"{number:03d}.npz"
                if target.exists():
                    continue
                measure(work, folder, copy, kind, target)


def measure(work: Path, first: Path, second: Path, kind: str, target: Path) -> None:
    """Measure one pair; write its samples, the seconds that it took and the load of the machine."""
    start = time.monotonic()
    processes, rounds = SETS[kind]
    done = transload.bench(
        first, second, runtimes=[RUNTIMES[kind]], batches=[1], processes=processes, rounds=rounds, budget_s=0,
        runs=work / "runs", store=work / "store",
    )  # fmt: skip
    seconds = time.monotonic() - start
    target.parent.mkdir(parents=True, exist_ok=True)
    facts = {"seconds": seconds, "load": os.getloadavg()[0], "rows": [row.comparison for row in done.latency]}
    target.with_suffix(".json").write_text(json.dumps(facts))
    shutil.copyfile(done.folder / "latency.npz", target.with_suffix(".part"))
    target.with_suffix(".part").rename(target)
    shutil.rmtree(done.folder)
    print(f"{target.parent.name} {target.stem}: {seconds:.1f} s, load {facts['load']:.1f}", file=sys.stderr, flush=True)


def main() -> int:
    """Collect or judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=["collect", "judge"])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--kinds", default=",".join(RUNTIMES))
    parser.add_argument("--pool", type=Path, default=Path("calibration-pool"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.part == "collect":
        collect(options.pool, options.kinds.split(","), options.pairs)
        return 0
    document = judge_pool(options.pool, list(RUNTIMES))
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
