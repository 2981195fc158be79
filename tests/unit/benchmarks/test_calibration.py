"""The replay of `transload bench` on the samples of `make calibration`: it looks when bench looks, and ends when it
does."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from transload.pipeline.measure.bench.rounds import ProcessSamples, Series
from transload.pipeline.result.ratio import Comparison

HOME = Path(__file__).resolve().parents[3] / "benchmarks" / "calibration"
NOISE = np.random.default_rng(0).normal(scale=0.05, size=(2, 10))  # of ten sets of processes, that settle nothing


@pytest.fixture
def judging(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(HOME)
    yield importlib.import_module("judging")
    sys.modules.pop("judging")


def series(name: str, medians: np.ndarray) -> Series:
    rounds = [{at: np.full(20, median) for at in range(3)} for median in medians]
    return Series((name, "r"), 1, processes={number: ProcessSamples(rounds=own) for number, own in enumerate(rounds)})


@pytest.mark.parametrize(("set_s", "spent_s"), [(5.0, 50.0), (8.0, 56.0), (30.0, 90.0)])
def test_the_replay_begins_no_set_that_ends_after_the_budget_but_the_first_three(
    judging: ModuleType, set_s: float, spent_s: float
) -> None:
    pair = judging.MeasuredPair(series("a", 1 + NOISE[0]), series("b", 1 + NOISE[1]), 10 * set_s)
    judged = judging._ours(pair)
    assert judged["comparison"] is Comparison.INCONCLUSIVE
    assert judged["seconds"] == pytest.approx(spent_s)


def test_a_clear_difference_ends_the_replay_at_the_first_look(judging: ModuleType) -> None:
    pair = judging.MeasuredPair(series("a", 1 + NOISE[0] / 50), series("b", 1 + NOISE[1] / 50), 100.0)
    judged = judging._ours(pair.slowed(0.2))
    assert (judged["comparison"], judged["seconds"]) == (Comparison.SLOWER, pytest.approx(30.0))
