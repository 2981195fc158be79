"""Operators that take rows to places, where tf2onnx loses numbers, or writes more rows than there are.

Rows go by ScatterElements: with several threads ONNX Runtime 1.31 loses some of a ScatterND that adds up 100,000.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..ledger import handlers
from .graph_writer import INT64, Compute, NodeWriter, computed

_BOOL = 9  # of onnx.TensorProto


@dataclass(frozen=True)
class _RowTable:
    """`count` rows (a number) of the shape `rest` (a vector), and the row that each value goes to.

    `places`: of any shape.
    """

    w: NodeWriter
    places: str
    count: str
    rest: str

    def filled(self, values: str, start: str, reduction: str = "none") -> str:
        """Return the rows, filled with `start`, after `values` went to their places.

        The first axes of the values are those of the places.
        """
        w = self.w
        n = w.vector(w.call("Size", self.places))
        table = w.call("Expand", start, w.joined(w.vector(self.count), self.rest))
        values = w.reshaped(values, w.joined(n, self.rest))
        at = w.call("Expand", w.reshaped(self.places, w.joined(n, self.ones)), w.call("Shape", values))
        return w.call("ScatterElements", table, at, values, axis=0, reduction=reduction)

    @property
    def ones(self) -> str:
        """A vector with a 1 for each axis of a row."""
        return self.w.call("Expand", self.w.constant([1]), self.w.call("Shape", self.rest))

    @property
    def lengths(self) -> str:
        """The number of values that go to each row, with as many axes as the rows have."""
        w, ones = self.w, self.ones
        units = w.call("Expand", w.constant(np.int64(1)), w.joined(w.call("Shape", self.places), ones))
        return _RowTable(w, self.places, self.count, ones).filled(units, w.constant(np.int64(0)), "add")


def _scatter_nd(w: NodeWriter, indices: str, updates: str, shape: str) -> str:
    """Add the updates at their places to zeros of `shape`."""
    shape, indices = w.cast(shape, INT64), w.cast(indices, INT64)
    known = w.graph.get_shape(w.node.input[0])
    depth = known[-1] if known else -1
    w.require(depth >= 0, "ScatterNd with indices of a length that is not known")
    place = w.call("Expand", w.constant(np.int64(0)), w.slice(w.call("Shape", indices), 0, -1))
    count = w.constant(np.int64(1))
    for at in range(depth):
        size, along = w.pick(shape, at), w.call("Gather", indices, w.constant(np.int64(at)), axis=-1)
        place, count = w.call("Add", w.mul(place, size), along), w.mul(count, size)
    rows = _RowTable(w, place, count, w.slice(shape, depth))
    is_sum = w.graph.get_dtype(updates) != _BOOL
    return w.reshaped(rows.filled(updates, w.number(0), "add" if is_sum else "none"), shape)


def _sorted_rows(w: NodeWriter, ids: str, data: str) -> _RowTable:
    """Return a table of as many rows as the largest id asks for."""
    ids = w.cast(ids, INT64)
    last = w.call("ReduceMax", w.joined(w.constant([-1]), ids), keepdims=0)
    return _RowTable(w, ids, w.call("Add", last, w.constant(np.int64(1))), w.call("Shape", data, start=1))


def _segments(reduction: str, start: str) -> Compute:
    """Return the function that reduces the rows of a segment, by sorted ids; 0 without rows, of a product 1."""

    def compute(w: NodeWriter, data: str, ids: str) -> str:
        rows = _sorted_rows(w, ids, data)
        reduced = rows.filled(data, w.number(w.limits(infinite=True)[start]), reduction)
        if start in ("0", "1"):
            return reduced
        return w.call("Where", w.call("Equal", rows.lengths, w.constant(np.int64(0))), w.number(0), reduced)

    return compute


def _segment_mean(w: NodeWriter, data: str, ids: str) -> str:
    """Divide the sum of each segment by the number of its rows; 0 where it has none."""
    rows = _sorted_rows(w, ids, data)
    lengths = w.call("Max", rows.lengths, w.constant(np.int64(1)))
    return w.call("Div", rows.filled(data, w.number(0), "add"), w.like(lengths, data))


def _unsorted_segments(reduction: str, start: str) -> Compute:
    """Return the function that reduces the rows of a segment, by ids in any order.

    A segment without rows is `start`, the least or the largest finite number. Rows whose id is below 0 have no
    segment: they go to one row more, which is cut off.
    """

    def compute(w: NodeWriter, data: str, ids: str, count: str) -> str:
        rank = w.graph.get_rank(ids)
        if rank is None:
            raise ValueError("segments whose ids are of a rank that is not known is not carried")
        ids, count = w.cast(ids, INT64), w.cast(count, INT64)
        places = w.call("Where", w.call("Less", ids, w.constant(np.int64(0))), count, ids)
        one_more = w.call("Add", count, w.constant(np.int64(1)))
        rows = _RowTable(w, places, one_more, w.call("Shape", data, start=rank))
        return w.slice(rows.filled(data, w.number(w.limits(infinite=False)[start]), reduction), 0, w.vector(count))

    return compute


_REDUCTIONS = {"Sum": ("add", "0"), "Prod": ("mul", "1"), "Max": ("max", "low"), "Min": ("min", "high")}
PATCHES = (
    *handlers(
        {"ScatterNd": computed(_scatter_nd)},
        why="of several updates of one place it keeps the last, and reports success; TensorFlow adds them",
        upstream="tf2onnx/onnx_opset/tensor.py:648",
        until="tf2onnx writes ScatterND with reduction=add, and ONNX Runtime adds up without losing numbers",
    ),
    *handlers(
        {
            "SegmentMean": computed(_segment_mean),
            **{f"Segment{name}": computed(_segments(*row)) for name, row in _REDUCTIONS.items()},
        },
        why="it fills a table with as many columns as the largest segment has rows, and leaves its own neutral numbers "
        "in segments without rows",
        upstream="tf2onnx/onnx_opset/reduction.py:192",
        until="tf2onnx reduces segments by a scatter",
    ),
    *handlers(
        {f"UnsortedSegment{name}": computed(_unsorted_segments(*row)) for name, row in _REDUCTIONS.items()},
        why="it takes ids of one axis alone, fills the same table, and an empty segment is infinite",
        upstream="tf2onnx/onnx_opset/reduction.py:192",
        until="tf2onnx reduces segments by a scatter, of ids of any rank",
    ),
)
