"""One trial of a step on a piece of a model: does it fail there too, and in the same way? Worker only.

A trial runs in the worker that looks for the piece, again and again: a framework is loaded once. What a step leaves in
its working directory is in a folder of that trial.
"""

from __future__ import annotations

import os
import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ...models.errors import Refused, TransloadError
from ...models.job import Job, Work
from ...models.signature import Array
from ...serving.checked_session import first_words
from ..drift.mismatch_hints import explain, structure
from ..drift.numeric import combine, compare
from ..drift.sessions import default_runtime, open_session

WRONG = "answers wrongly"
_MOVED = "the layout was lost"  # in the words of pipeline/drift/mismatch_hints.py
_HEAD = 40  # characters of a message that say what kind of failure it is, numbers and names aside


_MOST_SUSPECTS = 3


class Piece(Protocol):
    """A part of a model as a model of its own, with what it is fed in the whole, and what it should give."""

    @property
    def operators(self) -> int:
        """How many of the whole model's it has."""

    @property
    def feeds(self) -> Mapping[str, Array]:
        """What goes in, by name."""

    @property
    def expected(self) -> Mapping[str, Array]:
        """What must come out of what is made of it."""

    def write(self, folder: Path) -> None:
        """As something that the first step of a trial takes."""


_P = TypeVar("_P", bound=Piece)


OUT_OF_TIME = "nothing smaller was found in the time"


class OutOfTime(Exception):
    """The search has used its time: what was found so far counts."""


@dataclass(frozen=True)
class Trouble:
    """How a step fails at something. `got`: the answers, where there are any."""

    kind: str  # the error's class, or WRONG
    what: str
    got: Mapping[str, Array] | None = None
    fix: str = ""  # where the step refuses by name, it says what helps

    def like(self, other: Trouble) -> bool:
        """Whether two are one defect, as far as that shows: a piece may fail because it is a piece. onnx2tf, for one,
        gives images of any model in a layout of its own, which is another defect than wrong numbers."""
        if self.kind != other.kind:
            return False
        if self.kind == WRONG:
            return self.moved == other.moved
        # Where a step lists the operators that it does not take, a piece has some of them.
        return _head(self.what) == _head(other.what) or _words(self.what) <= _words(other.what)

    @property
    def moved(self) -> bool:
        """Whether the numbers are right, and lie in another order."""
        return _MOVED in self.what


def _head(what: str) -> str:
    return re.sub(r"\s+", "", _nameless(what))[:_HEAD]


def _words(what: str) -> set[str]:
    return set(re.findall(r"[^\s,]+", _nameless(what)))


def _nameless(what: str) -> str:
    """Without names and numbers, which differ from piece to piece."""
    return re.sub(r"['\"(\[].*?['\")\]]|\d+", "", what)


@dataclass
class Trial:
    """A step, with those that lead to it from what is tried, to be tried on one thing after another."""

    chain: Sequence[tuple[str, Mapping[str, Any]]]  # entry and options of each step
    least_db: float
    scratch: Path
    seconds: float  # for all trials together
    started: float = 0.0
    count: int = 0
    out_of_time: bool = False  # whether a trial was asked for that was too late

    def __post_init__(self) -> None:
        self.started = time.monotonic()
        self._steps = [(_loaded(entry), options) for entry, options in self.chain]

    def __call__(
        self, write: Callable[[Path], None], feeds: Mapping[str, Array], expected: Mapping[str, Array]
    ) -> Trouble | None:
        """What goes wrong when the step is given what `write` puts into a folder; None where nothing does.

        Raises OutOfTime instead of starting a trial too late; the first is never, as it is of the whole.
        """
        if self.count and time.monotonic() - self.started > self.seconds:
            self.out_of_time = True
            raise OutOfTime
        self.count += 1
        folder = self.scratch / f"trial{self.count}"
        given, out = folder / "given", folder / "given"
        given.mkdir(parents=True)
        write(given)
        try:
            for at, (step, options) in enumerate(self._steps):
                given, out, cwd = out, folder / f"out{at}", folder / f"cwd{at}"
                out.mkdir()
                cwd.mkdir()
                os.chdir(cwd)
                step(Job(inputs={"source": given}, out=out, options=options))
        except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever a converter raises is what is looked for)
            traceback.print_exc()
            if isinstance(error, TransloadError):
                return Trouble(type(error).__name__, error.what, fix=error.fix)
            return Trouble(type(error).__name__, first_words(error))
        finally:
            os.chdir(self.scratch)
        return self._answers(out, feeds, expected)

    def _answers(self, out: Path, feeds: Mapping[str, Array], expected: Mapping[str, Array]) -> Trouble | None:
        try:
            session = open_session(default_runtime(out), out)
            got = session.run(feeds)
            session.close()
        except TransloadError as error:
            return Trouble(type(error).__name__, error.what)
        return differs(got, expected, self.least_db)


