"""Fuzz what others write: records of a store, and folders of runs, through the commands that read them.

    python benchmarks/fuzz/records [--store 10000] [--runs 5000] [--seed 1] [--seconds N] [--jobs 2] [--out FILE.json]
    python benchmarks/fuzz/records --part runs --case NUMBER       one case, with what it printed

A case is a good store, or a good run's folder, in which one file has changed. It goes through the commands as the
program runs them, in one process that has loaded them: `store ls`, `verify` and `gc --dry-run`, and the look-up of a
step; `report`, `compare`, `history` and `record`. A finding: an exit status that is none of 0 to 4 (70 is a bug), a
traceback, 20 s without an end, and in what is printed or written for a CI a character that steers a terminal, or a line
that begins as a verdict or as a command to a CI and is not the command's own.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
os.environ["PYTHONPATH"] = str(ROOT / "typings")
sys.path[:0] = [str(ROOT / "typings"), str(ROOT / "benchmarks" / "fuzz" / "files")]

from record_cases import corpus_of, run_case  # noqa: E402

_SHOWN = 5  # cases of a finding that are listed
_SEED_MODEL = ("zoo:breast-cancer-mlp", "--budget", "4")


def make_seeds(folder: Path) -> None:
    """Write a store and two runs, once."""
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for targets in ("onnx", "onnx,torchscript"):
        words = ["run", *_SEED_MODEL, "--to", targets, "--quiet", "--store", "store", "--junit", "junit.xml"]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "transload", *words], cwd=folder, check=False, capture_output=True, text=True
        )
        if done.returncode not in (0, 3):
            raise RuntimeError(done.stdout + done.stderr)
    (folder / "done").write_text("")


def run_share(part: str, seeds: Path, seed: int, numbers: Sequence[int], end: float) -> None:
    """Run some cases in this process; print the number, the outcome and the finding of each as JSON."""
    with tempfile.TemporaryDirectory(prefix="transload-records-") as folder:
        corpus = corpus_of(part, seeds, Path(folder))
        for number in numbers:
            if time.time() > end:
                return
            case = run_case(corpus, seed, number)
            print(json.dumps([part, number, case.outcome, case.finding]), flush=True)


def run_shares(words: Sequence[str], jobs: int) -> Iterator[tuple[str, int, str, str]]:
    """Run all cases in some processes; yield the rows that they print."""
    with tempfile.TemporaryDirectory(prefix="transload-records-") as folder:
        logs = [Path(folder, f"{share}.log") for share in range(jobs)]
        processes = []
        for share, log in enumerate(logs):
            command = [sys.executable, "-W", "ignore", str(Path(__file__).parent), *words, "--share", str(share)]
            with log.open("wb") as file:
                processes.append(subprocess.Popen(command, stdout=file, stdin=subprocess.DEVNULL))
        for process in processes:
            process.wait()
        for log in logs:
            for line in log.read_text().splitlines():
                part, number, outcome, finding = json.loads(line)
                yield part, number, outcome, finding


def main() -> int:
    """Fuzz, print and write what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--store", type=int, default=10_000, help="cases of store records")
    parser.add_argument("--runs", type=int, default=5_000, help="cases of run folders")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=86_400.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--part", choices=("store", "runs"))
    parser.add_argument("--case", type=int)
    parser.add_argument("--seeds", type=Path, default=ROOT / ".transload" / "fuzz-records")
    parser.add_argument("--share", type=int, help="run this share of the cases alone, and print them")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    seeds = options.seeds.absolute()
    make_seeds(seeds)
    if options.case is not None:
        with tempfile.TemporaryDirectory(prefix="transload-records-") as folder:
            case = run_case(corpus_of(options.part, seeds, Path(folder)), options.seed, options.case)
        print(f"{case.change}\n{case.printed}\n{case.outcome} {case.finding}")
        return int(bool(case.finding))
    start, end = time.monotonic(), time.time() + options.seconds
    counts = {"store": options.store, "runs": options.runs}
    parts = [part for part in counts if options.part in (None, part)]
    if options.share is not None:
        for part in parts:
            run_share(part, seeds, options.seed, range(options.share, counts[part], options.jobs), end)
        return 0
    outcomes: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    findings: dict[str, list[str]] = collections.defaultdict(list)
    for part, number, outcome, finding in run_shares(sys.argv[1:], options.jobs):
        outcomes[part][outcome] += 1
        if finding:
            findings[finding].append(f"{part} {number}")
    document: dict[str, Any] = {
        "seed": options.seed, "cases": {part: sum(rows.values()) for part, rows in outcomes.items()},
        "findings": sum(map(len, findings.values())), "outcomes": {part: dict(rows) for part, rows in outcomes.items()},
        "shown": [{"finding": text, "cases": len(rows), "first": rows[:_SHOWN]} for text, rows in findings.items()],
        "seconds": round(time.monotonic() - start), "python": platform.python_version(), "cores": os.cpu_count(),
        "repeat": "python benchmarks/fuzz/records --part PART --case NUMBER --seed SEED",
    }  # fmt: skip
    if options.out:
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
