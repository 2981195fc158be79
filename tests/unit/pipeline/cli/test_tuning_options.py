"""The options of a search: times of latencies, and limits without a search."""

from __future__ import annotations

import pytest

from transload.models.errors import BadRequest
from transload.pipeline import api
from transload.pipeline.cli.options import parse_latency


@pytest.mark.parametrize(("text", "seconds"), [("10ms", 0.01), ("250us", 0.00025), ("0.5 s", 0.5), (None, None)])
def test_a_latency_has_a_unit(text: str | None, seconds: float | None) -> None:
    assert parse_latency(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["10", "0ms", "-1ms", "10m", ""])
def test_what_is_no_latency_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="is no latency"):
        parse_latency(text)


@pytest.mark.parametrize(
    ("limits", "what", "fix"),
    [
        ({"latency_bound_s": 0.01}, "--latency-bound belongs to a search of settings", "give --tune, too"),
        ({"tune_budget_s": 9.0}, "--tune-budget belongs to a search of settings", "give --tune, too"),
    ],
)
def test_limits_without_a_search_are_refused(limits: dict[str, float], what: str, fix: str) -> None:
    with pytest.raises(BadRequest) as refused:
        api.bench("made/onnx", **limits)  # type: ignore[arg-type]
    assert (refused.value.what, refused.value.fix) == (what, fix)
