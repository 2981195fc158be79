"""The batch size of the largest throughput whose p99 keeps a latency bound: doubled until the bound is broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....models.probes.sizes import batches_within
from ....models.signature import TensorSpec
from .rounds import Series
from .statistics import summary

LARGEST_BATCH = 1024


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """One batch size: its p99, with the upper end of its interval where there are samples enough."""

    batch: int
    p99_s: float
    p99_high_s: float
    throughput_per_s: float


@dataclass(frozen=True, slots=True)
class BoundSearch:
    """The batch sizes measured so far, in order, and the sentence of what ended the search."""

    bound_s: float
    measured: tuple[MeasuredBatch, ...] = ()
    ended: str | None = None

    def add(self, batch: int, series: Series) -> BoundSearch:
        """Return the search with one more batch size."""
        if series.lost is not None or not len(series.samples_s):
            return replace(self, ended=f"it was lost at batch {batch}: {series.lost or 'no samples'}")
        figures = summary(series.samples_s, batch)
        high_s = figures.p99_ci95[1] if figures.p99_ci95 else figures.p99_s
        size = MeasuredBatch(batch, figures.p99_s, high_s, figures.throughput_per_s)
        ended = f"at batch {batch} its p99 reaches {high_s * 1e3:.3g} ms" if high_s > self.bound_s else None
        return replace(self, measured=(*self.measured, size), ended=ended)


def next_batch(search: BoundSearch, specs: Sequence[TensorSpec]) -> int | None:
    """Return the next batch size to measure: twice the last one, as far as the model takes it; None at the end."""
    if search.ended is not None:
        return None
    last = search.measured[-1].batch if search.measured else 0
    wanted = max(1, 2 * last)
    if wanted > LARGEST_BATCH:
        return None
    (batch,) = batches_within(specs, (wanted,))
    return batch if batch > last else None


def best_in_bound(search: BoundSearch) -> tuple[MeasuredBatch | None, str]:
    """Return the batch size of the largest throughput among those that keep the bound, and why no larger one."""
    within = [size for size in search.measured if size.p99_high_s <= search.bound_s]
    end = search.ended or "the model takes no larger batch, or the search no larger one"
    return max(within, key=lambda size: size.throughput_per_s, default=None), end
