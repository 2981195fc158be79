"""Trials of a step on pieces of a model: does it fail there too, in the same way? Worker only.

All trials run in the worker that searches, so that a framework is loaded once. Each has a working directory of its own.
"""

from __future__ import annotations

import os
import re
import time
import traceback
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name

from ...converters.minimal_repro.graph_pieces import Cutter, GraphPiece, Piece
from ...models.errors import OpenFailed, Refused, SearchTimeout, SizeRefused, TransloadError
from ...models.job import Job
from ...models.signature import Array
from ...serving.checked_session import first_words
from ..drift.mismatch_hints import explain, structure
from ..drift.numbers.numeric import combine, compare
from ..drift.sessions import default_runtime, open_session
from .search_records import PieceFacts, SearchOptions

WRONG = "answers wrongly"
_LOST_LAYOUT = "the layout was lost"  # in the words of pipeline/drift/mismatch_hints.py
_HEAD_CHARACTERS = 40  # of a message without numbers and names, which tell the kind of failure
_MAX_MENTIONED = 3


class OutOfTime(Exception):
    """The search has used its time; its best piece so far counts."""


@dataclass(frozen=True)
class Failure:
    """How a step fails at a piece. `outputs`: the wrong answers, if there are any."""

    kind: str  # the error's class, or WRONG
    message: str
    outputs: Mapping[str, Array] | None = None
    fix: str = ""  # of the step's own refusal
    unopened_by: str = ""  # the runtime that could not open the artifact
    size_refused: bool = False  # at sizes that the program excludes

    def is_like(self, other: Failure) -> bool:
        """Return whether two failures look like one defect, since a piece may fail because it is a piece.
        Onnx2tf returns images of any piece in a layout of its own, which is another defect than wrong numbers."""
        if self.kind != other.kind:
            return False
        if self.kind == WRONG:
            return self.has_lost_layout == other.has_lost_layout
        # If a step lists the operators that it refuses, a piece has some of them.
        return _head_of(self.message) == _head_of(other.message) or _words_of(self.message) <= _words_of(other.message)

    @property
    def has_lost_layout(self) -> bool:
        """Whether the numbers are right, but in another order."""
        return _LOST_LAYOUT in self.message


def _head_of(message: str) -> str:
    return re.sub(r"\s+", "", _without_names(message))[:_HEAD_CHARACTERS]


def _words_of(message: str) -> set[str]:
    return set(re.findall(r"[^\s,]+", _without_names(message)))


def _without_names(message: str) -> str:
    """Remove names and numbers, which differ from piece to piece."""
    return re.sub(r"['\"(\[].*?['\")\]]|\d+", "", message)


@dataclass
class Trial:
    """A chain of steps that is tried on one piece after another."""

    options: SearchOptions
    scratch: Path
    count: int = 0
    out_of_time: bool = False  # whether a trial was refused for lack of time

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._steps = [(resolve_name(entry), options) for entry, options in self.options.chain]

    def __call__(self, piece: Piece) -> Failure | None:
        """Run the chain on a piece; return its failure, or None.
        Raises OutOfTime instead of starting a trial too late; the first trial, of the full model, always runs."""
        if self.count and time.monotonic() - self._started > self.options.seconds:
            self.out_of_time = True
            raise OutOfTime
        self.count += 1
        folder = self.scratch / f"trial{self.count}"
        source, out = folder / "given", folder / "given"
        source.mkdir(parents=True)
        piece.write(source)
        try:
            for index, (step, options) in enumerate(self._steps):
                source, out, cwd = out, folder / f"out{index}", folder / f"cwd{index}"
                out.mkdir()
                cwd.mkdir()
                os.chdir(cwd)
                step(Job(inputs={"source": source}, out=out, options=options))
        except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever a converter raises is what is looked for)
            traceback.print_exc()
            if isinstance(error, TransloadError):
                return _failure_of(error, fix=error.fix)
            return Failure(type(error).__name__, first_words(error))
        finally:
            os.chdir(self.scratch)
        try:
            session = open_session(default_runtime(out), out)
            outputs = session.run(piece.feeds)
            session.close()
        except TransloadError as error:
            return _failure_of(error)
        return find_difference(outputs, piece.expected, self.options.least_db)

    def facts(self, failure: Failure, operators: int | None, operator: str, where: str, line: str | None) -> PieceFacts:
        """Return the facts of a search about its piece."""
        return PieceFacts(
            complete=not self.out_of_time,
            operators=operators,
            operator=operator,
            where=where,
            line=line,
            kind=failure.kind,
            message=failure.message,
            fix=failure.fix,
            unopened_by=failure.unopened_by,
            size_refused=failure.size_refused,
        )


