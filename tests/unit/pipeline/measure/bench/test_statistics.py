"""Numbers from samples, and their doubts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from transload.models.signature import Array
from transload.pipeline.measure.bench.rounds import ProcessSamples, Series
from transload.pipeline.measure.bench.statistics import Load, find_doubts, summary
from transload.pipeline.measure.bench.throttling import Throttling
from transload.pipeline.result.doubt_kinds import DoubtKind, LatencyDoubt

TIMES = st.floats(1e-6, 10.0)


def series(table: Array, processes: int = 3, **facts: float) -> Series:
    """The rows of a table are chunks, in turn those of each process."""
    parts = np.array_split(np.asarray(table), processes)
    made = {number: ProcessSamples(rounds=dict(enumerate(part)), **facts) for number, part in enumerate(parts)}  # type: ignore[arg-type]
    return Series(("a", "torch"), 1, processes=made)


def texts(doubts: tuple[LatencyDoubt, ...]) -> tuple[str, ...]:
    return tuple(doubt.text for doubt in doubts)


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


def test_a_calm_series_has_no_doubts() -> None:
    assert find_doubts(series(CALM), (0.99, 1.01), load=Load(0.5, 2), throttling=Throttling(20.0, 0.1)) == ()


def two_heaps() -> Array:
    table = CALM.copy()
    table[:, ::2] *= 1.09
    return table


DOUBTS: list[tuple[Series, dict[str, object], str]] = [
    (
        series(CALM[:, :2]),
        {},
        "a p99 from 60 calls is a guess: 662 bound it at 99 % confidence, so measure longer",
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
        series(CALM, processes=2),
        {},
        "2 processes give no interval: use --processes 3, or more",
    ),
    (
        series(CALM),
        {"interval": (0.9, 1.2)},
        "the 95 % interval of the ratio is 33% wide: measure longer (--budget), on a quiet machine",
    ),
    (
        series(CALM),
        {"load": Load(1.6, 4)},
        "other programs used 1.6 of 4 cores: measure on a quiet machine",
    ),
    (
        series(CALM),
        {"throttling": Throttling(20.0, held_s=0.8, quota_cores=1.5)},
        "the container's limit of 1.5 cores held the processes back for 0.8 s of 20 s: raise it, or use fewer threads",
    ),
    (
        series(CALM),
        {"throttling": Throttling(20.0, heat_events=12)},
        "the processors lowered their clocks for heat 12 times: cool them better",
    ),
    (
        series(CALM),
        {"throttling": Throttling(20.0, clock_fall=0.18)},
        "the clock fell by 18% during the rounds: fix the processor's frequency",
    ),
    (
        series(CALM),
        {"throttling": Throttling(20.0, gpu_held_s=5.0)},
        "heat or power held the GPU's clock down in 25% of the time: fix its clock, or cool more",
    ),
]


@pytest.mark.parametrize(("measured", "facts", "words"), DOUBTS)
def test_each_doubt_has_its_number_and_its_remedy(measured: Series, facts: dict[str, object], words: str) -> None:
    assert texts(find_doubts(measured, **facts)) == (words,)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["normal", "uniform", "exponential", "lognormal"])
def test_one_heap_is_not_called_two(kind: str) -> None:
    rng = np.random.default_rng(2)
    samples = {
        "normal": rng.normal(1, 0.1, 3000),
        "uniform": rng.uniform(1, 2, 3000),
        "exponential": 1 + rng.exponential(1, 3000),
        "lognormal": np.exp(rng.normal(0, 0.5, 3000)),
    }[kind]
    assert not [doubt for doubt in find_doubts(series(samples.reshape(30, 100))) if doubt.kind is DoubtKind.TWO_MODES]


def test_rounds_that_jump_about_have_no_trend() -> None:
    jumps = np.array([1.0, 1.4, 1.1, 1.3, 1.0, 1.4, 1.2, 1.3])  # rises by more than 5 %, and could by chance
    found = find_doubts(series(jumps[:, None] * np.full((8, 100), 1e-3)))
    assert not [doubt for doubt in found if doubt.kind is DoubtKind.DRIFT]


def test_nothing_measured_is_doubted_elsewhere() -> None:
    assert find_doubts(series(np.ones((0, 1)))) == ()


def test_a_clock_that_reads_0_does_no_harm() -> None:
    still = series(np.zeros((30, 40)))
    assert summary(still.samples_s, 1).p50_s == 0
    assert isinstance(find_doubts(still), tuple)


def test_the_weightiest_doubt_comes_first() -> None:
    found = find_doubts(series(CALM[:, :2], first_call_s=0.4), (0.9, 1.2), load=Load(1.6, 4))
    assert [doubt.kind for doubt in found] == [
        DoubtKind.OTHER_LOAD, DoubtKind.WIDE_RATIO, DoubtKind.FEW_CALLS, DoubtKind.FIRST_CALL,
    ]  # fmt: skip
