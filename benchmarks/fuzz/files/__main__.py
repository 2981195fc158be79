"""Fuzz the readers of files: mutated copies of good files and texts through each reader, and through the whole intake.

    python benchmarks/fuzz/files [--cases 200000] [--seed 1] [--seconds N] [--only NAME] [--again] [--out FILE.json]
    python benchmarks/fuzz/files --case NUMBER --only NAME [--seed 1]      one case, with its files kept

Four fifths of the cases go to single readers, in a process of their own; a fifth through the intake of commands, with
its workers and walls; 200 through the program. Outcomes are kept (--state), and a second call goes on. Exit status 1
where a case ended in anything but a value or one sentence with its fix: a foreign error, 5 s of CPU, 1 GB of memory,
a process that died, a file written outside of the case's folder.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
os.environ["PYTHONPATH"] = str(ROOT / "typings")
sys.path.insert(0, str(ROOT / "typings"))

from case_process import HEAD, MOST_BYTES, MOST_CPU_S, Outcome  # noqa: E402
from command_cases import COMMANDS  # noqa: E402
from intake_cases import INTAKES  # noqa: E402
from readers import READERS  # noqa: E402
from seed_files import FRAMEWORKS  # noqa: E402

PARTS = ("reader", "intake", "command")
_HERE = Path(__file__).parent
_INTAKE_SHARE, _MOST_COMMANDS, _PER_COMMAND = 0.2, 200, 1000
_PATIENCE_S = 90.0  # wall, without an end of a case whose workers have limits of their own
_POLL_S = 0.1
_LEAST_SLICE_S = 20.0  # a framework takes some of them to load
_SHOWN = 5  # cases of one kind of finding that are listed
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Task:
    """The cases of one reader."""

    name: str
    count: int
    part: str  # "reader", "intake" or "command"


def tasks_of(cases: int, only: str = "", wanted: Sequence[str] = PARTS) -> list[Task]:
    """Return how many cases each reader has, of these parts."""
    whole = int(cases * _INTAKE_SHARE)
    commands = min(_MOST_COMMANDS, max(1, cases // _PER_COMMAND))
    parts: dict[str, tuple[Collection[Any], int]] = {
        "reader": (READERS.values(), cases - whole), "intake": (INTAKES, whole - commands),
        "command": (COMMANDS, commands),
    }  # fmt: skip
    tasks = []
    for part, (rows, count) in parts.items():
        total = sum(row.share for row in rows)
        shares = [count * row.share // total for row in rows]
        shares[0] += count - sum(shares)
        tasks += [Task(row.name, share, part) for row, share in zip(rows, shares, strict=True)]
    return [task for task in tasks if only in task.name and task.part in wanted]


class Watch:
    """A child that reads the cases of a task, and its end."""

    def __init__(self, task: Task, seed: int, state: Path, seeds: Path) -> None:
        self.task, self._seed, self._seeds = task, seed, seeds
        self.state = state / f"{task.name.replace(' ', '_').replace('/', '_')}.bin"
        if not self.state.exists() or self.state.stat().st_size != HEAD.size + task.count:
            old = self.state.read_bytes()[HEAD.size :][: task.count] if self.state.exists() else b""
            self.state.write_bytes(HEAD.pack(-1, 0, -1, 0.0) + old.ljust(task.count, b"\0"))

    @property
    def outcomes(self) -> bytes:
        """The outcome of each case."""
        return self.state.read_bytes()[HEAD.size :]

    def is_open(self) -> bool:
        """Return whether there are cases that were not read yet."""
        return 0 in self.outcomes

    def share_done(self) -> float:
        """Return the share of the cases that were read."""
        return 1 - self.outcomes.count(0) / self.task.count

    def run(self, seconds: float) -> None:
        """Read cases for so long, in as many processes as it takes."""
        end = time.time() + seconds
        while self.is_open() and time.time() < end - 1:
            with tempfile.TemporaryDirectory(prefix="transload-fuzz-") as folder:
                self._run_child(Path(folder), end)

    def _run_child(self, folder: Path, end: float) -> None:
        before = self.outcomes.count(0)
        arguments = [self.task.name, *map(str, (self._seed, self.state, self._seeds, folder)), "--until", str(end)]
        log = folder / "log"
        with log.open("wb") as output:
            child = subprocess.Popen(
                [sys.executable, "-W", "ignore", str(_HERE / "case_process.py"), *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
            try:
                problem = self._wait(child)
            finally:
                child.kill()
                child.wait()
        number, *_ = HEAD.unpack_from(self.state.read_bytes())
        if number >= 0:
            last = log.read_bytes()[-300:].decode(errors="replace").strip().splitlines()[-1:]
            died = not problem and child.returncode < 0 and self._is_native
            outcome = Outcome.DIED if died else Outcome.FINDING
            self._note(number, problem or f"the process ended with {child.returncode}: {last}", outcome)
        elif child.returncode or (self.outcomes.count(0) == before and time.time() < end - 1):
            raise RuntimeError(f"{self.task.name}: no case was read\n{log.read_text(errors='replace')[-3000:]}")

    def _wait(self, child: subprocess.Popen[bytes]) -> str:
        """Wait for the child. Return what is wrong with the case for which it has to be ended."""
        case, cpu_s, since = -1, 0.0, time.monotonic()
        while child.poll() is None:
            time.sleep(_POLL_S)
            with self.state.open("rb") as file:
                number, before, *_ = HEAD.unpack(file.read(HEAD.size))
            used_s, resident = _usage(child.pid)
            if number != case:
                case, cpu_s, since = number, used_s, time.monotonic()
            if number < 0:
                continue
            if used_s - cpu_s > MOST_CPU_S + 1:
                return f"took more than {MOST_CPU_S:g} s of CPU, and had no end"
            if resident - before > MOST_BYTES:
                return f"took {(resident - before) / 1e9:.2f} GB"
            if time.monotonic() - since > _PATIENCE_S:
                return f"did not end in {_PATIENCE_S:g} s"
        return ""

    @property
    def _is_native(self) -> bool:
        return self.task.name in READERS and READERS[self.task.name].native

    def _note(self, number: int, problem: str, outcome: Outcome) -> None:
        with self.state.open("r+b") as file:
            file.write(HEAD.pack(-1, 0, *HEAD.unpack_from(self.state.read_bytes())[2:]))
            file.seek(HEAD.size + number)
            file.write(bytes([outcome]))
        with self.state.with_suffix(".findings").open("a") as file:
            file.write(json.dumps({"number": number, "error": problem}) + "\n")

    def result(self) -> dict[str, Any]:
        """Return the outcomes in numbers, and each kind of finding with the first cases that showed it."""
        outcomes = self.outcomes
        _, _, slowest, slowest_s = HEAD.unpack_from(self.state.read_bytes())
        counts = {name.name.lower(): outcomes.count(name) for name in Outcome if name and outcomes.count(name)}
        kinds: dict[str, dict[str, list[int]]] = {"findings": {}, "worker_errors": {}}
        findings = self.state.with_suffix(".findings")
        for line in findings.read_text().splitlines() if findings.exists() else ():
            row = json.loads(line)
            number = row["number"]
            kind = "findings" if outcomes[number] == Outcome.FINDING else "worker_errors"
            said = f"{row['error']} ({row['where']})" if row.get("where") else row["error"]
            numbers = kinds[kind].setdefault(said[:240], [])
            if number not in numbers:
                numbers.append(number)
        shown = {
            kind: [{"what": what, "cases": len(numbers), "numbers": numbers[:_SHOWN]} for what, numbers in rows.items()]
            for kind, rows in kinds.items() if rows
        }  # fmt: skip
        for rows in shown.values():
            rows.sort(key=lambda row: -int(str(row["cases"])))
        return {
            "part": self.task.part, "planned": self.task.count, "cases": sum(counts.values()), **counts,
            "slowest": {"case": slowest, "cpu_s": round(slowest_s, 3)}, **shown,
        }  # fmt: skip


def _usage(pid: int) -> tuple[float, int]:
    """Return the CPU seconds and the resident bytes of a process."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / _TICKS, int(parts[21]) * os.sysconf("SC_PAGE_SIZE")
    return 0.0, 0


