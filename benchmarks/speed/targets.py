"""The targets of latency: what our sessions add to a runtime's own call, and ResNet-50 at each runtime's best.

    python benchmarks/speed/targets.py overhead [--processes 8] [--rounds 60] [--out FILE.json]
    python benchmarks/speed/targets.py resnet50 [--threads 2] [--tune-budget 300s] [--budget 5m] [--out FILE.json]

overhead: digits-cnn at batch 1 with one thread. ONNX Runtime beside a bare loop around InferenceSession.run (target:
within 2 %), and our SavedModel session beside TF_SessionRun of the C API, called by ctypes (within 5 %). `bound` is the
call that `transload bench` times; `run` checks the feeds, too. Each process gives one ratio.

resnet50: batch 1; the fastest fp32 and int8 copies beside eager PyTorch with its defaults at the same number of threads
(at least 2 and 5 times). Each runtime is tuned. Weights are random, so the accuracy of int8 is not judged here.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from command import run_command

from transload.pipeline.measure.bench.comparison import compare_logs
from transload.pipeline.result.environment import describe_environment
from transload.pipeline.workers.interpreters import lacking
from transload.serving.runtimes.runtime_table import RUNTIMES

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
TRANSLOAD = (sys.executable, "-P", "-m", "transload")
ARTIFACTS = {"onnxruntime": "onnx", "tensorflow": "saved-model"}
TARGETS = {"onnxruntime": 1.02, "tensorflow": 1.05}
FP32 = ("onnx", "torchscript", "saved-model", "tflite")
INT8 = ("onnx:int8", "tflite:int8")
INPUTS = {"resnet50": "image=float32[batch,3,224,224]", "digits_cnn": "image=float32[batch,1,8,8]"}
FASTER = {"fp32": 2.0, "int8": 5.0}


def main() -> int:
    """Measure one of the two, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("which", choices=["overhead", "resnet50"])
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tune-budget", default="300s")
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--net", choices=list(INPUTS), default="resnet50", help="digits_cnn tries the script quickly")
    parser.add_argument("--targets", default=",".join((*FP32, *INT8)), help="of resnet50")
    parser.add_argument("--work", type=Path, help="kept, and used again")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        work = (arguments.work or Path(folder)).absolute()
        work.mkdir(parents=True, exist_ok=True)
        measure = measure_overhead if arguments.which == "overhead" else measure_resnet50
        figures = measure(arguments, work)
    document = {"environment": vars(describe_environment()), "load_before": load, **figures}
    out = arguments.out or RESULTS / f"speed_{arguments.which}.json"
    out.write_text(json.dumps(document, indent=1, default=str) + "\n")
    return 0


def measure_overhead(arguments: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Return the ratios of our sessions to the bare calls, over several processes."""
    _convert("zoo:digits-cnn", list(ARTIFACTS.values()), work)
    figures: dict[str, Any] = {}
    for kind, target in ARTIFACTS.items():
        words = ("overhead_measure.py", kind, str(work / "made" / target), str(arguments.rounds))
        processes = [
            json.loads(run_command(sys.executable, *words).splitlines()[-1]) for _ in range(arguments.processes)
        ]
        rows = {name: _overhead_row([process[name] for process in processes]) for name in processes[0]}
        reached = rows["bound"]["ratio"] <= TARGETS[kind]
        figures[kind] = {"target": TARGETS[kind], "reached": reached, "calls": rows}
        print(f"{kind}: " + ", ".join(f"{name} {row['p50_s'] * 1e6:.1f} us ({row['ratio']:.4f})"
                                      for name, row in rows.items()), flush=True)  # fmt: skip
    return {"processes": arguments.processes, "overhead": figures}


def _overhead_row(processes: list[dict[str, float]]) -> dict[str, Any]:
    logs = np.array([process["log_ratio"] for process in processes])
    ratio = compare_logs(logs)
    return {
        "p50_s": statistics.median(process["p50_s"] for process in processes),
        "ratio": math.exp(float(logs.mean())),
        "ci95": ratio.ci95 if ratio and logs.any() else None,
    }


def measure_resnet50(arguments: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Return how many times faster than eager the best fp32 and the best int8 copy are, all runtimes tuned."""
    targets = arguments.targets.split(",")
    net, inputs = f"{HERE / 'nets_torch.py'}:{arguments.net}", ("--input", INPUTS[arguments.net])
    _convert(net, targets, work, *inputs, "--data", str(_samples(arguments.net, work)))
    made = [work / "made" / target.replace(":", "-") for target in targets]
    words = ["--against", net, *inputs, "--batch", "1", "--tune", "--json"]
    in_process = [row.name for row in RUNTIMES.values() if not (row.served or row.flex or lacking(row))]
    words += ["--runtime", ",".join(in_process)]
    limits = ["--threads", str(arguments.threads), "--tune-budget", arguments.tune_budget, "--budget", arguments.budget]
    folders = ["--store", str(work / "store"), "--out", str(work / "runs")]
    done = run_command(*TRANSLOAD, "bench", *map(str, made), *words, *limits, *folders, "--quiet")
    document = json.loads(done)
    eager = next(row for row in document["latency"] if row["artifact"] == "source")
    to_default = eager["ratio_to_default"] or 1.0  # the reference of the rows is eager as tuned
    figures: dict[str, Any] = {}
    for precision, least in FASTER.items():
        rows = [row for row in document["latency"] if row["ratio_to_reference"] and row["artifact"] != "source"
                and (":int8" in row["artifact"]) == (precision == "int8")]  # fmt: skip
        best = min(rows, key=lambda row: row["ratio_to_reference"], default=None)
        if best is None:
            continue
        times = 1 / (best["ratio_to_reference"] * to_default)
        figures[precision] = {"times_faster": times, "target": least, "reached": times >= least, "row": best}
        print(f"{precision}: {best['artifact']} in {best['runtime']} ({best['settings']}): {times:.2f} times eager, "
              f"p50 {best['p50_s'] * 1e3:.1f} ms", flush=True)  # fmt: skip
    return {"net": arguments.net, "times_faster": figures, "latency": document["latency"], "tuning": document["tuning"]}


def _samples(net: str, work: Path) -> Path:
    """Write random images. Without samples an image of zeros is tried, whose answers int8 loses with random weights."""
    shape = [int(size) for size in INPUTS[net].partition("[batch,")[2].rstrip("]").split(",")]
    path = work / "samples.npz"
    np.savez(path, image=np.random.default_rng(0).normal(size=(32, *shape)).astype(np.float32))
    return path


def _convert(model: str, targets: list[str], work: Path, *words: str) -> None:
    missing = [target for target in targets if not (work / "made" / target.replace(":", "-")).exists()]
    if missing:
        out = ["--out", str(work / "made"), "--store", str(work / "store"), "--quiet"]
        run_command(*TRANSLOAD, "convert", model, "--to", ",".join(missing), *words, *out)


if __name__ == "__main__":
    sys.exit(main())
