"""Interleaved rounds, over subjects that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from transload.models.errors import SessionLost
from transload.pipeline.measure.bench.rounds import MOST_ROUNDS, Pair, RoundsPlan, Series, empty_series, run_rounds


class Bench:
    """The order in which subjects were asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []


class Fake:
    """Takes `call_s` for each call; dies in chunk number `dies_at`, counted over all batches."""

    def __init__(
        self, bench: Bench, name: str, call_s: float, dies_at: int = -1, claims_s: float | None = None
    ) -> None:
        self.bench, self.name, self.call_s, self.dies_at = bench, name, call_s, dies_at
        self.claims_s = call_s if claims_s is None else claims_s
        self.chunks = 0

    def __call__(self, method: str, **options: Any) -> Any:
        return getattr(self, method)(**options)

    def device(self) -> str:
        return "cpu"

    def prepare(self, batch: int) -> Mapping[str, Any]:
        if self.dies_at == -2:
            raise SessionLost("no memory for a batch", fix="a smaller one")
        return {
            "load_s": 1.5, "first_call_s": self.call_s * 10 * batch, "warm_up_s": 0.2, "call_s": self.claims_s,
            "timer_s": 1e-7, "resident_bytes": 1000, "answers": {"outputs": [[1.0]], "shapes": [[batch, 1]]},
        }  # fmt: skip

    def chunk(self, batch: int, calls: int) -> Mapping[str, Any]:
        self.chunks += 1
        if self.chunks == self.dies_at:
            raise SessionLost(f"{self.name} died", fix="read its log")
        self.bench.asked.append((self.name, batch, calls))
        return {"samples_s": [self.call_s] * calls}


def run(bench: Bench, fakes: list[Fake], plan: RoundsPlan, seed: int = 1) -> list[Series]:
    subjects: dict[Pair, Fake] = {(fake.name, "torch"): fake for fake in fakes}
    series = empty_series(subjects, plan)
    run_rounds(subjects, series, plan, 0, rng=Random(seed))  # noqa: S311  (an order, no secret)
    return [*series.values()]


def orders(bench: Bench, count: int) -> list[tuple[str, ...]]:
    """The order of each round; the calibrating chunk of each subject comes first."""
    names = [name for name, _, _ in bench.asked][count:]
    return [tuple(names[at : at + count]) for at in range(0, len(names), count)]


def test_each_subject_is_asked_once_a_round_in_an_order_that_changes() -> None:
    bench = Bench()
    run(bench, [Fake(bench, name, 0.001) for name in "abc"], RoundsPlan(batches=(1,), rounds=40))
    found = orders(bench, 3)
    assert len(found) == 40
    assert all(sorted(order) == ["a", "b", "c"] for order in found)
    assert len(set(found)) == 6  # all of them; the seed is fixed


def test_the_order_is_the_seeds() -> None:
    made = []
    for seed in (1, 1, 2):
        bench = Bench()
        run(bench, [Fake(bench, name, 0.001) for name in "abc"], RoundsPlan(batches=(1,), rounds=20), seed)
        made.append(orders(bench, 3))
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize(("call_s", "calls"), [(0.001, 20), (0.0003, 67), (0.5, 1), (0.019, 2)])
def test_a_chunk_lasts_20_ms_or_one_call(call_s: float, calls: int) -> None:
    bench = Bench()
    (series,) = run(bench, [Fake(bench, "a", call_s)], RoundsPlan(batches=(1,), rounds=2))
    assert series.processes[0].calls == calls
    assert all(samples.sum() >= 0.02 - 1e-12 for samples in series.chunks)


def test_a_chunk_that_turns_out_short_is_made_longer_and_not_kept() -> None:
    bench = Bench()
    (series,) = run(bench, [Fake(bench, "a", 0.0001, claims_s=0.01)], RoundsPlan(batches=(1,), rounds=3))
    calls = series.processes[0].calls
    assert calls * 0.0001 >= 0.02
    assert [len(samples) for samples in series.chunks] == [calls] * 3


def test_all_samples_are_kept_by_round() -> None:
    bench = Bench()
    found = run(bench, [Fake(bench, "a", 0.01), Fake(bench, "b", 0.02)], RoundsPlan(batches=(1, 8), rounds=7))
    assert [(one.pair[0], one.batch) for one in found] == [("a", 1), ("b", 1), ("a", 8), ("b", 8)]
    assert all(sorted(one.processes[0].rounds) == list(range(7)) for one in found)
    assert [len(one.samples_s) for one in found] == [14, 7, 14, 7]
    assert [one.processes[0].first_call_s for one in found] == pytest.approx([0.1, 0.2, 0.8, 1.6])


