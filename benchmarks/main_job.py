"""How long the main job takes: `transload run` on an empty store, then again on the full one, and `transload --help`.

    python benchmarks/main_job.py [--out FILE.json] [RUN ARGUMENTS ...]

Writes JSON with the machine in it: wall seconds of both runs, seconds of each stage as the run itself tells them, the
largest process, and the medians of `--help`. One run each: read the stages with that in mind.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TRANSLOAD = [sys.executable, "-P", "-m", "transload"]
STAGE = re.compile(r"^(\w+)\s+([\d.]+) s\b", re.MULTILINE)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "main_job.json")
    asked, words = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        first, document = timed_run(Path(folder), words)
        second, _ = timed_run(Path(folder), words)
        peak = largest_process(Path(folder))
    found = {
        "environment": document["environment"],
        "load_before": os.getloadavg()[0],
        "arguments": words,
        "first": first,
        "second": second,
        "second_before_bench_s": round(sum(s for name, s in second["stages_s"].items() if name != "bench"), 1),
        "largest_process_bytes": peak,
        "help_s": round(statistics.median(help_s() for _ in range(9)), 3),
    }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name != "environment"}, indent=1))
    return int(first["exit_code"] or second["exit_code"])


def timed_run(folder: Path, words: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """One run in `folder`: its seconds, and its run.json."""
    started = time.perf_counter()
    done = subprocess.run(
        [*TRANSLOAD, "run", *words, "--json"], cwd=folder, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - started
    document: dict[str, Any] = json.loads(done.stdout)
    stages = {name: float(spent) for name, spent in STAGE.findall(done.stderr)}
    told = {
        "exit_code": done.returncode,
        "verdict": document["verdict"],
        "wall_s": round(seconds, 1),
        "stages_s": stages,
    }
    return told, document


def largest_process(folder: Path) -> int:
    """Resident bytes of the largest step, and of the largest process of the bench."""
    facts = [json.loads(file.read_text())["facts"] for file in (folder / ".transload" / "actions").glob("*.json")]
    rows = [row for file in folder.glob("runs/*/run.json") for row in json.loads(file.read_text())["latency"]]
    return max(int(row["peak_rss_bytes"]) for row in (*facts, *rows))


def help_s() -> float:
    """Wall seconds of `transload --help`, by the installed script."""
    started = time.perf_counter()
    subprocess.run([str(Path(sys.executable).with_name("transload")), "--help"], capture_output=True, check=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
