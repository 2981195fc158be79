"""The child that reads cases: `python case_process.py READER SEED STATE SEEDS FOLDER [NUMBER]`.

It writes an outcome of a byte for each case into the file STATE, and its findings, a JSON a line, beside it. The first
bytes of STATE say which case is under way, so that whoever watches knows what this process died of. With NUMBER it
reads that case alone, and lets its error through.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import resource
import struct
import sys
import time
import traceback
from enum import IntEnum
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
# Of STATE: the case under way (-1: none), the resident bytes before it, the slowest case and its seconds.
HEAD = struct.Struct("<qqqd")
MOST_CPU_S = 5.0
MOST_BYTES = 1 << 30
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "os.startfile")
_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree")


class Outcome(IntEnum):
    """What came of a case."""

    NOT_RUN = 0
    ACCEPTED = 1
    REFUSED = 2  # TransloadError, or the error that a reader promises to its caller
    DIED = 3  # the process, in a library that the product calls in a worker alone
    FINDING = 4
    FOREIGN = 5  # a worker met an error of a library; the user is told one sentence
    LIMIT = 6  # a worker was ended at its limit of time or memory; the user is told so


def rng_of(seed: int, reader: str, number: int) -> random.Random:
    """Return the generator of a case: nothing else is in it."""
    return random.Random(f"{seed}:{reader}:{number}")  # noqa: S311


class Guard:
    """An audit hook that notes what is written outside of a folder, and what is started or connected to."""

    def __init__(self, folder: Path) -> None:
        self._inside = f"{folder.resolve()}/"
        self._noted: list[str] | None = None
        sys.addaudithook(self._note)

    def begin(self) -> None:
        """Begin to note."""
        self._noted = []

    def end(self) -> list[str]:
        """Return what was noted."""
        noted, self._noted = self._noted or [], None
        return noted

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._noted is None:
            return
        if event == "open":
            path, _, flags = arguments
            if not flags & _WRITES or isinstance(path, int):
                return
        elif event in _STARTS:
            self._noted.append(f"{event} {arguments!r:.200}")
            return
        elif event in _CHANGES:
            path = arguments[0]
        else:
            return
        text = os.path.abspath(os.fsdecode(path))  # noqa: PTH100
        if not text.startswith(self._inside) and "__pycache__" not in text and text != os.devnull:
            self._noted.append(f"{event} {text}")


def fault_of(error: BaseException) -> str:
    """Return what is wrong with a TransloadError; nothing where it is two whole sentences."""
    what, fix = getattr(error, "what", ""), getattr(error, "fix", "")
    if not what or not fix:
        return "no message or no fix"
    return "several lines" if "\n" in what + fix or not (what + fix).isprintable() else ""


def describe(error: BaseException) -> dict[str, str]:
    """Return an error's class and message, and the last of our lines that raised it."""
    frames = [row for row in traceback.extract_tb(error.__traceback__) if "/benchmarks/" not in row.filename]
    ours = [row for row in frames if "site-packages" not in row.filename and "/lib/python" not in row.filename]
    places = [f"{Path(row.filename).name}:{row.name}" for row in (*ours[-1:], *frames[-1:])]
    return {"error": f"{type(error).__name__}: {error}"[:300], "where": " <- ".join(dict.fromkeys(reversed(places)))}


