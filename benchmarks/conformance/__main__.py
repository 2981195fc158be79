"""The ONNX backend node tests through our lowering, ONNX Runtime and onnx2tf: who is right, wrong, or says no.

    python benchmarks/conformance [--only REGEX] [--backend NAME ...] [--view A|B] [--jobs N] [--limit S] [--write]

--only prints what became of the cases whose name it finds; --write runs everything, and writes
benchmarks/results/conformance.json and docs/evidence/conformance.md.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from backends import BACKENDS
from cases import cases, in_view_b
from parent import LIMIT_S, run_cases
from table import page

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "conformance.json"
PAGE = ROOT / "docs" / "evidence" / "conformance.md"
OURS = ("saved-model", "tflite")


def main() -> int:
    """Run, print, and write where that is asked for. 1 where one of ours is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="a regular expression that finds the names of cases")
    parser.add_argument("--backend", nargs="+", choices=list(BACKENDS), default=list(OURS))
    parser.add_argument("--view", nargs="+", choices=["A", "B"], default=["A", "B"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds that one case may take")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    found = {}
    for key, answers in _run(asked):
        found[key] = answers
        counts = Counter(status for status, _ in answers.values())
        print(f"{key}: {counts['right']} right, {counts['WRONG']} WRONG, {counts['error']} errors of {len(answers)}")
        if asked.write:
            _keep(key, answers)
    wrong = [key for key, answers in found.items() if key.split("/")[0] in OURS
             for status, _ in answers.values() if status == "WRONG"]  # fmt: skip
    return 1 if wrong else 0


def _keep(key: str, answers: dict[str, list[str]]) -> None:
    """Each as it is done: the whole takes an hour. Cases that were not asked for keep what they had."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept[key] = {**kept.get(key, {}), **answers}
    RESULTS.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")
    PAGE.write_text(page(kept))


def _run(asked: argparse.Namespace) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """By "backend/view" the answers: by case the status and why."""
    jobs = [(backend, view) for backend in asked.backend for view in asked.view]

    def answers(job: tuple[str, str]) -> tuple[str, dict[str, list[str]]]:
        backend, view = job
        names = [
            name for name, case in cases().items() if re.search(asked.only, name) and (view == "A" or in_view_b(case))
        ]
        return f"{backend}/{view}", run_cases(backend, view, names, tell=bool(asked.only), limit_s=asked.limit)

    with ThreadPoolExecutor(asked.jobs) as pool:
        yield from pool.map(answers, jobs)


if __name__ == "__main__":
    sys.exit(main())
