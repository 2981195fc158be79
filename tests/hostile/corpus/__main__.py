"""`python -m tests.hostile.corpus [--mode both] [--only TEXT] [--jobs 2] [--out FILE]`; exit status 1 where one fails.

On a busy machine, `--patience 4` gives each command four times its 45 s; `--again` then runs the rows of FILE once more
that have a fault or took more than 45 s, and puts them into it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
    parser.add_argument("--patience", type=float, default=1.0, help="how many times 45 s a command may take")
    parser.add_argument("--again", action="store_true", help="those rows of --out that have a fault or are late")
    arguments = parser.parse_args()
    former = json.loads(arguments.out.read_text()) if arguments.again else None
    if former is not None:
        arguments.only = _pattern_of_late(former)
    with TemporaryDirectory(prefix="corpus-") as scratch:
        corpus = Path(scratch) / "cases"
        for framework in FRAMEWORKS:
            build = [sys.executable, "-m", "tests.hostile.corpus.build", framework, str(corpus), arguments.only]
            subprocess.run(build, check=True, stderr=subprocess.DEVNULL)
        results = {
            mode: run_all(
                corpus, mode, arguments.jobs, arguments.only,
                reach=arguments.reach and mode is not Mode.BOTH, limit_s=arguments.patience * LIMIT_S,
            )
            for mode in arguments.mode or [*Mode]
        }  # fmt: skip
    faults = sum(bool(row.faults) for rows in results.values() for row in rows)
    for mode, rows in results.items():
        ran = sum(any(fault.startswith(("wrote", "read")) for fault in row.faults) for row in rows)
        print(
            f"{mode}: {len(rows)} cases, {ran} ran or reached outside, {sum(bool(row.faults) for row in rows)} with a fault"
        )
    if arguments.out:
        document = _document(results) if former is None else _renewed(former, _document(results))
        arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    return int(faults > 0)


def _pattern_of_late(document: dict[str, Any]) -> str:
    """Return an expression that finds the cases with a fault, or over their limit, in any mode."""
    rows = [item for rows in document["cases"].values() for item in rows.items()]
    late = {name for name, row in rows if row["faults"] or row["seconds"] > LIMIT_S}
    return f"^({'|'.join(map(re.escape, sorted(late)))})$"


def _renewed(former: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the rows that were run again in place of its own."""
    cases = {
        mode: {name: document["cases"].get(mode, {}).get(name, row) for name, row in rows.items()}
        for mode, rows in former["cases"].items()
    }
    again = sorted({name for rows in document["cases"].values() for name in rows})
    return {**former, "again": again, "cases": cases}


def _document(results: dict[Mode, list[CaseResult]]) -> dict[str, object]:
    rows = {
        mode: {row.name: {name: value for name, value in asdict(row).items() if name != "name"} for row in rows}
        for mode, rows in results.items()
    }
    return {"environment": vars(describe_environment()), "limit_s": LIMIT_S, "cases": rows}


if __name__ == "__main__":
    sys.exit(main())