def _loaded(entry: str) -> Work:
    module, _, name = entry.partition(":")
    found: Work = getattr(import_module(module), name)
    return found


def differs(got: Mapping[str, Array], expected: Mapping[str, Array], least_db: float) -> Trouble | None:
    """What is wrong with answers, in one sentence with what they look like; None where they agree."""
    if what := structure(got, expected):
        return Trouble(WRONG, _with_looks(what, got, expected), dict(got))
    drift = combine({name: compare(got[name], array) for name, array in expected.items()})
    if drift.mismatches or drift.non_finite or (drift.sqnr_db is not None and drift.sqnr_db < least_db):
        db = "" if drift.sqnr_db is None else f"agrees to {drift.sqnr_db:.0f} dB"
        counts = f"{drift.mismatches + drift.non_finite} of {drift.elements} elements differ"
        return Trouble(WRONG, _with_looks(db or counts, got, expected), dict(got))
    return None


def _with_looks(what: str, got: Mapping[str, Array], expected: Mapping[str, Array]) -> str:
    looks = explain(got, expected)
    return f"{what}; {looks}" if looks else what


def first_failing(most: int, fails: Callable[[int], bool], works: int = 0) -> int:
    """The least length up to `most` at which `fails`, if longer ones fail as well; `most` is known to, and `works` not
    to."""
    failing = most
    while failing - works > 1:
        middle = (works + failing) // 2
        if fails(middle):
            failing = middle
        else:
            works = middle
    return failing


def suspects(what: str, operators: Sequence[tuple[str, str]]) -> list[int]:
    """Of operators and their names, those that a failure's words mention, a few; first those that they name."""
    words = set(re.findall(r"\w+", what))
    mentioned = [at for at, (operator, _) in enumerate(operators) if operator in words]
    return sorted(mentioned, key=lambda at: operators[at][1] not in what)[:_MOST_SUSPECTS]


def smallest(  # noqa: PLR0917  (what is searched, how, and what for)
    count: int,
    cut: Callable[[Sequence[int]], _P | None],
    behind: Callable[[int, int], Sequence[int]],
    trial: Trial,
    whole: Trouble,
    suspects: Sequence[int] = (),
) -> tuple[int, tuple[_P, Trouble] | None]:
    """The operator, of `count` in their order, where it happens, and the smallest piece that fails as the whole does,
    as far as one is found in time. First the `suspects`, each alone: large pieces take long. Then the shortest
    beginning that fails, by bisection: its last operator is where it happens. Then that one alone; then it with those
    before it, two, four, eight (`behind`), and back to the fewest."""
    best: tuple[_P, Trouble] | None = None
    at = count - 1

    def fails(chosen: Sequence[int]) -> bool:
        nonlocal best
        piece = cut(chosen)
        if piece is None:
            return False
        seen = trial(piece.write, piece.feeds, piece.expected)
        if seen is None or not seen.like(whole):
            return False
        if best is None or piece.operators < best[0].operators:
            best = piece, seen
        return True

    try:
        for suspect in suspects:
            if fails([suspect]):
                return suspect, best
        at = first_failing(count, lambda length: fails(range(length))) - 1
        size = 1
        while (best is None or size < best[0].operators) and size <= count:
            if fails(behind(at, size)):
                first_failing(size, lambda length: fails(behind(at, length)), works=size // 2)
                break
            size *= 2
    except OutOfTime:
        print("out of time: the smallest piece so far is taken")
    return at, best


def found_or_refused(found: tuple[_P, Trouble] | None, whole: Trouble, trial: Trial) -> tuple[_P, Trouble]:
    """What `smallest` has found. Raises Refused where that is nothing."""
    if found is None and trial.out_of_time:
        raise Refused(OUT_OF_TIME, fix="allow more: --search-seconds")
    if found is None:
        raise Refused(f"the step does not fail at any part of the model alone: {whole.what}", fix="read its log")
    return found


def facts_of(  # noqa: PLR0917  (what is told of it)
    seen: Trouble, operators: int | None, operator: str, where: str, line: str | None, trial: Trial
) -> dict[str, Any]:
    """What a search tells of a piece, how it fails among it. `whole`: whether it came to its end in time."""
    return {
        "whole": not trial.out_of_time,
        "operators": operators,
        "operator": operator,
        "where": where,
        "line": line,
        "what": seen.what,
        "fix": seen.fix,
    }


def does_not_fail() -> Refused:
    """For a whole that fails at none of the samples."""
    return Refused("the whole model does not fail when it is converted once more", fix="read the log of the step")
