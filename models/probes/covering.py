"""Few combinations of several choices in which each two choices meet: a pairwise covering array."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

_T = TypeVar("_T", bound=Hashable)


def cover_pairs(choices: Mapping[str, Sequence[_T]]) -> list[dict[str, _T]]:
    """Return combinations of one value for each name, so that every two values of two names stand in one of them.
    The first meet the most pairs that were not met before, so what is cut off at the end matters least. Greedy, as in
    Cohen, Dalal, Fredman, Patton, "The AETG System: An Approach to Testing Based on Combinatorial Design", 1997."""
    values = {name: [(name, value) for value in own] for name, own in choices.items()}
    unmet = {
        frozenset((left, right)): (left, right)
        for first, second in combinations(values, 2)
        for left in values[first]
        for right in values[second]
    }
    rows: list[dict[str, _T]] = []
    while unmet:
        row = _extend(next(iter(unmet.values())), values, unmet)
        for pair in combinations(row.items(), 2):
            unmet.pop(frozenset(pair), None)
        rows.append({name: row[name] for name in choices})
    return rows


def _extend(
    pair: tuple[tuple[str, _T], tuple[str, _T]],
    values: Mapping[str, Sequence[tuple[str, _T]]],
    unmet: Mapping[frozenset[tuple[str, _T]], object],
) -> dict[str, _T]:
    """Add to a pair the value of each other name that meets the most pairs with what is there already."""
    row = dict(pair)
    for name, own in values.items():
        if name not in row:
            row |= [max(own, key=lambda choice: sum(frozenset((choice, known)) in unmet for known in row.items()))]
    return row
