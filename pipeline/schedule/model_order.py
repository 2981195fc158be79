"""The order in which models are begun: the longest first, so that none is left over when the others are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def longest_first(
    models: Sequence[T], expected_s: Callable[[T], float | None], weight_bytes: Callable[[T], int] = lambda _: 0
) -> list[T]:
    """Sort models by how long they are expected to take, the longest first; equal ones keep their order.
    A model that nobody knows (None) comes before all others, as it may be the longest; of several, that with the
    largest file of weights."""

    def place(model: T) -> tuple[bool, float]:
        seconds = expected_s(model)
        return (True, -float(weight_bytes(model))) if seconds is None else (False, -seconds)

    return sorted(models, key=lambda model: (not place(model)[0], place(model)[1]))
