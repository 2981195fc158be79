"""Figures of a load measurement, and what speaks against them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from transload.pipeline.measure.bench.statistics import Load
from transload.pipeline.measure.load import early_stopping
from transload.pipeline.measure.load.load_summary import LoadConditions, backlog, doubts, figures, is_valid, waited
from transload.pipeline.result.load_cases import LoadCase, parse_load

from .load_samples import records


def case(text: str) -> LoadCase:
    return parse_load([text])[0]


def evenly(count: int, every_s: float, latency_s: float, lost: tuple[int, ...] = ()):
    times = np.arange(count) * every_s
    return records(times, times, times + latency_s, lost)


def test_percentiles_that_the_requests_do_not_support_are_none() -> None:
    few = figures(evenly(100, 0.01, 0.002), case("closed:1"), 1)
    assert (few.p50_s, few.p90_s) == pytest.approx((0.002, 0.002))
    assert (few.p99_s, few.p99_ci95, few.p999_s, few.early_stopping_s) == (None, None, None, None)
    enough = figures(evenly(4000, 0.01, 0.002), case("closed:1"), 1)
    assert enough.p999_s == pytest.approx(0.002)
    assert enough.p999_ci95 == pytest.approx((0.002, 0.002))


def test_a_request_without_an_answer_is_slower_than_any() -> None:
    """Of 1000 requests 200 are lost: the median stands, and there is no 90th percentile."""
    result = figures(evenly(1000, 0.01, 0.002, lost=tuple(range(200))), case("closed:1"), 1)
    assert result.p50_s == pytest.approx(0.002)
    assert (result.p90_s, result.p99_s, result.early_stopping_s) == (None, None, None)
    assert (result.requests, result.lost, result.refused) == (1000, 200, 0)
    assert result.throughput_per_s == pytest.approx(800 / 9.992)


def test_nothing_but_lost_requests_gives_no_percentile() -> None:
    result = figures(evenly(50, 0.01, 0.002, lost=tuple(range(50))), case("closed:1"), 1)
    assert (result.p50_s, result.throughput_per_s) == (None, 0)


def test_throughput_is_in_samples() -> None:
    assert figures(evenly(10, 0.1, 0.1), case("multi-stream:8"), 8).throughput_per_s == pytest.approx(80)


def test_offline_has_a_throughput_and_no_latency() -> None:
    result = figures(records(np.zeros(1000), np.zeros(1000), np.arange(1, 1001) / 100), case("offline"), 1)
    assert result.throughput_per_s == pytest.approx(100)
    assert (result.p50_s, result.p99_s, result.early_stopping_s) == (None, None, None)


@pytest.mark.parametrize(("quantile", "least"), [(0.9, 64), (0.99, 662)])
def test_early_stopping_needs_as_many_requests_as_mlperf_says(quantile: float, least: int) -> None:
    assert early_stopping.least_requests(quantile) == least
    assert early_stopping.bound(np.arange(least - 1.0), quantile) is None
    assert early_stopping.bound(np.arange(float(least)), quantile) == least - 1


def test_early_stopping_discards_what_loadgen_discards() -> None:
    """LoadGen 6.0.17 on 1532 queries: "Would discard 124 highest latency queries" for the 90th percentile."""
    assert early_stopping.bound(np.arange(1532.0), 0.9) == 1532 - 125


def test_the_bound_holds_in_99_of_100_measurements() -> None:
    rng = np.random.default_rng(5)
    truth = stats.expon.ppf(0.9)
    bounds = [early_stopping.bound(np.sort(rng.exponential(size=300)), 0.9) for _ in range(2000)]
    assert np.mean([bound is not None and bound < truth for bound in bounds]) <= 0.015


def test_a_server_is_valid_invalid_or_not_shown() -> None:
    server = case("server:100@10ms")
    fast, slow = np.full(1000, 0.005), np.full(1000, 0.005)
    slow[-50:] = 0.02
    assert is_valid(np.sort(fast), server) is True
    assert is_valid(np.sort(slow), server) is False
    slow[-8:] = 0.02
    few = np.full(1000, 0.005)
    few[-8:] = 0.02
    assert is_valid(np.sort(few), server) is None  # 8 of 1000 is below 1 %, and not surely so
    assert is_valid(np.full(100, 0.005), server) is None
    assert is_valid(np.sort(fast), case("poisson:100")) is None


def test_a_rate_that_cannot_be_sustained_is_said_with_its_number() -> None:
    """100 requests a second to a server that answers 80: 20 more wait with each second."""
    intended = np.arange(1000) / 100
    done = np.arange(1, 1001) / 80
    result = records(intended, np.maximum(intended, done - 1 / 80), done)
    growth = backlog(result)
    assert not growth.is_sustained
    assert growth.answered_per_s == pytest.approx(80, abs=1)
    said = doubts(result, figures(result, case("constant:100"), 1), case("constant:100"), LoadConditions())
    assert said[0] == (
        "not sustained: of 100 requests a second 80 were answered, and 201 waited at the end: "
        "latencies grow with the time that is measured, so use a lower rate"
    )


def test_a_slow_server_that_keeps_up_is_sustained() -> None:
    intended = np.arange(1000) / 100
    assert backlog(records(intended, intended, intended + 0.5)).is_sustained  # 50 wait at any time
    assert backlog(records([0.5], [0.5], [0.6])).is_sustained


def test_queues_of_a_busy_server_are_no_backlog_that_grows() -> None:
    rng = np.random.default_rng(2)
    unsustained = 0
    for _ in range(100):  # M/M/1 at 80 % of what it can
        intended = np.cumsum(rng.exponential(1 / 80, size=1600))
        done = np.zeros(1600)
        end = 0.0
        for at, service in enumerate(rng.exponential(1 / 100, size=1600)):
            end = done[at] = max(end, intended[at]) + service
        unsustained += not backlog(records(intended, done, done)).is_sustained
    assert unsustained <= 2


def test_a_late_generator_is_told_from_busy_connections() -> None:
    intended = np.arange(400) / 100
    late = records(intended, intended + 0.004, intended + 0.006)
    result = figures(late, case("constant:100"), 1, connections=4)
    assert result.late_p99_s == pytest.approx(0.004)
    assert "the generator itself sent up to 4 ms late (p99), 67% of the median: leave it a free core" in doubts(
        late, result, case("constant:100"), LoadConditions(connections=4)
    )
    # One connection that is held for 15 ms at a time: every second request waits for it, and nobody was late.
    busy = records(intended, intended + np.where(np.arange(400) % 2, 0.005, 0.0), intended + 0.015)
    assert waited(busy, 1).mean() == pytest.approx(1, abs=0.01)
    assert figures(busy, case("constant:100"), 1, connections=2).late_p99_s == pytest.approx(0.005)
    said = doubts(busy, figures(busy, case("constant:100"), 1), case("constant:100"), LoadConditions(connections=1))
    assert said[0].startswith("100% of the requests found all 1 connections busy: ")


def test_failures_and_repeats_are_said() -> None:
    result = evenly(1000, 0.01, 0.002, lost=(3, 4))
    said = doubts(result, figures(result, case("closed:1"), 1), case("closed:1"), LoadConditions(retries=2))
    assert said == (
        "of 1000 requests 0 were refused and 2 had no answer: percentiles count them as slower than any answer",
        "2 requests were sent twice, as the server had closed their connection: their time is that of both",
    )


def test_too_few_requests_a_slow_harness_and_a_busy_machine_are_said() -> None:
    result = evenly(100, 0.01, 0.002)
    conditions = LoadConditions(load=Load(1.5, 2), harness_per_s=120)
    assert doubts(result, figures(result, case("closed:1"), 1), case("closed:1"), conditions) == (
        "100 requests do not bound a p99: 662 do at 99 % confidence, so measure longer (--load-seconds)",
        "a model that computes nothing gives 120 samples a second in the same way: "
        "the throughput is that of the harness and the protocol",
        "other programs used 1.5 of 2 cores: measure on a quiet machine",
    )
    quiet = LoadConditions(load=Load(0.1, 2), harness_per_s=1000)
    many = evenly(1000, 0.01, 0.002)
    assert doubts(many, figures(many, case("closed:1"), 1), case("closed:1"), quiet) == ()
