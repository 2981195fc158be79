"""Writes docs/evidence/figures.md: how old each committed figure is, and how often its code has changed since.

    python benchmarks/figures.py [--check]

Reads git's history. `--check` writes nothing; exit status 1 where a row is missing or has another date.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LANDING = timedelta(days=3)  # a change may land, under a date of its own, some time after it was made
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "evidence" / "figures.md"
# The product code that each file of benchmarks/results speaks of.
SUBJECTS = {
    "calibration": ("pipeline/measure/bench",),
    "cluster": ("pipeline/extras/cluster", "pipeline/commands/model_list", "pipeline/workers"),
    "cluster_simulation": ("pipeline/extras/cluster", "pipeline/commands/model_list"),
    "conformance": ("converters/onnx_to_tf",),
    "conversion": ("converters", "models/loading", "pipeline/drift"),
    "driver_cost": ("pipeline/extras/cluster", "pipeline/workers"),
    "environments": ("models/user_python", "models/loading"),
    "fuzz": ("serving/server", "serving/wire"),
    "fuzz_files": ("models", "converters/readers"),
    "fuzz_records": ("models", "pipeline/commands", "pipeline/result"),
    "hostile": ("models", "converters/readers", "pipeline/workers/walls"),
    "libraries": ("models/loading", "converters"),
    "loadgen": ("pipeline/measure/load",),
    "mutants": ("pipeline/result", "pipeline/result/compare", "pipeline/drift/rules.py", "pipeline/commands"),
    "mutations": ("pipeline/drift", "models/probes"),
    "oip_clients": ("serving/server", "serving/wire"),
    "release": ("pipeline/result/compare",),
    "roofline": ("converters/onnx_to_tf",),
    "round_trips": ("converters",),
    "routes": ("converters",),
    "sandbox": ("pipeline/workers",),
    "serving": ("serving/server", "serving/wire"),
    "soak": ("serving/server",),
    "speed_overhead": ("serving/runtimes",),
    "speed_resnet50": ("serving/runtimes", "pipeline/measure/bench"),
    "speed_resnet50_avx2": ("serving/runtimes", "pipeline/measure/bench"),
    "validation": ("pipeline/drift",),
    "zoo": ("converters", "models/loading"),
    "zoo_bytes": ("models/loading",),
}
HEAD = """# How old the figures are

Each file of `benchmarks/results` with the pages that cite it, the day on which it was last written, and how many later
commits changed the code that it speaks of, up to {day}. A figure with many later changes was true of the code of its
day. `make figures` writes this page.

| figures | cited by | written | later changes of its code |
|---|---|---|---|
"""


def main() -> int:
    """Write the page, or check the one that is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        day = git("log", "-1", "--format=%cs")
        PAGE.write_text(HEAD.format(day=day) + "".join(f"{row}\n" for row in page_rows()))
        return 0
    wrong = list(faults(PAGE.read_text()))
    print("\n".join(wrong))
    return int(bool(wrong))


def page_rows() -> Iterator[str]:
    """Yield a row of the page for each file of results."""
    for name, code in sorted(SUBJECTS.items()):
        file = f"benchmarks/results/{name}.json"
        if git("status", "--porcelain", "--", file):  # it will be committed with the page
            commit, day = "HEAD", datetime.now(UTC).date().isoformat()
        else:
            commit, day = git("log", "-1", "--format=%H %cs", "--", file).split()
        existing = [path for path in code if (ROOT / path).exists()]
        later = len(git("log", "--format=%h", f"{commit}..HEAD", "--", *existing).split()) if existing else 0
        pages = ", ".join(f"[{page}]({_link(page)})" for page in citing_pages(name)) or "no page"
        yield f"| `{name}.json` | {pages} | {day} | {later or 'none'} |"


def citing_pages(name: str) -> list[str]:
    """Return the pages that name a file of results, relative to the repository's root."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        str(page.relative_to(ROOT))
        for page in pages
        if page != PAGE and re.search(rf"\b{name}\.json", page.read_text())
    ]


def faults(page: str) -> Iterator[str]:
    """Yield what is wrong with the page as it is: rows that lack, and days that are not git's where there is a git."""
    names = {path.stem for path in RESULTS.glob("*.json")}
    for name in sorted(names ^ SUBJECTS.keys()):
        yield f"{name}.json stands in benchmarks/results or in SUBJECTS, and not in both"
    for name in sorted(names & SUBJECTS.keys()):
        row = re.search(rf"^\| `{name}\.json` \| (.*) \| (\S+) \| \S+ \|$", page, re.MULTILINE)
        if row is None:
            yield f"docs/evidence/figures.md has no row of {name}.json; write it by `make figures`"
            continue
        lacking = [page for page in citing_pages(name) if f"[{page}]" not in row[1]]
        if lacking:
            cited = f"{', '.join(lacking)} cites {name}.json"
            yield f"docs/evidence/figures.md does not say that {cited}; write it by `make figures`"
        day = git("log", "-1", "--format=%cs", "--", f"benchmarks/results/{name}.json")
        if day and date.fromisoformat(day) - date.fromisoformat(row[2]) > _LANDING:
            yield f"{name}.json was written on {day}, after docs/evidence/figures.md; write it by `make figures`"


def git(*words: str) -> str:
    """Return what git says, "" where there is no history."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _link(page: str) -> str:
    return Path(os.path.relpath(ROOT / page, PAGE.parent)).as_posix()


if __name__ == "__main__":
    sys.exit(main())
