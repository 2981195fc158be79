"""The order in which models are begun: the longest first, so that none is left over when the others are done.

Between them come the shortest. Left to the end, all at once, their steps would be over faster than one command can
order the next ones to a large cluster (docs/scale.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
_LONG_TO_SHORT = 2  # models; of 1 to 4 the best in benchmarks/cluster/simulate.py at 128 and 256 nodes


def longest_first(
    models: Sequence[T], expected_s: Callable[[T], float | None], weight_bytes: Callable[[T], int] = lambda _: 0
) -> list[T]:
    """Sort models by how long they are expected to take: two of the longest that are left, one of the shortest, and so
    on. Equal ones keep their order.
    A model that nobody knows (None) comes before all others, as it may be the longest; of several, that with the
    largest file of weights."""

    def place(model: T) -> tuple[bool, float]:
        seconds = expected_s(model)
        return (True, -float(weight_bytes(model))) if seconds is None else (False, -seconds)

    waiting = deque(sorted(models, key=lambda model: (not place(model)[0], place(model)[1])))
    ordered: list[T] = []
    while waiting:
        is_short = len(ordered) % (_LONG_TO_SHORT + 1) == _LONG_TO_SHORT
        ordered.append(waiting.pop() if is_short else waiting.popleft())
    return ordered
