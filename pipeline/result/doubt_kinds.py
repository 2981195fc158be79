"""The kinds of doubts about a latency, in the order of their weight.

First what makes a number wrong, then what makes it vague, then what a reader should know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class DoubtKind(StrEnum):
    """Kind of a doubt; the members are ordered by weight, the weightiest first."""

    NO_ANSWER = "no answer"
    DEVICE = "device"
    ANSWERS = "answers"
    THROTTLED = "throttled"
    OTHER_LOAD = "other load"
    OVERSUBSCRIBED = "oversubscribed"
    DRIFT = "drift"
    TWO_MODES = "two modes"
    SPREAD = "spread"
    WIDE_RATIO = "wide ratio"
    FEW_PROCESSES = "few processes"
    FEW_CALLS = "few calls"
    CLOCK = "clock"
    FIRST_CALL = "first call"
    NETWORK = "network"

    @property
    def rank(self) -> int:
        """The place in the order of weight, 0 for the weightiest."""
        return list(DoubtKind).index(self)


@dataclass(frozen=True, slots=True)
class LatencyDoubt:
    """One sentence against a latency: its number, and what mends it."""

    kind: DoubtKind
    text: str


def by_weight(doubts: Iterable[LatencyDoubt]) -> tuple[LatencyDoubt, ...]:
    """Return the doubts, the weightiest first; those of one kind stay in their order."""
    return tuple(sorted(doubts, key=lambda doubt: doubt.kind.rank))
