"""The parts of two graphs that depart: from the wrong outputs back to values that both have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

Value: TypeAlias = Any  # a number, or a name


class DataFlow:
    """Which operator writes a value, and which values that operator reads; operators have indices in their order."""

    def __init__(self, reads: Sequence[Collection[Value]], writes: Sequence[Collection[Value]]) -> None:
        self.reads, self.writes = reads, writes
        self._producer = {value: at for at, values in enumerate(writes) for value in values}

    def producer(self, value: Value) -> int | None:
        """Return the operator that writes a value; None for inputs and weights."""
        return self._producer.get(value)

    def region(self, ends: Iterable[Value], is_known: Callable[[Value], bool]) -> list[int]:
        """Return the operators that `ends` depend on through unknown values alone, in their order."""
        operators: set[int] = set()
        pending = [value for value in ends if not is_known(value)]
        while pending:
            at = self._producer.get(pending.pop())
            if at is None or at in operators:
                continue
            operators.add(at)
            pending += [value for value in self.reads[at] if not is_known(value)]
        return sorted(operators)

    def region_with_ends(self, ends: Iterable[Value], is_known: Callable[[Value], bool]) -> list[int]:
        """Return the operators that write `ends`, whether these are known or not, and the region before them."""
        last = [at for at in map(self._producer.get, ends) if at is not None]
        return sorted({*last, *self.region([value for at in last for value in self.reads[at]], is_known)})

    def distances(self, operators: Sequence[int], is_known: Callable[[Value], bool]) -> dict[int, int]:
        """Return how many unknown values lie between each operator of a region and the known ones."""
        steps: dict[int, int] = {}
        for at in operators:
            before = [self._producer.get(value) for value in self.reads[at] if not is_known(value)]
            steps[at] = 1 + max((steps.get(operator, 0) for operator in before if operator is not None), default=0)
        return steps
