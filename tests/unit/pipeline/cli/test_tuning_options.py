"""The options that belong to another one: of a search, and of a load."""

from __future__ import annotations

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.cli.option_values import parse_latency, parse_load_options, parse_tuning_options
from transload.pipeline.commands.bench_options import LoadOptions, TuningOptions


@pytest.mark.parametrize(("text", "seconds"), [("10ms", 0.01), ("250us", 0.00025), ("0.5 s", 0.5), (None, None)])
def test_a_latency_has_a_unit(text: str | None, seconds: float | None) -> None:
    assert parse_latency(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["10", "0ms", "-1ms", "10m", ""])
def test_what_is_no_latency_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="is no latency"):
        parse_latency(text)


def test_limits_of_a_search_come_with_it() -> None:
    assert parse_tuning_options("5m", "10ms", tune=True) == TuningOptions(budget_s=300.0, latency_bound_s=0.01)
    assert parse_tuning_options(None, None, tune=True) == TuningOptions()
    assert parse_tuning_options(None, None, tune=False) is None


@pytest.mark.parametrize(("limits", "option"), [(("60s", None), "--tune-budget"), ((None, "10ms"), "--latency-bound")])
def test_limits_without_a_search_are_refused(limits: tuple[str | None, str | None], option: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_tuning_options(*limits, tune=False)
    assert (refused.value.what, refused.value.fix) == (f"{option} belongs to a search of settings", "give --tune, too")


def test_options_of_a_load_come_with_it() -> None:
    assert parse_load_options(["closed:1,2"], 5.0, None) == LoadOptions(cases=("closed:1,2",), seconds=5.0)
    assert parse_load_options(None, None, None) is None


@pytest.mark.parametrize(
    ("others", "option"), [((5.0, None), "--load-seconds"), ((None, ["loadgen"]), "--load-engine")]
)
def test_options_of_a_load_without_one_are_refused(others: tuple[float | None, list[str] | None], option: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_load_options(None, *others)
    assert (refused.value.what, refused.value.fix) == (f"{option} belongs to a load", "give --load, too")
