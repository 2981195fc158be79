"""`python -m tests.mutants [--only TEXT] [--kind KIND] [--out FILE]`: which mutants of verdicts the tests kill.

Each rule is broken in one place at a time, and the unit tests that guard it are run. Exit status 1 where a boundary
mutant lives that tests/mutants/verdict_modules.py does not name as equivalent, beyond the 5 % that may.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from transload.pipeline.result.environment import describe_environment

from .operators import Mutant, MutantKind, mutants_of
from .run_mutants import Outcome, run_mutants
from .verdict_modules import EQUIVALENT, MODULES, Guarded

LEAST_KILLED = 0.95  # of the boundary mutants


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="modules whose path holds this text")
    parser.add_argument("--kind", type=MutantKind, choices=[*MutantKind], action="append", help="without it, all kinds")
    parser.add_argument("--out", type=Path, help="write the counts and the survivors to this file as JSON")
    arguments = parser.parse_args()
    outcomes: list[tuple[str, Mutant, Outcome]] = []
    for module, guarded in MODULES.items():
        if arguments.only in module:
            outcomes += _outcomes_of(module, guarded, arguments.kind or [*MutantKind])
    counts = Counter(mutant.kind for _, mutant, _ in outcomes)
    killed = Counter(mutant.kind for _, mutant, outcome in outcomes if outcome is not Outcome.SURVIVED)
    for kind, count in counts.items():
        print(f"{kind}: {killed[kind]} of {count} killed")
    if arguments.out:
        arguments.out.write_text(json.dumps(_document(outcomes, counts, killed), indent=1) + "\n")
    boundary = MutantKind.BOUNDARY
    return int(killed[boundary] < LEAST_KILLED * counts[boundary])


def _outcomes_of(module: str, guarded: Guarded, kinds: Sequence[MutantKind]) -> list[tuple[str, Mutant, Outcome]]:
    """Return each mutant of a module with what the tests made of it; those that live are printed."""
    mutants = [
        mutant
        for mutant in mutants_of(Path(module).read_text(), guarded.functions)
        if mutant.kind in kinds and (module, mutant.function, mutant.change) not in EQUIVALENT
    ]
    rows = []
    for mutant, outcome in zip(mutants, run_mutants(module, guarded.tests, mutants), strict=True):
        rows.append((module, mutant, outcome))
        if outcome is Outcome.SURVIVED:
            print(f"{module}:{mutant.line} {mutant.function}: {mutant.kind} survived: {mutant.change}", flush=True)
    return rows


def _document(
    outcomes: Sequence[tuple[str, Mutant, Outcome]], counts: Mapping[MutantKind, int], killed: Mapping[MutantKind, int]
) -> dict[str, object]:
    survivors = [
        {"module": module, "function": mutant.function, "kind": mutant.kind, "change": mutant.change}
        for module, mutant, outcome in outcomes
        if outcome is Outcome.SURVIVED
    ]
    return {
        "environment": asdict(describe_environment()),
        "modules": sorted({module for module, _, _ in outcomes}),
        "mutants": {kind: {"all": count, "killed": killed[kind]} for kind, count in counts.items()},
        "equivalent": len(EQUIVALENT),
        "survivors": survivors,
    }


if __name__ == "__main__":
    raise SystemExit(main())