def make_seeds(folder: Path) -> None:
    """Write the good files, a framework in each process."""
    for framework in FRAMEWORKS:
        if not (folder / framework / "made").is_dir():
            half = folder / f".{framework}"
            shutil.rmtree(half, ignore_errors=True)
            command = [sys.executable, str(_HERE / "seed_files.py"), framework, str(half)]
            subprocess.run(command, check=True, capture_output=True)
            half.rename(folder / framework)


def run_case(task: Task, number: int, seed: int, seeds: Path) -> int:
    """Read one case again, and say where its files are."""
    folder = Path(tempfile.mkdtemp(prefix="transload-case-"))
    words = [task.name, *map(str, (seed, "-", seeds, folder, number))]
    command = [sys.executable, str(_HERE / "case_process.py"), *words]
    status = subprocess.run(command, check=False).returncode
    print(f"exit status {status}; the files are in {folder / 'case'}")
    return int(status != 0)


def fuzz(watches: list[Watch], seconds: float) -> None:
    """Read the cases of all tasks until the time is over: each has its part of what is left."""
    end = time.time() + seconds
    while (left := sorted(filter(Watch.is_open, watches), key=Watch.share_done)) and time.time() < end - 5:
        for place, watch in enumerate(left):
            remaining = end - time.time()
            if remaining < 2:
                return
            watch.run(min(remaining, max(_LEAST_SLICE_S, remaining / (len(left) - place))))
            result = watch.result()
            rows = {key: value for key, value in result.items() if isinstance(value, int)}
            print(f"{watch.task.name}: {rows}", file=sys.stderr, flush=True)


