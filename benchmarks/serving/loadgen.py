"""MLPerf's LoadGen beside our own load generator, on one served model: do their numbers agree?

    python benchmarks/serving/loadgen.py [--rounds 6] [--seconds 4] [--out FILE.json]

digits-cnn (ONNX) behind `transload serve`, asked over OIP HTTP in MLPerf's four scenarios. A round is two calls of
`transload bench`, the second with the engines in the other order, so that each engine is measured twice. The ratio of
LoadGen to ours is taken in each call; ours to ours, in the two calls of a round, is the spread that they are held
against. Needs the extra `loadgen`. Writes JSON with the machine and its load in it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from transload.pipeline.measure.bench.comparison import compare_logs
from transload.pipeline.result.environment import describe_environment

RESULTS = Path(__file__).resolve().parents[1] / "results" / "loadgen.json"
TRANSLOAD = (sys.executable, "-P", "-m", "transload")
CASES = ("single-stream", "multi-stream:8", "server:50@100ms", "offline")
NUMBERS = {
    "single-stream": ("p50_s", "p90_s", "p99_s"),
    "multi-stream": ("p50_s", "p90_s", "p99_s"),
    "server": ("p50_s", "p90_s"),
    "offline": ("throughput_per_s",),
}
OURS, THEIRS = "transload", "loadgen"


def main() -> int:
    """Measure, print a line for each number, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each load")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server ends with its block
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _run(work, "convert", "zoo:digits-cnn", "--to", "onnx", "--out", "made", "--quiet")
        with serving(work) as url:
            rounds = []
            for number in range(options.rounds):
                rounds.append([measure(work, url, options.seconds, order) for order in engine_orders()])
                print(f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}", flush=True)
    rows = [row for case in CASES for row in compare_engines(case.partition(":")[0], rounds)]
    for row in rows:
        print(
            f"{row['scenario']} {row['number']}: loadgen {row['loadgen']:.4g}, ours {row['transload']:.4g}, ratio "
            f"{row['ratio']:.3f} {row['ci95']}, ours to ours within {row['spread']:.3f}: "
            f"{'within' if row['within_spread'] else 'beyond'} the spread"
        )
    document = {
        "environment": vars(describe_environment()), "model": "digits-cnn, onnx, oip-http", "seconds": options.seconds,
        "rows": rows, "rounds": rounds,
    }  # fmt: skip
    options.out.write_text(json.dumps(document, indent=1, default=str) + "\n")
    return 0


def engine_orders() -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the orders of the engines in the two calls of a round."""
    return (OURS, THEIRS), (THEIRS, OURS)


@contextmanager
def serving(work: Path) -> Iterator[str]:
    """Serve the artifact on the loopback; yield its URL."""
    words = (*TRANSLOAD, "serve", "made/onnx", "--name", "m", "--grpc-port", "0", "--rest-port", "0")
    process = subprocess.Popen(words, cwd=work, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        host = process.stdout.readline().partition("REST http://")[2].partition("/")[0]
        yield f"http://{host}/v2/models/m"
    finally:
        process.terminate()
        process.wait()


def measure(work: Path, url: str, seconds: float, engines: Sequence[str]) -> dict[str, Any]:
    """Return the load rows of one call of bench, and the machine's load before it."""
    load = os.getloadavg()[0]
    cases = [word for case in CASES for word in ("--load", case)]
    document = json.loads(
        _run(work, "bench", url, "--batch", "1", "--rounds", "3", "--processes", "1", "--budget", "0s", "--json",
             "--load-seconds", str(seconds), "--load-engine", ",".join(engines), *cases)
    )  # fmt: skip
    kept = ("scenario", "engine", "requests", "refused", "lost", "p50_s", "p90_s", "p99_s", "throughput_per_s",
            "early_stopping_s", "valid", "doubts")  # fmt: skip
    rows = [{name: row.get(name) for name in kept} for row in document["load"]]
    return {"load_before": load, "engines": list(engines), "rows": rows}


def compare_engines(scenario: str, rounds: Sequence[Sequence[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yield the ratio of LoadGen to ours for each number of a scenario, and the spread of ours to ours."""
    for number in NUMBERS[scenario]:
        pairs = [
            {row["engine"]: row[number] for row in call["rows"] if row["scenario"] == scenario}
            for calls in rounds
            for call in calls
        ]
        if any(pair.get(engine) is None for pair in pairs for engine in (OURS, THEIRS)):
            continue  # the samples do not support it
        logs = [math.log(pair[THEIRS] / pair[OURS]) for pair in pairs]
        own = [math.log(pairs[at + 1][OURS] / pairs[at][OURS]) for at in range(0, len(pairs), 2)]
        ratio, spread = compare_logs(np.array(logs)), math.exp(max(map(abs, own)))
        yield {
            "scenario": scenario, "number": number,
            **{engine: statistics.median(pair[engine] for pair in pairs) for engine in (OURS, THEIRS)},
            "ratio": math.exp(statistics.fmean(logs)), "ci95": ratio.ci95 if ratio else None,
            "spread": spread, "own_ratios": [math.exp(log) for log in own],
            "within_spread": abs(statistics.fmean(logs)) <= math.log(spread),
        }  # fmt: skip


def _run(work: Path, *words: str) -> str:
    folders = [] if words[0] == "convert" else ["--out", str(work / "runs")]
    done = subprocess.run(
        (*TRANSLOAD, *words, "--store", str(work / "store"), *folders), cwd=work, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{words} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