def _failure_of(error: TransloadError, fix: str = "") -> Failure:
    runtime = error.runtime if isinstance(error, OpenFailed) else ""
    size_refused = isinstance(error, SizeRefused)
    return Failure(error.kind, error.what, fix=fix, unopened_by=runtime, size_refused=size_refused)


def find_difference(outputs: Mapping[str, Array], expected: Mapping[str, Array], least_db: float) -> Failure | None:
    """Describe what is wrong with outputs in one sentence, with a guess at the cause; None if they agree."""
    message = structure(outputs, expected)
    if message is None:
        drift = combine({name: compare(outputs[name], array) for name, array in expected.items()})
        wrong = drift.mismatches + drift.non_finite
        if not wrong and (drift.sqnr_db is None or drift.sqnr_db >= least_db):
            return None
        counts = f"{wrong} of {drift.elements} elements differ"
        message = counts if drift.sqnr_db is None else f"agrees to {drift.sqnr_db:.0f} dB"
    appearance = explain(outputs, expected)
    return Failure(WRONG, f"{message}; {appearance}" if appearance else message, dict(outputs))


def shortest_failing_length(length: int, fails: Callable[[int], bool], passing: int = 0) -> int:
    """Return the least failing length by bisection, if longer ones fail as well.
    `length` is known to fail, and `passing` not to."""
    return bisect_left(range(length), True, lo=passing + 1, hi=length, key=fails)


def mentioned_operators(message: str, operators: Sequence[tuple[str, str]]) -> list[int]:
    """Return a few of the operators (type, name) that a failure's message mentions, those that it names first."""
    words = set(re.findall(r"\w+", message))
    mentioned = [index for index, (operator, _) in enumerate(operators) if operator in words]
    return sorted(mentioned, key=lambda index: operators[index][1] not in message)[:_MAX_MENTIONED]


def search_smallest(
    cutter: Cutter, trial: Trial, full_failure: Failure, suspects: Sequence[int] = ()
) -> tuple[int, GraphPiece, Failure]:
    """Search the smallest piece that fails as the full model does; return the failing operator, the piece, its failure.
    First the `suspects` are tried, each alone, because large pieces take long. Then bisection finds the shortest
    failing prefix of the operators, whose last operator is the failing one. Then that is tried alone, then with two,
    four, eight operators of `with_predecessors`, and back to the fewest. The best piece counts when time is up. Raises
    SearchTimeout or Refused if there is none."""
    best: tuple[GraphPiece, Failure] | None = None
    count = len(cutter.nodes)
    index = count - 1

    def fails(chosen: Sequence[int]) -> bool:
        nonlocal best
        piece = cutter.piece(chosen)
        failure = trial(piece) if piece else None
        if piece is None or failure is None or not failure.is_like(full_failure):
            return False
        if best is None or piece.operators < best[0].operators:
            best = piece, failure
        return True

    try:
        if (suspect := next((suspect for suspect in suspects if fails([suspect])), None)) is not None:
            return suspect, *require_piece(best, full_failure, trial)
        index = shortest_failing_length(count, lambda length: fails(range(length))) - 1
        size = 1
        while (best is None or size < best[0].operators) and size <= count:
            if fails(cutter.with_predecessors(index, size)):
                shortest_failing_length(
                    size, lambda length: fails(cutter.with_predecessors(index, length)), passing=size // 2
                )
                break
            size *= 2
    except OutOfTime:
        print("out of time: the smallest piece so far is taken")
    return index, *require_piece(best, full_failure, trial)


def require_piece(
    best: tuple[GraphPiece, Failure] | None, full_failure: Failure, trial: Trial
) -> tuple[GraphPiece, Failure]:
    """Return the best piece. Raises SearchTimeout or Refused if there is none."""
    if best is None and trial.out_of_time:
        raise SearchTimeout("nothing smaller was found in the time", fix="allow more: --search-seconds")
    if best is None:
        message = f"the step does not fail at any part of the model alone: {full_failure.message}"
        raise Refused(message, fix="read its log")
    return best
