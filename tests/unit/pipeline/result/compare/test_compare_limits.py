"""How much a figure may change: what may be asked for, and the defaults of metrics."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.result.compare.compare_limits import CompareLimits

DEFAULTS = {"drift_db": 6.0, "metric_loss": None, "latency": 0.05, "size": 0.05, "memory": 0.10}


def test_the_defaults_are_those_of_the_page() -> None:
    assert vars(CompareLimits()) == DEFAULTS


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_limit_is_a_finite_number_from_0_up(name: str) -> None:
    assert getattr(replace(CompareLimits(), **{name: 0.0}), name) == 0.0
    for limit in (-0.001, math.inf, math.nan):
        with pytest.raises(BadRequest, match=f"the limit {name} is {limit}"):
            replace(CompareLimits(), **{name: limit})


@pytest.mark.parametrize(
    ("before", "higher_is_better", "limit", "words"),
    [
        (0.9, True, 0.01, "limit 1.00 pp, the default for a score"),
        (0.5, False, 0.01, "limit 1.00 pp, the default for an error: 2%"),
        (-0.5, False, 0.01, "limit 1.00 pp, the default for an error: 2%"),
    ],
)
def test_a_metric_has_a_default_by_its_direction(
    before: float, higher_is_better: bool, limit: float, words: str
) -> None:
    assert CompareLimits().loss_limit(before, "share", higher_is_better=higher_is_better) == (limit, words)
    named = CompareLimits(metric_loss=0.0).loss_limit(before, "share", higher_is_better=higher_is_better)
    assert named == (0.0, "limit 0.00 pp")
