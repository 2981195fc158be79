"""Whether the verdict on a release is right: twelve pairs of real trainings, and resamplings of known models.

    python benchmarks/release [pairs] [resampling] [--draws 200] [--only TEXT] [--out FILE.json]

pairs: `transload run --baseline` and `transload compare` of 4 releases that are clearly worse and 8 that are within
the limit, equal or better (target: 0 worse ones pass, 0 of the others fail). resampling: fresh test sets of equal
models and of models that lose twice the smallest detectable loss, paired and unpaired (targets: at most 1 % of the
equal ones called worse, at least 95 % of the losses found).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pairs import PAIRS, try_pair
from resampling import KINDS, judge_kind

from transload.pipeline.result.environment import describe_environment

RESULTS = Path(__file__).resolve().parents[1] / "results" / "release.json"
SAMPLES = (300, 1000, 3000)
PARTS = ("pairs", "resampling")


def main() -> int:
    """Try both, print and write; return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--only", default="", help="pairs and kinds whose name holds this text")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    result: dict[str, Any] = {"environment": asdict(describe_environment())}
    missed = 0
    if "pairs" in arguments.parts:
        result["pairs"] = [_try_pair(pair) for pair in PAIRS if arguments.only in pair.name]
        missed += sum(not row["right"] for row in result["pairs"])
    if "resampling" in arguments.parts:
        kinds = [kind for kind in KINDS if arguments.only in kind.name]
        result["resampling"] = [
            _print(judge_kind(kind, samples, arguments.draws, paired=paired, seed=samples))
            for kind in kinds
            for samples in SAMPLES
            for paired in (True, False)
        ]
        missed += sum(not _is_kept(row) for row in result["resampling"])
    print(f"{missed} rows miss their target")
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    return int(missed > 0)


def _try_pair(pair: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="transload-release-") as work:
        return _print(try_pair(pair, Path(work)))


def _is_kept(row: dict[str, Any]) -> bool:
    return "left_out" in row or (row["equal_called_worse"] <= 0.01 and row["loss_found"] >= 0.95)


def _print(row: dict[str, Any]) -> dict[str, Any]:
    print("  ".join(f"{name}={value}" for name, value in row.items()), flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
