"""Numbers from samples, and their doubts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from transload.models.signature import Array
from transload.pipeline.bench.rounds import Series
from transload.pipeline.bench.statistics import Load, doubts, ratio, summary

TIMES = st.floats(1e-6, 10.0)
TABLE = arrays(np.float64, (8, 5), elements=TIMES)  # rounds, calls


def series(table: Array, name: str = "a", **facts: float) -> Series:
    made = Series((name, "torch"), 1, rounds={at: np.asarray(row) for at, row in enumerate(table)})
    return replace(made, **facts)  # type: ignore[arg-type]


def noisy(rng: np.random.Generator, rounds: int, slower: float = 1.0) -> Array:
    """Calls with a noise of their own, log-normal as latencies are."""
    return np.asarray(slower * 1e-3 * np.exp(rng.normal(0, 0.05, size=(rounds, 9))))


CALM = np.random.default_rng(5).normal(1e-3, 1e-5, size=(30, 40))


def test_percentiles_and_throughput_of_known_samples() -> None:
    found = summary(np.arange(101) / 100, batch=8)
    assert (found.p50_s, found.p90_s, found.p99_s) == pytest.approx((0.5, 0.9, 0.99))
    assert found.throughput_per_s == pytest.approx(8 / 0.5)


@given(samples=arrays(np.float64, 30, elements=TIMES), order=st.permutations(range(30)))
def test_the_order_of_samples_does_not_matter(samples: Array, order: list[int]) -> None:
    one, other = summary(samples, 1), summary(samples[order], 1)
    assert (one.p50_s, one.p90_s, one.p99_s) == (other.p50_s, other.p90_s, other.p99_s)
    assert one.throughput_per_s == pytest.approx(other.throughput_per_s, rel=1e-12)
    assert one.p50_s <= one.p90_s <= one.p99_s


@given(x=TABLE, y=TABLE, scale=st.sampled_from([0.25, 3.0, 1024.0]))
def test_a_slower_clock_changes_no_ratio(x: Array, y: Array, scale: float) -> None:
    plain, scaled = (ratio(series(x * s), series(y * s)) for s in (1.0, scale))
    assert plain is not None
    assert scaled is not None
    assert scaled[0] == pytest.approx(plain[0])
    assert scaled[1] == pytest.approx(plain[1])


@given(x=TABLE, y=TABLE)
def test_exchanging_the_sides_inverts_the_ratio(x: Array, y: Array) -> None:
    there, back = ratio(series(x), series(y)), ratio(series(y), series(x))
    assert there is not None
    assert back is not None
    assert there[0] == pytest.approx(1 / back[0])


@given(x=TABLE, y=TABLE, slow=arrays(np.float64, 8, elements=st.floats(0.1, 10)))
def test_what_slows_a_whole_round_leaves_the_ratio_alone(x: Array, y: Array, slow: Array) -> None:
    calm, busy = ratio(series(x), series(y)), ratio(series(x * slow[:, None]), series(y * slow[:, None]))
    assert calm is not None
    assert busy is not None
    assert busy[0] == pytest.approx(calm[0])


@given(x=TABLE, y=TABLE, order=st.permutations(range(8)))
def test_the_order_of_rounds_does_not_change_the_ratio(x: Array, y: Array, order: list[int]) -> None:
    one, other = ratio(series(x), series(y)), ratio(series(x[order]), series(y[order]))
    assert one is not None
    assert other is not None
    assert other[0] == pytest.approx(one[0])


@given(x=TABLE)
def test_the_reference_against_itself_is_exactly_1(x: Array) -> None:
    assert ratio(series(x), series(x)) == (1.0, (1.0, 1.0))


@pytest.mark.parametrize("slower", [1.0, 1.3])
def test_the_interval_of_the_ratio_covers_the_truth_in_about_95_percent(slower: float) -> None:
    rng = np.random.default_rng(11)
    hits = 0
    for draw in range(400):
        found = ratio(series(noisy(rng, 25, slower)), series(noisy(rng, 25)), seed=draw)
        assert found is not None
        assert found[1] is not None
        hits += found[1][0] <= slower <= found[1][1]
    assert 0.91 <= hits / 400 <= 0.985


def test_only_common_rounds_are_paired() -> None:
    x, y = series(np.full((6, 2), 2.0)), series(np.full((9, 2), 1.0))
    y.rounds[0] = np.array([100.0, 100.0])
    del x.rounds[0]
    assert ratio(x, y) == (2.0, (2.0, 2.0))
    assert ratio(y, x) == (0.5, (0.5, 0.5))
    assert ratio(series(np.ones((0, 1))), y) is None
    assert ratio(series(np.full((4, 2), 2.0)), series(np.ones((4, 2)))) == (2.0, None)


def test_a_calm_series_has_no_doubts() -> None:
    assert doubts(series(CALM), (0.99, 1.01), load=Load(0.5, 2)) == ()


def two_heaps() -> Array:
    table = CALM.copy()
    table[:, ::2] *= 1.09
    return table


DOUBTS: list[tuple[Series, dict[str, object], str]] = [
    (
        series(CALM[:, :2]),
        {},
        "a p99 from 60 calls is a guess: 662 bound it at 99 % confidence, so measure more rounds",
    ),
    (
        series(np.random.default_rng(1).uniform(1e-3, 2e-3, size=(30, 40))),
        {},
        "the middle half of the calls spreads over 33% of the median: close other programs",
    ),
    (
        series(two_heaps()),
        {},
        "the calls fall in two heaps, 1 and 1.09 ms: a median tells of neither, "
        "so look for a clock or a thread that switches",
    ),
    (
        series(CALM * np.linspace(1, 1.08, 30)[:, None]),
        {},
        "the rounds drift by +8% from first to last: let the machine come to rest and measure longer",
    ),
    (
        series(CALM, timer_s=3e-5),
        {},
        "reading the clock is 3.0% of a call: compare ratios and not microseconds, or use a larger batch",
    ),
    (
        series(CALM, first_call_s=0.4),
        {},
        "the first call took 0.40 s, 400 times the median: warm it up before use",
    ),
    (
        series(CALM.reshape(4, 300)),
        {},
        "4 rounds give no interval: measure at least 5",
    ),
    (
        series(CALM),
        {"interval": (0.9, 1.2)},
        "the ratio lies anywhere in 0.90 to 1.20: measure more rounds on a quiet machine",
    ),
    (
        series(CALM),
        {"load": Load(1.6, 4)},
        "other programs used 1.6 of 4 cores: measure on a quiet machine",
    ),
]


@pytest.mark.parametrize(("measured", "facts", "words"), DOUBTS)
def test_each_doubt_has_its_number_and_its_remedy(measured: Series, facts: dict[str, object], words: str) -> None:
    assert doubts(measured, **facts) == (words,)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["normal", "uniform", "exponential", "lognormal"])
def test_one_heap_is_not_called_two(kind: str) -> None:
    rng = np.random.default_rng(2)
    samples = {
        "normal": rng.normal(1, 0.1, 3000),
        "uniform": rng.uniform(1, 2, 3000),
        "exponential": 1 + rng.exponential(1, 3000),
        "lognormal": np.exp(rng.normal(0, 0.5, 3000)),
    }[kind]
    assert not [doubt for doubt in doubts(series(samples.reshape(30, 100))) if "heaps" in doubt]


def test_rounds_that_jump_about_have_no_trend() -> None:
    jumps = np.array([1.0, 1.4, 1.1, 1.3, 1.0, 1.4, 1.2, 1.3])  # rises by more than 5 %, and could by chance
    found = doubts(series(jumps[:, None] * np.full((8, 100), 1e-3)))
    assert not [doubt for doubt in found if "drift" in doubt]


def test_nothing_measured_is_doubted_elsewhere() -> None:
    assert doubts(series(np.ones((0, 1)))) == ()


def test_a_clock_that_reads_0_does_no_harm() -> None:
    still = series(np.zeros((30, 40)))
    assert summary(still.samples_s, 1).p50_s == 0
    assert ratio(still, still) == (1.0, (1.0, 1.0))
    assert isinstance(doubts(still), tuple)
