"""Trials of a step on pieces: which failures are alike, and the search for the shortest failing length."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transload.models.errors import SearchTimeout
from transload.pipeline.minimal_repro.search_records import SearchOptions
from transload.pipeline.minimal_repro.trial import (
    WRONG,
    Failure,
    OutOfTime,
    Trial,
    find_difference,
    mentioned_operators,
    require_piece,
    shortest_failing_length,
)


@pytest.mark.parametrize("culprit", [1, 2, 7, 8, 13])
def test_the_shortest_beginning_that_fails_is_found_in_few_trials(culprit: int) -> None:
    asked: list[int] = []

    def fails(count: int) -> bool:
        asked.append(count)
        return count >= culprit

    assert shortest_failing_length(13, fails) == culprit
    assert len(asked) <= 4


def test_only_the_same_kind_of_failure_counts() -> None:
    no_kernel = Failure("Refused", "the operator Det (node_7) is not carried")
    assert no_kernel.is_like(Failure("Refused", "the operator Det (node_12) is not carried"))
    assert not no_kernel.is_like(Failure("Refused", "its shape is computed by the model"))
    assert not no_kernel.is_like(Failure("ValueError", no_kernel.message))
    moved = Failure(WRONG, "agrees to 3 dB; equals the reference after (0, 2, 1): the layout was lost")
    assert not moved.is_like(Failure(WRONG, "agrees to 12 dB"))
    assert Failure(WRONG, "agrees to 3 dB").is_like(Failure(WRONG, "agrees to 12 dB"))
    several = Failure("Refused", "TFLite has no kernel for Erfinv (erfinv_1), Digamma (digamma)")
    assert Failure("Refused", "TFLite has no kernel for Digamma (digamma)").is_like(several)
    assert not Failure("Refused", "TFLite has no kernel for Betainc (betainc)").is_like(several)


def test_an_operator_that_the_failure_names_is_tried_first() -> None:
    operators = [("Conv", "first"), ("Det", "one"), ("Det", "two"), ("Relu", "three")]
    assert mentioned_operators("the operator Det (two) is not carried", operators) == [2, 1]
    assert mentioned_operators("agrees to 3 dB", operators) == []


def test_answers_are_held_to_shape_and_numbers() -> None:
    want = {"y": np.arange(24, dtype=np.float32).reshape(2, 3, 4)}
    assert find_difference(want, want, 60) is None
    off = find_difference({"y": want["y"] * 1.1}, want, 60)
    assert off is not None
    assert off.message.startswith("agrees to 20 dB")
    turned = find_difference({"y": want["y"].transpose(0, 2, 1)}, want, 60)
    assert turned is not None
    assert turned.has_lost_layout


def test_a_search_whose_time_is_over_says_so_and_tries_the_whole_all_the_same(tmp_path: Path) -> None:
    trial = Trial(
        SearchOptions(step="", reason="", chain=(), target="", least_db=60.0, seconds=0.0, model=""), tmp_path
    )
    nothing: Any = SimpleNamespace(write=lambda folder: None, feeds={}, expected={})
    seen = trial(nothing)
    assert seen is not None
    assert not trial.out_of_time
    with pytest.raises(OutOfTime):
        trial(nothing)
    assert not trial.facts(seen, 3, "Add", "the operator Add", None).complete
    with pytest.raises(SearchTimeout, match="nothing smaller was found in the time"):
        require_piece(None, seen, trial)
