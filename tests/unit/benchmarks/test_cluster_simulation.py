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
    for name in ("simulate", "recorded_models"):
        sys.modules.pop(name)


def ideal(simulation, **changes: object):
    free = {"model_s": 0.0, "step_s": 0.0, "warm_up_s": 0.0, "straggler_share": 0.0}
    return simulation.Setting(**{"nodes": 1, "slots": 2, **free, **changes})


def step(simulation, seconds: float, needs: int | None = None, step_bytes: float = 0.0):
    return simulation.SimulatedStep(needs, seconds, step_bytes)


def test_equal_models_fill_all_slots(simulation) -> None:
    outcome = simulation.simulate([[step(simulation, 100.0)]] * 8, ideal(simulation))
    assert (outcome.hours, outcome.efficiency, outcome.of_best) == (round(400 / 3600, 3), 1.0, 1.0)


def test_later_targets_wait_for_the_first_and_not_for_each_other(simulation) -> None:
    first, later = step(simulation, 360.0), step(simulation, 360.0, needs=0)
    outcome = simulation.simulate([[first, later, later]], ideal(simulation))
    assert (outcome.hours, outcome.of_best) == (0.2, 1.0)


def test_a_long_model_at_the_end_is_waited_for_unless_it_goes_first(simulation) -> None:
    short, long = [[step(simulation, 100.0)]] * 4, [[step(simulation, 200.0)]]
    assert simulation.simulate([*short, *long], ideal(simulation)).efficiency == 0.75
    assert simulation.simulate([*long, *short], ideal(simulation)).efficiency == 1.0


def test_command_store_and_warm_up_take_their_time(simulation) -> None:
    for change, moved, seconds in (
        ({"step_s": 50.0}, 0.0, 200), ({"model_s": 30.0}, 0.0, 160),
        ({"warm_up_s": 80.0}, 0.0, 180), ({"store_bytes_s": 1e8}, 3e9, 160),
    ):  # fmt: skip
        models = [[step(simulation, 100.0, step_bytes=moved)]] * 2
        assert simulation.simulate(models, ideal(simulation, **change)).hours == round(seconds / 3600, 3)


def test_commands_share_the_list_and_the_slots(simulation) -> None:
    models = [[step(simulation, 100.0)]] * 4
    alone, pair = (ideal(simulation, slots=4, step_s=10.0, commands=commands) for commands in (1, 2))
    assert simulation.simulate(models, alone).hours == round(140 / 3600, 3)
    assert simulation.simulate(models, pair).hours == round(120 / 3600, 3)
    uneven = ideal(simulation, slots=2, commands=2)
    assert simulation.simulate([[step(simulation, 100.0)] * 2], uneven).hours == round(100 / 3600, 3)


def test_what_is_slow_by_its_place_is_waited_for(simulation) -> None:
    slow = ideal(simulation, nodes=2, slots=1, slow_nodes=1, straggler_factor=10.0)
    assert simulation.simulate([[step(simulation, 100.0)]] * 2, slow).hours == round(1000 / 3600, 3)
