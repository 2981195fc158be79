"""What may be said of the ratio of two series, and how often it is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from transload.models.signature import Array
from transload.pipeline.measure.bench.comparison import LOOKS, compare, compare_logs, log_ratios
from transload.pipeline.measure.bench.rounds import ProcessSamples, Series
from transload.pipeline.result.ratio import Comparison, Ratio

TIMES = st.floats(1e-6, 10.0)
TABLE = arrays(np.float64, (4, 5, 3), elements=TIMES)  # processes, rounds, calls


def series(table: Array) -> Series:
    processes = {number: ProcessSamples(rounds=dict(enumerate(part))) for number, part in enumerate(table)}
    return Series(("a", "torch"), 1, processes=processes)


def compared(candidate: Array, reference: Array) -> Ratio:
    ratio = compare(series(candidate), series(reference))
    assert ratio is not None
    return ratio


@given(x=TABLE, y=TABLE, scale=st.sampled_from([0.25, 3.0, 1024.0]))
def test_a_slower_clock_changes_no_ratio(x: Array, y: Array, scale: float) -> None:
    plain, scaled = compared(x, y), compared(x * scale, y * scale)
    assert scaled.center == pytest.approx(plain.center)
    assert scaled.ci95 == pytest.approx(plain.ci95)


@given(x=TABLE, y=TABLE)
def test_exchanging_the_sides_inverts_the_ratio(x: Array, y: Array) -> None:
    there, back = compared(x, y), compared(y, x)
    assert there.center == pytest.approx(1 / back.center)
    opposite = {Comparison.FASTER: Comparison.SLOWER, Comparison.SLOWER: Comparison.FASTER}
    assert there.comparison is opposite.get(back.comparison, back.comparison)


@given(x=TABLE, y=TABLE, slow=arrays(np.float64, (4, 5), elements=st.floats(0.1, 10)))
def test_what_slows_a_whole_round_leaves_the_ratio_alone(x: Array, y: Array, slow: Array) -> None:
    calm, busy = compared(x, y), compared(x * slow[..., None], y * slow[..., None])
    assert busy.center == pytest.approx(calm.center)


@given(x=TABLE)
def test_a_series_against_itself_is_the_same(x: Array) -> None:
    ratio = compared(x, x)
    assert (ratio.center, ratio.ci95, ratio.comparison) == (1.0, (1.0, 1.0), Comparison.SAME)


def test_only_common_rounds_and_processes_are_paired() -> None:
    x, y = series(np.full((5, 6, 2), 2.0)), series(np.full((5, 6, 2), 1.0))
    y.processes[0].rounds[0] = np.array([100.0, 100.0])
    del x.processes[0].rounds[0]
    del x.processes[4]
    assert np.exp(log_ratios(x, y)) == pytest.approx([2.0] * 4)
    assert compare(series(np.ones((0, 1, 1))), y) is None


def test_two_processes_give_no_interval() -> None:
    ratio = compared(np.full((2, 6, 2), 2.0), np.ones((2, 6, 2)))
    assert (ratio.center, ratio.ci95, ratio.comparison) == (2.0, None, Comparison.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("center", "spread", "comparison"),
    [
        (0.0, 0.001, Comparison.SAME),
        (0.01, 0.001, Comparison.SAME),  # certainly slower, and by less than anybody asks for
        (0.05, 0.005, Comparison.SLOWER),
        (-0.05, 0.005, Comparison.FASTER),
        (0.0, 0.05, Comparison.INCONCLUSIVE),
        (0.02, 0.02, Comparison.INCONCLUSIVE),
    ],
)
def test_the_verdict_is_that_of_the_interval(center: float, spread: float, comparison: Comparison) -> None:
    ratio = compare_logs(np.array([center + spread * z for z in (-1.5, -1, -0.5, 0, 0, 0.5, 1, 1.5)]))
    assert ratio is not None
    assert ratio.comparison is comparison
    assert (ratio.settling_processes is None) is (comparison is not Comparison.INCONCLUSIVE)


def test_an_open_comparison_estimates_what_would_settle_it() -> None:
    rng = np.random.default_rng(3)
    few = compare_logs(rng.normal(0.05, 0.04, 5))
    assert few is not None
    assert few.settling_processes is not None
    more = compare_logs(rng.normal(0.05, 0.04, 4 * few.settling_processes))
    assert more is not None
    assert more.comparison is Comparison.SLOWER


@pytest.mark.parametrize("slower", [1.0, 1.3])
def test_the_interval_covers_the_truth_in_95_percent_where_processes_differ(slower: float) -> None:
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(400):
        born = rng.normal(0, 0.03, size=(2, 8, 1, 1))  # what a process is born with, and keeps in all rounds
        table = 1e-3 * np.exp(born + rng.normal(0, 0.02, size=(2, 8, 6, 9)))
        ratio = compared(slower * table[0], table[1])
        assert ratio.ci95 is not None
        hits += ratio.ci95[0] <= slower <= ratio.ci95[1]
    assert 0.92 <= hits / 400 <= 0.98


@pytest.mark.slow
def test_looking_again_and_again_raises_few_false_alarms() -> None:
    rng = np.random.default_rng(7)
    alarms = 0
    for _ in range(1000):
        logs = rng.normal(0, 0.02, size=LOOKS[-1])
        verdicts = (compare_logs(logs[:look]) for look in LOOKS)
        settled = (ratio.comparison for ratio in verdicts if ratio and ratio.comparison is not Comparison.INCONCLUSIVE)
        alarms += next(settled, Comparison.SAME) is not Comparison.SAME
    assert alarms <= 20  # of 1000, where 10 are allowed on average
