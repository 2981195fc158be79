"""The simulation keeps to what can be computed by hand."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks" / "cluster"


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module("simulate")
    sys.modules.pop("simulate")


def ideal(simulation, **changes: object):
    free = {"driver_s": 0.0, "warm_up_s": 0.0, "step_bytes": 0.0}
    return simulation.Setting(**{"nodes": 1, "slots": 2, **free, **changes})


def test_equal_models_fill_all_slots(simulation) -> None:
    outcome = simulation.simulate([[100.0]] * 8, ideal(simulation))
    assert (outcome.hours, outcome.efficiency, outcome.of_best) == (round(400 / 3600, 3), 1.0, 1.0)


def test_later_targets_wait_for_the_first_and_not_for_each_other(simulation) -> None:
    outcome = simulation.simulate([[360.0, 360.0, 360.0]], ideal(simulation))
    assert (outcome.hours, outcome.of_best) == (0.2, 1.0)


def test_a_long_model_at_the_end_is_waited_for_unless_it_goes_first(simulation) -> None:
    models = [[100.0]] * 4 + [[200.0]]
    late = simulation.simulate(models, ideal(simulation))
    early = simulation.simulate(models, ideal(simulation, longest_first=True))
    assert late.efficiency == 0.75
    assert early.efficiency == 1.0


def test_driver_store_and_warm_up_take_their_time(simulation) -> None:
    models = [[100.0]] * 2
    for change, seconds in (
        ({"driver_s": 50.0}, 200), ({"warm_up_s": 80.0}, 180), ({"step_bytes": 3e9, "store_bytes_s": 1e8}, 160),
    ):  # fmt: skip
        assert simulation.simulate(models, ideal(simulation, **change)).hours == round(seconds / 3600, 3)
