"""The batch of the largest throughput within a latency bound, over samples that are made up."""

from __future__ import annotations

import numpy as np

from transload.models.signature import parse_input
from transload.pipeline.measure.bench.latency_bound import BoundSearch, best_in_bound, next_batch
from transload.pipeline.measure.bench.rounds import ProcessSamples, Series

OPEN, UP_TO_6 = ((parse_input(f"x=float32[{batch},4]"),) for batch in ("batch", "batch=1..6"))


def series(batch: int, seconds: float, lost: str | None = None) -> Series:
    samples = ProcessSamples(rounds={0: np.full(1000, seconds)})
    return Series(("onnx", "onnxruntime"), batch, processes={0: samples}, lost=lost)


def test_sizes_double_until_the_bound_is_broken() -> None:
    search = BoundSearch(0.010)
    asked = []
    while (batch := next_batch(search, OPEN)) is not None:
        asked.append(batch)
        search = search.add(batch, series(batch, 0.002 + 0.001 * batch))
    assert asked == [1, 2, 4, 8, 16]
    best, reason = best_in_bound(search)
    assert best is not None
    assert (best.batch, round(best.throughput_per_s)) == (8, 800)
    assert reason == "at batch 16 its p99 reaches 18 ms"


def test_the_largest_batch_need_not_be_the_best() -> None:
    search = BoundSearch(1.0).add(1, series(1, 0.001)).add(2, series(2, 0.003))
    best, _ = best_in_bound(search)
    assert best is not None
    assert best.batch == 1


def test_sizes_stay_within_what_the_model_takes() -> None:
    search = BoundSearch(1.0)
    asked = []
    while (batch := next_batch(search, UP_TO_6)) is not None:
        asked.append(batch)
        search = search.add(batch, series(batch, 0.001))
    assert asked == [1, 2, 4, 6]


def test_a_bound_that_one_sample_breaks_has_no_batch() -> None:
    assert best_in_bound(BoundSearch(0.001).add(1, series(1, 0.002))) == (None, "at batch 1 its p99 reaches 2 ms")


def test_a_batch_that_is_lost_ends_the_search() -> None:
    search = BoundSearch(1.0).add(1, series(1, 0.001)).add(2, series(2, 0.001, lost="no memory"))
    assert next_batch(search, OPEN) is None
    best, reason = best_in_bound(search)
    assert best is not None
    assert (best.batch, reason) == (1, "it was lost at batch 2: no memory")