class CaseRunner:
    """Reads the cases of one reader in this process."""

    def __init__(self, reader: Any, seed: int, seeds: Path, folder: Path) -> None:
        self._reader, self._seed, self._seeds = reader, seed, seeds
        self._case, self._private = folder / "case", folder / "private"
        for path in (self._case, self._private):
            path.mkdir(parents=True, exist_ok=True)
        os.environ.update(TMPDIR=str(self._private), HOME=str(self._private))
        os.chdir(self._case)
        self._guard = Guard(self._case)

    def run(self, number: int) -> tuple[Outcome, dict[str, Any]]:
        """Read a case; return its outcome, and what was found."""
        self._clear()
        self._reader.write(rng_of(self._seed, self._reader.name, number), self._seeds, self._case)
        before, peak = _resident(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        outcome = Outcome.ACCEPTED
        details: dict[str, Any] = {}
        self._guard.begin()
        try:
            self._reader.read(self._case)
        except BaseException as error:  # noqa: BLE001
            outcome, details = self._judge(error)
        noted, seconds = self._guard.end(), time.process_time() - start
        new_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        left = [path.name for path in self._private.iterdir()]
        if seconds > MOST_CPU_S:
            details = {"error": f"took {seconds:.1f} s of CPU", **details}
        elif new_peak > peak and (new_peak << 10) - before > MOST_BYTES:
            details = {"error": f"took {((new_peak << 10) - before) / 1e9:.2f} GB", **details}
        elif noted or left:
            details = {"error": f"left or started {noted or left}"[:300], **details}
        return (Outcome.FINDING if details else outcome), details

    def _judge(self, error: BaseException) -> tuple[Outcome, dict[str, Any]]:
        from transload.models.errors import TransloadError

        if isinstance(error, TransloadError):
            fault = fault_of(error)
            return Outcome.REFUSED, {"error": f"{fault}: {error.what!r:.200}"} if fault else {}
        if isinstance(error, self._reader.refusals):
            return Outcome.REFUSED, {}
        return Outcome.FINDING, describe(error)

    def _clear(self) -> None:
        for path in (*self._case.iterdir(), *self._private.iterdir()):
            if path.is_dir() and not path.is_symlink():
                import shutil

                shutil.rmtree(path)
            else:
                path.unlink()


def _resident() -> int:
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * mmap.PAGESIZE


def run_all(runner: CaseRunner, state: Path, end: float) -> None:
    """Read the cases that have no outcome yet, until the time `end`."""
    findings = state.with_suffix(".findings").open("a")
    with state.open("r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
        _, _, slowest, slowest_s = HEAD.unpack_from(shared)
        number = shared.find(b"\x00", HEAD.size) - HEAD.size
        while number >= 0 and time.time() < end:
            HEAD.pack_into(shared, 0, number, _resident(), slowest, slowest_s)
            start = time.process_time()
            outcome, details = runner.run(number)
            seconds = time.process_time() - start
            if seconds > slowest_s:
                slowest, slowest_s = number, seconds
            if details:
                findings.write(json.dumps({"number": number, **details}) + "\n")
                findings.flush()
            shared[HEAD.size + number] = outcome
            number = shared.find(b"\x00", HEAD.size + number) - HEAD.size
        HEAD.pack_into(shared, 0, -1, 0, slowest, slowest_s)


def main() -> None:
    """Read the cases that are named on the command line."""
    sys.path[:0] = [str(ROOT / "typings"), str(ROOT)]  # tests.hostile makes files, too
    name, seed, state, seeds, folder, *rest = sys.argv[1:]
    runner = runner_of(name, int(seed), Path(seeds), Path(folder))
    if rest and rest[0] == "--until":
        warm_up(runner)
        run_all(runner, Path(state), float(rest[1]))
    else:
        outcome, details = runner.run(int(rest[0]))
        print(outcome.name, json.dumps(details, indent=1))
    sys.stdout.flush()
    os._exit(0)  # frameworks' own teardown takes seconds


def runner_of(name: str, seed: int, seeds: Path, folder: Path) -> Any:
    """Return what runs the cases of the reader with this name."""
    from readers import READERS

    if reader := READERS.get(name):
        return CaseRunner(reader, seed, seeds / reader.framework, folder)
    from command_cases import COMMANDS, CommandRunner
    from intake_cases import INTAKES, IntakeRunner

    if command := next((command for command in COMMANDS if command.name == name), None):
        return CommandRunner(command, seed, seeds, folder)
    return IntakeRunner(next(intake for intake in INTAKES if intake.name == name), seed, seeds, folder)


def warm_up(runner: CaseRunner) -> None:
    """Read cases that are not counted, which load the libraries and make their caches."""
    for number in range(-3, 0):
        runner.run(number)


if __name__ == "__main__":
    main()
