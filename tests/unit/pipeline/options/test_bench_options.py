"""The options of `bench` that belong to another one: of a search, and of a load."""

from __future__ import annotations

from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.cli.bench import BenchOptions
from transload.pipeline.options.bench_parts import LoadOptions, TuningOptions
from transload.pipeline.options.option_words import parse_latency


def section(**values: Any) -> dict[str, Any]:
    """Return the section [bench] of options."""
    return dict(BenchOptions.read({"candidates": ["a"], **values}).sections().get("bench", {}))


@pytest.mark.parametrize(("text", "seconds"), [("10ms", 0.01), ("250us", 0.00025), ("0.5 s", 0.5), (2.0, 2.0)])
def test_a_latency_has_a_unit(text: str | float, seconds: float) -> None:
    assert parse_latency(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["10", "0ms", "-1ms", "10m", ""])
def test_what_is_no_latency_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="is no latency"):
        parse_latency(text)


def test_limits_of_a_search_come_with_it() -> None:
    limits = {"tune": True, "tune_budget_s": 300.0, "latency_bound_s": 0.01}
    assert section(tune=True, tune_budget_s="5m", latency_bound_s="10ms") == limits
    assert section(tune=TuningOptions(budget_s=300.0, latency_bound_s=0.01)) == limits
    assert section(tune=True) == section(tune=TuningOptions()) == {"tune": True}
    assert section() == section(tune=None) == {}


@pytest.mark.parametrize(
    ("limit", "option"), [({"tune_budget_s": "60s"}, "--tune-budget"), ({"latency_bound_s": "10ms"}, "--latency-bound")]
)
def test_limits_without_a_search_are_refused(limit: dict[str, str], option: str) -> None:
    with pytest.raises(BadRequest) as refused:
        section(**limit)
    assert (refused.value.what, refused.value.fix) == (f"{option} belongs to a search of settings", "give --tune, too")


def test_options_of_a_load_come_with_it() -> None:
    expected = {"load": ("closed:1,2",), "load_seconds": 5.0}
    assert section(load=["closed:1,2"], load_seconds=5.0) == expected
    assert section(load=LoadOptions(cases=("closed:1,2",), seconds=5.0)) == expected


@pytest.mark.parametrize(
    ("other", "option"), [({"load_seconds": 5.0}, "--load-seconds"), ({"load_engines": ["loadgen"]}, "--load-engine")]
)
def test_options_of_a_load_without_one_are_refused(other: dict[str, Any], option: str) -> None:
    with pytest.raises(BadRequest) as refused:
        section(**other)
    assert (refused.value.what, refused.value.fix) == (f"{option} belongs to a load", "give --load, too")