def test_a_subject_that_dies_is_out_and_the_others_go_on() -> None:
    bench = Bench()
    found = run(
        bench,
        [Fake(bench, "a", 0.01), Fake(bench, "b", 0.01, dies_at=4), Fake(bench, "c", 0.01)],
        RoundsPlan(batches=(1, 8), rounds=6),
    )
    by_key = {(one.pair[0], one.batch): one for one in found}
    assert by_key["b", 1].lost == "b died"
    assert len(by_key["b", 1].chunks) == 2  # what it gave before is kept; the first chunk calibrated
    assert by_key["b", 8].lost == "b died"
    assert not by_key["b", 8].chunks
    for name in "ac":
        for batch in (1, 8):
            assert len(by_key[name, batch].chunks) == 6
            assert by_key[name, batch].lost is None


def test_a_subject_that_cannot_be_prepared_is_out() -> None:
    bench = Bench()
    lost, kept = run(bench, [Fake(bench, "a", 0.01, dies_at=-2), Fake(bench, "b", 0.01)], RoundsPlan((1,), rounds=5))
    assert (lost.lost, lost.device, lost.processes) == ("no memory for a batch", "cpu", {})
    assert len(kept.chunks) == 5


def test_nobody_left_ends_the_rounds() -> None:
    bench = Bench()
    (series,) = run(bench, [Fake(bench, "a", 0.01, dies_at=2)], RoundsPlan((1,), rounds=50))
    assert series.lost == "a died"
    assert not series.chunks


def test_progress_counts_rounds() -> None:
    bench, seen = Bench(), []
    plan = RoundsPlan((1, 8), rounds=2)
    run_rounds(
        {("a", "torch"): Fake(bench, "a", 0.01)},
        empty_series([("a", "torch")], plan),
        plan,
        0,
        rng=Random(0),  # noqa: S311
        progress=lambda batch, done: seen.append((batch, done)),
    )
    assert seen == [(1, 1), (1, 2), (8, 1), (8, 2)]


def test_each_set_of_processes_adds_to_the_series_and_asks_only_whom_it_is_given() -> None:
    bench, plan = Bench(), RoundsPlan(batches=(1,), rounds=3)
    a, b = ("a", "torch"), ("b", "torch")
    series = empty_series([a, b], plan)
    subjects = {pair: Fake(bench, pair[0], 0.01) for pair in (a, b)}
    run_rounds(subjects, series, plan, 0, rng=Random(0))  # noqa: S311
    run_rounds({a: subjects[a]}, series, plan, 1, rng=Random(0))  # noqa: S311
    assert (sorted(series[a, 1].processes), sorted(series[b, 1].processes)) == ([0, 1], [0])
    assert len(series[a, 1].samples_s) == 12
    facts = series[a, 1].processes[1]
    assert (facts.load_s, facts.warm_up_s, facts.steady_bytes) == (1.5, 0.2, 1000)


@pytest.mark.parametrize(("measuring_s", "rounds"), [(0.0, 3), (2.0, 7), (1000.0, MOST_ROUNDS)])
def test_rounds_go_on_for_the_time_that_there_is(measuring_s: float, rounds: int) -> None:
    bench, plan = Bench(), RoundsPlan(batches=(1, 8), rounds=3, measuring_s=measuring_s)
    series = empty_series([("a", "torch")], plan)
    seconds = iter(range(10_000))
    run_rounds(
        {("a", "torch"): Fake(bench, "a", 0.01)}, series, plan, 0,
        rng=Random(0), clock=lambda: 0.2 * next(seconds),  # noqa: S311
    )  # fmt: skip
    assert [len(one.chunks) for one in series.values()] == [rounds, rounds]


@pytest.mark.parametrize("wrong", [{"batches": ()}, {"batches": (0,)}, {"rounds": 0}, {"chunk_s": 0.0}])
def test_a_plan_of_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a plan needs"):
        RoundsPlan(**wrong)


def test_the_energy_of_a_call_is_read_around_a_second_of_calls_alone() -> None:
    bench, watts = Bench(), {"a": 300.0, "b": 100.0}

    def energy_j(device: str) -> float | None:
        """All that was asked so far, at each subject's power."""
        return sum(calls * 0.01 * watts[name] for name, _, calls in bench.asked) if device == "cpu" else None

    fakes = {(name, "torch"): Fake(bench, name, 0.01) for name in "ab"}
    plan = RoundsPlan(batches=(1,), rounds=3)
    series = empty_series(fakes, plan)
    run_rounds(fakes, series, plan, 0, rng=Random(1), energy_j=energy_j)  # noqa: S311  (an order, no secret)
    assert [entry.processes[0].energy_j for entry in series.values()] == pytest.approx([3.0, 1.0])
    assert [calls for _, _, calls in bench.asked[-2:]] == [100, 100]
    assert [len(entry.samples_s) for entry in series.values()] == [6, 6]  # the calls for it are no samples


def test_without_a_counter_nothing_more_is_asked() -> None:
    bench = Bench()
    (entry,) = run(bench, [Fake(bench, "a", 0.01)], RoundsPlan(batches=(1,), rounds=3))
    assert entry.processes[0].energy_j is None
    assert len(bench.asked) == 4  # one chunk to calibrate
