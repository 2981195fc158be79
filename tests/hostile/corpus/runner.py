"""Takes the cases through their commands, each in a fork of one process, and says what came of them.

Workers are forked from processes that have a framework loaded. `Mode` switches one of the two defences off.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from transload.pipeline.cli import main
from transload.pipeline.workers import isolation
from transload.pipeline.workers.engine import LocalExecutor
from transload.pipeline.workers.fork_server import LOADED, ForkServer
from transload.pipeline.workers.isolation import Limits, Spawn

from .case import CANARY, OUT, Outcome, Place

LIMIT_S = 45.0  # of a command: what takes longer hangs
_MOST_BYTES = 4 << 30  # of memory for a worker, however much the machine has
_REACHES = re.compile(
    r"\b(run (code|Python|more|as code)|the code|as code|read (a file|outside)|writ|list files|delete|map a file|load)"
)
_SETTLE_S = 3.0  # in which the processes of a command that has ended have to be gone
_FORGED = b"\nPASS  7 of 7"
_BYTECODE = "__pycache__"  # of the good net.py beside some files: Python writes it where no wall stands
_SCRATCH = (OUT, "b", ".transload", "runs")
_ROOT = Path(__file__).parents[3]
_WORKER = "import sys, tests.hostile.corpus.checks_off; from transload.pipeline.workers.worker import serve; serve(*map(int, sys.argv[1:]))"


class Mode(StrEnum):
    """Which defences are on."""

    BOTH = "both"
    CHECKS = "checks only"
    WALLS = "walls only"


@dataclass(frozen=True)
class CaseResult:
    """What came of a case. `faults` is empty where it ended as it has to."""

    name: str
    status: int | None
    seconds: float
    faults: list[str]
    said: str  # the first line on stderr


class Runner:
    """Runs cases one after another in one mode. Close it to end the processes that it forks from."""

    def __init__(self, mode: Mode, scratch: Path, limit_s: float = LIMIT_S) -> None:
        self.mode = mode
        self.limit_s = limit_s
        self._servers = {name: _start_server(name, scratch / name, checks=mode is not Mode.WALLS) for name in LOADED}

    def close(self) -> None:
        for server in self._servers.values():
            server.close()

    def run(self, folder: Path) -> CaseResult:
        """Run the command of a case, and look at what it left."""
        record, place = json.loads((folder / "case.json").read_text()), Place(folder)
        temporary = folder / "tmp"
        temporary.mkdir()
        started = time.monotonic()
        pid = os.fork()
        if not pid:
            self._become_command(place, temporary, record["words"])
        status = _wait(pid, folder / "stdout", self.limit_s, is_server=record["words"][0] == "serve")
        seconds = time.monotonic() - started
        faults = list(_faults(record, place, status, self))
        faults += [] if _are_gone(folder) else ["leaves a process"]
        left = sorted(path.name for path in temporary.iterdir())
        faults += [f"leaves {left[0][:40]} among the temporary files"] if left else []
        said = (folder / "stderr").read_bytes().decode(errors="replace").partition("\n")[0][:300]
        for name in _SCRATCH:
            shutil.rmtree(place.here / name, ignore_errors=True)
        for path in (place.marker, folder / "stdout", folder / "stderr"):
            path.unlink(missing_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        return CaseResult(record["name"], status, round(seconds, 1), faults, said.replace(str(folder), "FOLDER"))

    def _become_command(self, place: Place, temporary: Path, words: list[str]) -> None:
        """Be the command. Does not return."""
        status = 99
        try:
            for descriptor, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(place.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
            os.chdir(place.here)
            os.environ["TMPDIR"] = str(temporary)
            servers = self._servers
            LocalExecutor._fork_server = lambda executor, action: servers.get(action.framework)  # type: ignore[method-assign,assignment]
            _limit_memory()
            if self.mode is Mode.CHECKS:
                isolation._walls = lambda spawn: None  # type: ignore[assignment,return-value]
            if self.mode is Mode.WALLS:
                _start_without_checks()
            status = main(words)
            sys.stdout.flush()
        finally:
            os._exit(status)


def _start_server(framework: str, scratch: Path, *, checks: bool) -> ForkServer:
    """Start what forks the workers of a framework."""
    environment = isolation._environment(Spawn(Path(os.devnull), scratch, Limits(threads=1)))
    if checks:
        return ForkServer(LOADED[framework], environment, scratch)
    more = {"PYTHONPATH": str(_ROOT), "CORPUS_FRAMEWORK": framework}
    modules = ("tests.hostile.corpus.checks_off", *LOADED[framework][1:])
    server = ForkServer(modules, {**environment, **more}, scratch)
    server.environment = environment  # what a worker needs is compared with this
    return server


def _limit_memory() -> None:
    """Hold each worker to _MOST_BYTES, too."""
    start = isolation.Worker.__init__

    def start_limited(worker: isolation.Worker, spawn: Spawn, *more: Any) -> None:
        spawn.limits = replace(spawn.limits, memory_bytes=min(spawn.limits.memory_bytes, _MOST_BYTES))
        start(worker, spawn, *more)

    isolation.Worker.__init__ = start_limited  # type: ignore[method-assign,assignment]


def _start_without_checks() -> None:
    """Let workers that are not forked take down their checks first."""
    started: Any = isolation._Started

    def start(command: list[str], *, env: dict[str, str], **options: Any) -> Any:
        environment = {**env, "PYTHONPATH": str(_ROOT)}
        return started([command[0], "-P", "-c", _WORKER, *command[-2:]], env=environment, **options)

    isolation._Started = start  # type: ignore[assignment]


def _wait(pid: int, stdout: Path, limit_s: float, *, is_server: bool) -> int | None:
    """Return the exit status of a command, None where it was ended at its limit. A server that answers is stopped."""
    ends, stopped = time.monotonic() + limit_s, False
    while time.monotonic() < ends:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if is_server and not stopped and stdout.is_file() and b"serving " in stdout.read_bytes():
            os.kill(pid, signal.SIGTERM)
            stopped = True
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _faults(record: dict[str, object], place: Place, status: int | None, runner: Runner) -> Iterator[str]:
    outside = {path.name for path in place.outside.iterdir()} - set(record["beside"])  # type: ignore[call-overload]
    if outside or place.secret.read_bytes() != CANARY:
        yield f"wrote outside: {', '.join(sorted(outside))}"
    kept = {*record["here"], *_SCRATCH, _BYTECODE}
    more = {path.name for path in place.here.iterdir()} - kept
    if more:
        yield f"wrote beside its output: {', '.join(sorted(more))[:80]}"
    if _holds_canary(place):
        yield "read outside"
    if status is None:
        yield f"hangs for more than {runner.limit_s:g} s"
        return
    printed, errors = ((place.folder / name).read_bytes() for name in ("stdout", "stderr"))
    if b"Traceback (most recent call last)" in errors or status == 70:
        yield "a bug, or a foreign traceback"
    if _FORGED in b"\n" + printed or _FORGED in b"\n" + errors:
        yield "forged a line of output"
    if status < 0 or status > 4:
        yield f"exit status {status}"
    if runner.mode is not Mode.WALLS and record["outcome"] == Outcome.REFUSED:
        if status != 2:
            yield f"exit status {status} where it is refused"
        elif len(errors.splitlines()) != 2 or b"\n  fix: " not in errors:
            yield "no sentence with its mend"


def _holds_canary(place: Place) -> bool:
    """Whether what a command has left or printed holds the canary, as text or as numbers."""
    part = CANARY[:40]
    forms = (part, np.frombuffer(part, np.uint8).astype(np.float32).tobytes())
    scratch = [path for name in _SCRATCH for path in (place.here / name).rglob("*") if path.is_file()]
    files = [path for path in scratch if not path.is_symlink() and path.stat().st_size < 1 << 28]
    return any(
        form in path.read_bytes()
        for path in (*files, place.folder / "stdout", place.folder / "stderr")
        for form in forms
    )


def _are_gone(folder: Path) -> bool:
    """Return whether every process that worked in the case's folder has ended by itself; end those that have not."""
    ends = time.monotonic() + _SETTLE_S
    while pids := list(_processes_in(folder)):
        if time.monotonic() > ends:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            return False
        time.sleep(0.05)
    return True