def main() -> int:
    """Fuzz, print and write what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=86_400.0, help="the run ends then, and can be gone on with")
    parser.add_argument("--only", default="", help="readers whose names have this in them")
    parser.add_argument("--parts", default=",".join(PARTS), help="the parts that are run")
    parser.add_argument("--case", type=int, help="read this case alone")
    parser.add_argument("--state", type=Path, default=ROOT / ".transload" / "fuzz-files")
    parser.add_argument("--again", action="store_true", help="forget the outcomes of former calls")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    state = options.state.absolute() / f"seed-{options.seed}"
    if options.again:
        shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True, exist_ok=True)
    seeds = options.state.absolute() / "seeds"
    seeds.mkdir(exist_ok=True)
    make_seeds(seeds)
    tasks = tasks_of(options.cases, options.only, options.parts.split(","))
    if options.case is not None:
        return run_case(next(task for task in tasks if task.name == options.only), options.case, options.seed, seeds)
    start = time.monotonic()
    watches = [Watch(task, options.seed, state, seeds) for task in tasks]
    fuzz(watches, options.seconds)
    with (state / "seconds").open("a") as file:
        file.write(f"{time.monotonic() - start:.0f}\n")
    seconds = sum(map(int, (state / "seconds").read_text().split()))
    document = _document(watches, options.seed, seconds)
    if options.out:
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps({key: value for key, value in document.items() if key != "readers"}, indent=1))
    return int(bool(document["outcomes"].get("finding")))


def _document(watches: list[Watch], seed: int, seconds: int) -> dict[str, Any]:
    results = {watch.task.name: watch.result() for watch in watches}
    outcomes: collections.Counter[str] = collections.Counter()
    parts: collections.Counter[str] = collections.Counter()
    for result in results.values():
        outcomes.update({outcome.name.lower(): result.get(outcome.name.lower(), 0) for outcome in Outcome if outcome})
        parts[result["part"]] += result["cases"]
    return {
        "seed": seed, "cases": sum(parts.values()), "parts": dict(parts), "outcomes": dict(+outcomes),
        "seconds": seconds, "python": platform.python_version(), "cores": os.cpu_count(),
        "load": [round(load, 1) for load in os.getloadavg()],
        "repeat": "python benchmarks/fuzz/files --only READER --case NUMBER --seed SEED", "readers": results,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
