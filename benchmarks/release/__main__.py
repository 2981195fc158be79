"""Whether a worse model is released: 12 pairs of releases through `transload run --baseline`, the verdict resampled.

    python benchmarks/release [--only NAME,...] [--draws 200] [--out FILE.json]

Each pair is two trainings of a small recipe on data of scikit-learn: 4 new models are clearly worse, 4 within the
limit, 4 better or equal. The old one is run, the new one with the old as its baseline, then both are compared. The
promise: no worse one passes (exit status 0), none of the others fails (1). Then fresh draws from models whose true
metric is known are judged: equal models may be called worse in 1 %, a loss of twice the smallest that the test set
shows has to be found in 95 %. Writes JSON with the machine in it; ends with 1 where a promise is broken.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from release_pairs import PAIRS, Pair, is_right
from resampling import CASES, keeps_promise, rate_verdicts

ROOT = Path(__file__).resolve().parents[2]
TRANSLOAD = [sys.executable, "-P", "-m", "transload"]
METRIC_RULE = re.compile(r"^no_worse metric( batch=\d+)?$")


def main() -> int:
    """Run the pairs, rate the verdicts, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="names of pairs, with commas; without it, all")
    parser.add_argument("--draws", type=int, default=200, help="for each rate; 0: no resampling")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "release.json")
    options = parser.parse_args()
    names = set(filter(None, options.only.split(",")))
    if unknown := names - {pair.name for pair in PAIRS}:
        parser.error(f"no such pair: {', '.join(sorted(unknown))}")
    results: dict[str, Any] = {"environment": {}, "pairs": [], "resampling": []}
    for pair in (pair for pair in PAIRS if not names or pair.name in names):
        with tempfile.TemporaryDirectory(prefix="transload-release-") as folder:
            row, results["environment"] = judge_pair(pair, Path(folder))
        results["pairs"].append(row)
        print(f"{'ok   ' if row['is_right'] else 'WRONG'} {pair.name}: {pair.truth}; {row['run']['words']}", flush=True)
    for case in CASES if options.draws else ():
        results["resampling"].append(row := rate_verdicts(case, options.draws))
        print(f"{'ok   ' if keeps_promise(row) else 'WRONG'} {json.dumps(row)}", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")
    is_kept = all(row["is_right"] for row in results["pairs"]) and all(map(keeps_promise, results["resampling"]))
    return 0 if is_kept else 1


def judge_pair(pair: Pair, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run both releases of a pair and compare them; return the row and the machine."""
    started = time.monotonic()
    files = pair.write(folder)
    first = call(folder / "old", "run", str(files["old"]), "--json")
    old = folder / "old" / "runs" / json.loads(first.stdout)["id"]
    second = call(folder / "new", "run", str(files["new"]), "--baseline", str(old), "--json")
    document = json.loads(second.stdout)
    new = folder / "new" / "runs" / document["id"]
    compared = call(folder, "compare", str(old), str(new))
    metrics = [row for row in document["gate"] if METRIC_RULE.match(row["rule"])]
    row = {
        "pair": pair.name, "truth": pair.truth, "is_right": is_right(pair.truth, second.returncode),
        "old": vars(pair.old), "new": vars(pair.new), "tests": pair.task.tests,
        "metric": pair.task.metric or ("mae" if pair.task.outputs == 1 else "accuracy"),
        "run": {
            "status": second.returncode, "verdict": document["verdict"],
            "words": [f"{at['artifact']} {at['before']} -> {at['after']}: {at['verdict']}" for at in metrics],
        },
        "compare": {"status": compared.returncode, "words": compared.stdout.strip().splitlines()[-1:]},
        "seconds": round(time.monotonic() - started, 1),
    }  # fmt: skip
    return row, document["environment"]


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Call transload in a folder. Ends the script where the command was used wrongly or a tool failed."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([*TRANSLOAD, *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        sys.exit(f"transload {' '.join(words)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done


if __name__ == "__main__":
    sys.exit(main())
