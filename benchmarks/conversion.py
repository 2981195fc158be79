"""How long a verified conversion to ONNX, SavedModel and TFLite takes, and how much memory, on an empty store.

    python benchmarks/conversion.py [--model NAME ...] [--out FILE.json]

Models: digits-cnn (the net only, not trained), resnet50, bert-base (12 layers of width 768, 128 tokens), above-2gb
(ONNX and SavedModel only: a TFLite file ends there). One run each: read the seconds with that in mind.

`most_memory_bytes` is of the command with everything that it started, at one moment: pages that processes share count
once (PSS). `largest_worker_bytes` is of one worker, resident, the framework included.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from transload.pipeline.result.environment import describe_environment

ROOT = Path(__file__).resolve().parents[1]
NETS = ROOT / "benchmarks" / "speed" / "nets_torch.py"
STAGE = re.compile(r"^(\w+)\s+([\d.]+) s\b", re.MULTILINE)
MODELS = {
    "digits-cnn": ("digits_cnn", "image=float32[batch,1,8,8]", "onnx,saved-model,tflite"),
    "resnet50": ("resnet50", "image=float32[batch,3,224,224]", "onnx,saved-model,tflite"),
    "bert-base": ("bert_base", "tokens=int64[batch,128]", "onnx,saved-model,tflite"),
    "above-2gb": ("above_2gb", "x=float32[batch,12000]", "onnx,saved-model"),
}


def main() -> int:
    """Convert, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "conversion.json")
    asked = parser.parse_args()
    kept = json.loads(asked.out.read_text())["models"] if asked.out.exists() else {}
    for name in asked.model:
        kept[name] = converted(*MODELS[name])
        print(name, json.dumps(kept[name]), flush=True)
        document = {"environment": vars(describe_environment()), "models": kept}
        asked.out.write_text(json.dumps(document, indent=1, default=str) + "\n")
    return 0


def converted(factory: str, given: str, targets: str) -> dict[str, Any]:
    """Wall seconds, seconds of each stage and of each route, the largest worker, and what was verified."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        words = ["convert", f"{NETS.name}:{factory}", "--input", given, "--to", targets]
        words += ["--out", str(place / "out"), "--store", str(place / "store")]
        load, started = os.getloadavg()[0], time.monotonic()
        with (place / "said").open("w+") as said:
            command = [sys.executable, "-P", "-m", "transload", *words]
            process = subprocess.Popen(command, cwd=NETS.parent, stdout=subprocess.DEVNULL, stderr=said)
            most = _most_memory(process)
        seconds = time.monotonic() - started
        document = json.loads((place / "out" / "convert.json").read_text())
        return {
            "seconds": round(seconds, 1),
            "exit_code": process.returncode,
            "load_before": load,
            "stages_s": {name: float(text) for name, text in STAGE.findall((place / "said").read_text())},
            "artifacts": {
                each["name"]: [each["status"], each["bytes"], each["seconds"]] for each in document["artifacts"]
            },
            "most_memory_bytes": most,
            "largest_worker_bytes": max(_peaks(place / "store"), default=0),
        }


def _most_memory(process: subprocess.Popen[bytes]) -> int:
    """Of a command and all that it starts, seen every half second, until it has ended."""
    most = 0
    while True:
        total = 0
        with contextlib.suppress(psutil.Error):
            for each in (top := psutil.Process(process.pid), *top.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += each.memory_full_info().pss
        most = max(most, total)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
            return most


def _peaks(store: Path) -> list[int]:
    """What each finished step says of its memory."""
    found = []
    for file in (store / "actions").rglob("*.json"):
        text = file.read_text()
        found += [int(number) for number in re.findall(r'"peak_rss_bytes": (\d+)', text)]
    return found


if __name__ == "__main__":
    sys.exit(main())
