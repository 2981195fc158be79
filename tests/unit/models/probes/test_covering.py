"""Pairwise covering arrays: every two choices meet, in few rows, the first of which meet the most."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from transload.models.probes.covering import cover_pairs

CHOICES = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True), min_size=2, max_size=6
)


@given(CHOICES)
def test_every_two_choices_meet(choices: dict[str, list[int]]) -> None:
    rows = cover_pairs(choices)
    for first, second in combinations(choices, 2):
        met = {(row[first], row[second]) for row in rows}
        assert met == {(left, right) for left in choices[first] for right in choices[second]}


@given(CHOICES)
def test_no_row_is_in_vain(choices: dict[str, list[int]]) -> None:
    rows = cover_pairs(choices)
    lengths = sorted((len(own) for own in choices.values()), reverse=True)
    assert lengths[0] * lengths[1] <= len(rows) <= sum(x * y for x, y in combinations(lengths, 2))
    assert all(row.keys() == choices.keys() for row in rows)


def test_ten_switches_take_few_rows() -> None:
    assert len(cover_pairs({str(name): [0, 1] for name in range(10)})) <= 12  # of 1024
    assert cover_pairs({"alone": [1, 2]}) == []