def _processes_in(folder: Path) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                place = str((entry / "cwd").readlink())
                if place.startswith(f"{folder}/") and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    yield int(entry.name)
            except OSError:
                continue


def run_all(
    corpus: Path, mode: Mode, jobs: int, only: str = "", *, reach: bool = False, limit_s: float = LIMIT_S
) -> list[CaseResult]:
    """Run all cases below a folder in one mode, `jobs` at a time; `reach`: those alone that try to run, read or write."""
    records = {folder: json.loads((folder / "case.json").read_text()) for folder in sorted(corpus.iterdir())}
    folders = [
        folder
        for folder, record in records.items()
        if re.search(only, record["name"]) and (not reach or _REACHES.search(record["aim"]))
    ]
    with_parts = [corpus.parent / f"results-{part}.json" for part in range(jobs)]
    pids = []
    for part, file in enumerate(with_parts):
        pid = os.fork()
        if not pid:
            _run_part(folders[part::jobs], Runner(mode, corpus.parent / f"scratch-{part}", limit_s), file)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    rows = [row for file in with_parts for row in json.loads(file.read_text())]
    return sorted((CaseResult(**row) for row in rows), key=lambda row: row.name)


def _run_part(folders: list[Path], runner: Runner, file: Path) -> None:
    """Run some of the cases, write their results, and end this process."""
    rows: list[dict[str, Any]] = []
    file.write_text("[]")
    try:
        for folder in folders:
            rows.append(asdict(runner.run(folder)))
            if rows[-1]["faults"]:
                print(
                    f"{runner.mode}: {rows[-1]['name']}: {'; '.join(rows[-1]['faults'])} ({rows[-1]['said']})",
                    flush=True,
                )
            file.write_text(json.dumps(rows))
    finally:
        runner.close()
        os._exit(0)
