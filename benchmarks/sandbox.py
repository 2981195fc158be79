"""What the kernel's walls cost: `transload convert` with them and with --trust, in alternating rounds.

    python benchmarks/sandbox.py [--rounds 10] [--out FILE.json] [MODEL ...]

Training is done before. Each round converts to ONNX from a copy of that store, once each way, in alternating order.
Writes the medians of wall and of processor seconds (of the command and all its workers, which a busy machine moves
less), their ratios, and the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if not __package__:
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != ROOT / "benchmarks"]

from transload.pipeline.result.environment import describe_environment  # noqa: E402
from transload.pipeline.workers.walls.sandbox import landlock_version, missing_walls  # noqa: E402

CONVERT = [sys.executable, "-P", "-m", "transload", "convert"]
KINDS: dict[str, list[str]] = {"walls": [], "no_walls": ["--trust"]}


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", default=["zoo:digits-cnn", "torchvision:resnet18"])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "sandbox.json")
    options = parser.parse_args()
    document: dict[str, Any] = {
        "environment": vars(describe_environment()),
        "landlock": landlock_version(),
        "missing_walls": missing_walls(),
        "load_before": os.getloadavg()[0],
        "rounds": options.rounds,
        "models": {},
    }
    for model in options.models:
        with tempfile.TemporaryDirectory() as folder:
            document["models"][model] = row = measure(model, options.rounds, Path(folder))
        options.out.write_text(json.dumps(document, indent=1) + "\n")
        print(model, json.dumps({name: value for name, value in row.items() if not name.endswith("samples")}))
    return 0


def measure(model: str, rounds: int, folder: Path) -> dict[str, Any]:
    """Return medians and ratios of one model."""
    convert(model, "torchscript", folder / "store", folder / "out", [])
    samples: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for number in range(rounds):
        for kind in sorted(KINDS, reverse=bool(number % 2)):
            store, out = folder / "copy", folder / "out"
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(folder / "store", store, symlinks=True)
            samples[kind].append(convert(model, "onnx", store, out, KINDS[kind]))
            shutil.rmtree(store)
    row: dict[str, Any] = {}
    for at, unit in enumerate(("wall_s", "cpu_s")):
        medians = {kind: statistics.median(pair[at] for pair in pairs) for kind, pairs in samples.items()}
        ratios = [walls[at] / none[at] for walls, none in zip(samples["walls"], samples["no_walls"], strict=True)]
        row[unit] = {kind: round(value, 3) for kind, value in medians.items()}
        row[unit]["ratio_of_medians"] = round(medians["walls"] / medians["no_walls"], 4)
        row[unit]["median_of_ratios"] = round(statistics.median(ratios), 4)
        row[f"{unit}_samples"] = {kind: [round(pair[at], 3) for pair in pairs] for kind, pairs in samples.items()}
    return row


def convert(model: str, target: str, store: Path, out: Path, words: list[str]) -> tuple[float, float]:
    """Convert a model; return the wall seconds, and the processor seconds of all processes."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    words = [model, "--to", target, "--store", str(store), "--out", str(out), "--quiet", *words]
    subprocess.run([*CONVERT, *words], cwd=out.parent, check=True, stdout=subprocess.DEVNULL)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
