"""What is doubted about latencies: in one line what all rows share, and row by row what they do not.

A doubt that nearly every row has is the machine's, or that of the measurement. It widens the interval of each ratio,
which so allows for it: it can change the word of a row that is not settled, and of no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ..result.doubt_kinds import DoubtKind
from ..result.gate import answered, is_reference
from ..result.ratio import Comparison
from ..result.schema import LatencyRow
from . import units, view

_NEARLY_ALL = 0.8  # of the rows that may have a doubt
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# What a row has of these is another number than it seems, however many other rows have it too.
_OF_ROW = (DoubtKind.NO_ANSWER, DoubtKind.DEVICE, DoubtKind.ANSWERS, DoubtKind.OVERSUBSCRIBED, DoubtKind.NETWORK)


@dataclass(frozen=True)
class Doubt:
    """One kind of doubt, with the rows that have it."""

    texts: tuple[str, ...]  # as each row says it
    rows: tuple[LatencyRow, ...]
    kind: DoubtKind | None = None  # None: of a file from before kinds

    @property
    def told(self) -> Iterator[tuple[str, LatencyRow]]:
        """Each text with its row."""
        return zip(self.texts, self.rows, strict=True)

    @property
    def text(self) -> str:
        """The doubt as the first row says it."""
        return self.texts[0]

    @property
    def who(self) -> str:
        """The row that the text is of, or how many: "2 latencies, as onnx in onnxruntime at batch 1"."""
        first, count = _place(self.rows[0]), len(self.rows)
        return first if count == 1 else f"{count} latencies{f', as {first}' if len(set(self.texts)) > 1 else ''}"

    @property
    def in_one(self) -> str:
        """The texts as one, with the range of each number: "spreads over 12 to 67% of the median"."""
        words = _NUMBER.split(self.text)
        columns = zip(*map(_NUMBER.findall, self.texts), strict=True)
        sizes = (sorted(column, key=lambda number: float(number.replace(",", ""))) for column in columns)
        numbers = (f"{ordered[0]} to {ordered[-1]}" if ordered[0] != ordered[-1] else ordered[0] for ordered in sizes)
        return "".join(part for pair in zip_longest(words, numbers, fillvalue="") for part in pair)


@dataclass(frozen=True)
class Doubts:
    """The doubts of a measurement: one line on what its rows share, empty if nothing, and those of single rows."""

    machine: str
    rows: tuple[Doubt, ...]


def split_doubts(latency: Sequence[LatencyRow]) -> Doubts:
    """Return what nearly every row has as one line, and the other doubts as `doubts` does."""
    groups = doubts(latency)
    shared = [doubt for doubt in groups if _is_shared(doubt, latency)]
    return Doubts(_machine_line(shared, latency), tuple(doubt for doubt in groups if doubt not in shared))


def doubt_lines(latency: Sequence[LatencyRow], most: int, elsewhere: str = "") -> list[str]:
    """Return what the rows share, then the `most` weightiest doubts of single rows.
    `elsewhere`: where the lighter ones are, which are then counted."""
    both = split_doubts(latency)
    lines = [*filter(None, [both.machine]), *(f"{doubt.who}: {doubt.text}" for doubt in both.rows[:most])]
    rest = len(both.rows) - most
    return [*lines, f"lighter doubts, {rest} of them, are in {elsewhere}"] if rest > 0 and elsewhere else lines


def _is_shared(doubt: Doubt, latency: Sequence[LatencyRow]) -> bool:
    """Whether nearly all of several rows have a doubt; a reference has no ratio that could be wide."""
    able = [row for row in latency if answered(row) and not (doubt.kind is DoubtKind.WIDE_RATIO and is_reference(row))]
    return doubt.kind not in _OF_ROW and len(able) > 1 and len(doubt.rows) >= _NEARLY_ALL * len(able)


def _machine_line(shared: Sequence[Doubt], latency: Sequence[LatencyRow]) -> str:
    """Say what rows share, then what mends it, then which words it could change."""
    if not shared:
        return ""
    parts = [doubt.in_one.partition(": ") for doubt in shared]
    told = {id(row): row for doubt in shared for row in doubt.rows}
    facts, mends = ("; ".join(dict.fromkeys(part[at] for part in parts if part[at])) for at in (0, 2))
    where = f"the machine, on {len(told)} of {sum(map(answered, latency))} latencies"
    line = f"{where}: {facts}{f' ({mends})' if mends else ''}"
    unsettled = [_place(row) for row in told.values() if row.comparison is Comparison.INCONCLUSIVE]
    return f"{line}. It could change the word of {view.listed(unsettled)}" if unsettled else line


def doubts(latency: Sequence[LatencyRow]) -> tuple[Doubt, ...]:
    """Return the doubts of all timed rows, the weightiest first, then the most frequent; those that differ only in
    their numbers are one. The doubts of a row that was not timed are the reason why, and stand among the findings."""
    groups: dict[tuple[DoubtKind | None, str], list[tuple[str, LatencyRow]]] = {}
    for row in latency:
        for text, kind in zip_longest(row.doubts, row.doubt_kinds[: len(row.doubts)]) if answered(row) else ():
            groups.setdefault((kind, _NUMBER.sub("#", text)), []).append((units.plain(text), row))
    unsorted = [
        Doubt(tuple(text for text, _ in told), tuple(row for _, row in told), kind)
        for (kind, _), told in groups.items()
    ]
    last = len(DoubtKind)
    return tuple(sorted(unsorted, key=lambda doubt: (doubt.kind.rank if doubt.kind else last, -len(doubt.rows))))


def _place(row: LatencyRow) -> str:
    return f"{units.where(row)} at batch {row.batch}"
