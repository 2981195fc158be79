"""How fast and how large the lowered copies are, beside the same net written in Keras and litert-torch's TFLite.

    python benchmarks/speed [--net NET ...] [--rounds N] [--work FOLDER] [--out FILE.json]

Nets: resnet50, mobilenet_v3, transformer. Each is converted from PyTorch by `transload convert`, written in Keras,
and, where TRANSLOAD_PYTHON_LITERT names a Python that has it, converted by litert-torch. Ratios are to the Keras
writing, over pairs of the same round, one thread; below 1 the lowered copy is faster. Weights are random; sizes are
files' sizes. targets.py measures the targets of latency.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from command import run_command

from transload.pipeline.result.environment import describe_environment

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "speed.json"
INPUTS = {
    "resnet50": "image=float32[batch,3,224,224]",
    "mobilenet_v3": "image=float32[batch,3,224,224]",
    "transformer": "tokens=int64[batch,128]",
}
TRANSLOAD = (sys.executable, "-P", "-m", "transload")
BATCHES = {"saved-model": (1, 8), "tflite": (1,)}


def main() -> int:
    """Make what is missing in the work folder, measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--net", nargs="+", choices=list(INPUTS), default=list(INPUTS))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--work", type=Path, help="kept, and used again")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = (asked.work or Path(folder)).absolute()
        found = {net: measured(net, make(net, work / net), asked.rounds) for net in asked.net}
    document = {"environment": vars(describe_environment()), "load_before": os.getloadavg()[0], "nets": found}
    asked.out.write_text(json.dumps(document, indent=1, default=str) + "\n")
    return 0


def make(net: str, folder: Path) -> Path:
    """Every writing of a net, in its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "ours").exists():
        made = ["--to", "saved-model,tflite", "--out", str(folder / "ours"), "--store", str(folder / "store")]
        run_command(*TRANSLOAD, "convert", f"nets_torch.py:{net}", "--input", INPUTS[net], "--quiet", *made)
    if not (folder / "keras" / "model.tflite").exists():
        run_command(sys.executable, "make_keras.py", net, str(folder / "keras"))
    litert = os.environ.get("TRANSLOAD_PYTHON_LITERT")
    if litert and not (folder / "litert" / "model.tflite").exists():
        run_command(litert, "make_litert.py", net, str(folder / "litert"))
    return folder


def measured(net: str, folder: Path, rounds: int) -> dict[str, Any]:
    """Latencies and sizes of a net's files."""
    files = {
        "saved-model": {"keras": folder / "keras" / "saved", "ours": folder / "ours" / "saved-model" / "saved_model"},
        "tflite": {name: folder / name / "model.tflite" for name in ("keras", "litert")}
        | {"ours": folder / "ours" / "tflite" / "model.tflite"},
    }
    found: dict[str, Any] = {}
    for kind, batches in BATCHES.items():
        there = {name: path for name, path in files[kind].items() if path.exists()}
        found[kind] = {"bytes": {name: _size(path) for name, path in there.items()}}
        for batch in batches:
            words = [f"{name}={path}" for name, path in there.items()]
            said = run_command(sys.executable, "measure.py", kind, str(batch), str(rounds), *words)
            found[kind][f"batch {batch}"] = json.loads(said.splitlines()[-1])
            print(f"{net} {kind} batch {batch}: " + ", ".join(
                f"{name} {each['p50_s'] * 1e3:.2f} ms ({each['ratio']:.2f})"
                for name, each in found[kind][f"batch {batch}"].items()), found[kind]["bytes"], flush=True)  # fmt: skip
    return found


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_size for each in files)


if __name__ == "__main__":
    sys.exit(main())
