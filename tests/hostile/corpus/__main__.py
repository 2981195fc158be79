"""`python -m tests.hostile.corpus [--mode both] [--only TEXT] [--jobs 2] [--out FILE]`; exit status 1 where one fails."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from transload.pipeline.result.environment import describe_environment

from .build import FRAMEWORKS
from .runner import LIMIT_S, CaseResult, Mode, run_all


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", action="append", choices=[*Mode], type=Mode, help="without it, all three")
    parser.add_argument("--only", default="", help="cases whose name this expression finds")
    parser.add_argument("--reach", action="store_true", help="of single defences, cases that try to run, read or write")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="corpus-") as scratch:
        corpus = Path(scratch) / "cases"
        for framework in FRAMEWORKS:
            build = [sys.executable, "-m", "tests.hostile.corpus.build", framework, str(corpus), arguments.only]
            subprocess.run(build, check=True, stderr=subprocess.DEVNULL)
        results = {
            mode: run_all(corpus, mode, arguments.jobs, arguments.only, reach=arguments.reach and mode is not Mode.BOTH)
            for mode in arguments.mode or [*Mode]
        }
    faults = sum(bool(row.faults) for rows in results.values() for row in rows)
    for mode, rows in results.items():
        ran = sum(any(fault.startswith(("wrote", "read")) for fault in row.faults) for row in rows)
        print(
            f"{mode}: {len(rows)} cases, {ran} ran or reached outside, {sum(bool(row.faults) for row in rows)} with a fault"
        )
    if arguments.out:
        arguments.out.write_text(json.dumps(_document(results), indent=1) + "\n")
    return int(faults > 0)


def _document(results: dict[Mode, list[CaseResult]]) -> dict[str, object]:
    rows = {
        mode: {row.name: {name: value for name, value in asdict(row).items() if name != "name"} for row in rows}
        for mode, rows in results.items()
    }
    return {"environment": vars(describe_environment()), "limit_s": LIMIT_S, "cases": rows}


if __name__ == "__main__":
    sys.exit(main())
