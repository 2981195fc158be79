"""Operators that take rows to places, where tf2onnx's way loses numbers, or makes more of them than there are.

ScatterNd         what has one place is added up in TensorFlow; it let the last stand, and reports success
Segment...        it fills a table with as many columns as the largest segment has rows, and leaves its own neutral
UnsortedSegment.. numbers where there are none

Rows go by ScatterElements: with several threads ONNX Runtime 1.31 loses some of a ScatterND that adds up 100,000.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .graph_writer import Compute, Writer

_INT64, _BOOL = 7, 9  # onnx.TensorProto


@dataclass(frozen=True)
class _Rows:
    """So many rows (`count`, a number) of a shape (`rest`, a vector), and a place for each that is to come there.
    `places`: of any shape."""

    w: Writer
    places: str
    count: str
    rest: str

    def of(self, values: str, start: str, reduction: str = "none") -> str:
        """The rows, filled with `start`, and with `values` taken to their places. Their first axes are the places'."""
        w = self.w
        n = w.vector(w.call("Size", self.places))
        begun = w.call("Expand", start, w.joined(w.vector(self.count), self.rest))
        values = w.reshaped(values, w.joined(n, self.rest))
        at = w.call("Expand", w.reshaped(self.places, w.joined(n, self.ones)), w.call("Shape", values))
        return w.call("ScatterElements", begun, at, values, axis=0, reduction=reduction)

    @property
    def ones(self) -> str:
        """A vector with a 1 for each axis of a row."""
        return self.w.call("Expand", self.w.constant([1]), self.w.call("Shape", self.rest))

    @property
    def lengths(self) -> str:
        """How many come to each row, with as many axes as the rows have."""
        w, ones = self.w, self.ones
        each = w.call("Expand", w.constant(np.int64(1)), w.joined(w.call("Shape", self.places), ones))
        return _Rows(w, self.places, self.count, ones).of(each, w.constant(np.int64(0)), "add")


def _scatter_nd(w: Writer, indices: str, updates: str, shape: str) -> str:
    """Zeros of `shape`, with each of the updates added at its place."""
    shape, indices = w.cast(shape, _INT64), w.cast(indices, _INT64)
    known = w.graph.get_shape(w.node.input[0])
    depth = known[-1] if known else -1
    w.require(depth >= 0, "ScatterNd with indices of a length that is not known")
    place = w.call("Expand", w.constant(np.int64(0)), w.slice(w.call("Shape", indices), 0, -1))
    count = w.constant(np.int64(1))
    for at in range(depth):
        size, along = w.pick(shape, at), w.call("Gather", indices, w.constant(np.int64(at)), axis=-1)
        place, count = w.call("Add", w.mul(place, size), along), w.mul(count, size)
    rows = _Rows(w, place, count, w.slice(shape, depth))
    is_sum = w.graph.get_dtype(updates) != _BOOL
    return w.reshaped(rows.of(updates, w.number(0), "add" if is_sum else "none"), shape)


def _sorted_rows(w: Writer, ids: str, data: str) -> _Rows:
    """As many rows as the largest id says."""
    ids = w.cast(ids, _INT64)
    last = w.call("ReduceMax", w.joined(w.constant([-1]), ids), keepdims=0)
    return _Rows(w, ids, w.call("Add", last, w.constant(np.int64(1))), w.call("Shape", data, start=1))


def _segments(reduction: str, start: str) -> Compute:
    """Rows of one segment in one, by sorted ids; 0 where there are none, of a product 1."""

    def compute(w: Writer, data: str, ids: str) -> str:
        rows = _sorted_rows(w, ids, data)
        found = rows.of(data, w.number(w.ends(endless=True)[start]), reduction)
        if start in ("0", "1"):
            return found
        return w.call("Where", w.call("Equal", rows.lengths, w.constant(np.int64(0))), w.number(0), found)

    return compute


def _segment_mean(w: Writer, data: str, ids: str) -> str:
    """The sum of each segment through the number of its rows; 0 where it has none."""
    rows = _sorted_rows(w, ids, data)
    lengths = w.call("Max", rows.lengths, w.constant(np.int64(1)))
    return w.call("Div", rows.of(data, w.number(0), "add"), w.like(lengths, data))


def _unsorted_segments(reduction: str, start: str) -> Compute:
    """Rows of one segment in one. A segment without any is what `start` is, the least or the largest number that is
    finite; what has no segment, by an id below 0, goes to one row more, which is cut off."""

    def compute(w: Writer, data: str, ids: str, count: str) -> str:
        rank = w.graph.get_rank(ids)
        w.require(rank is not None, "segments whose ids are of a rank that is not known")
        ids, count = w.cast(ids, _INT64), w.cast(count, _INT64)
        places = w.call("Where", w.call("Less", ids, w.constant(np.int64(0))), count, ids)
        more = w.call("Add", count, w.constant(np.int64(1)))
        rows = _Rows(w, places, more, w.call("Shape", data, start=rank))
        return w.slice(rows.of(data, w.number(w.ends(endless=False)[start]), reduction), 0, w.vector(count))

    return compute


_REDUCTIONS = {"Sum": ("add", "0"), "Prod": ("mul", "1"), "Max": ("max", "low"), "Min": ("min", "high")}
SEGMENTS: Mapping[str, Compute] = {
    "ScatterNd": _scatter_nd,
    "SegmentMean": _segment_mean,
    **{f"Segment{name}": _segments(*how) for name, how in _REDUCTIONS.items()},
    **{f"UnsortedSegment{name}": _unsorted_segments(*how) for name, how in _REDUCTIONS.items()},
}
