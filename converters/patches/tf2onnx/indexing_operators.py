"""Operators that look for places, or take rows to places, where tf2onnx loses numbers, writes operators that are not
ONNX's own, or writes more rows than there are.

Rows go by ScatterElements: with several threads ONNX Runtime 1.31 loses some of a ScatterND that adds up 100,000.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from .. import private_tf2onnx
from ..ledger import handlers, missing_handlers
from .graph_writer import Compute, NodeWriter, computed
from .tf2onnx_graphs import Dtype, TfGraph, TfNode, constant_integer, constant_of

_SORTED_DTYPES = (Dtype.FLOAT, Dtype.INT32, Dtype.INT64, Dtype.DOUBLE)  # what ONNX Runtime sorts


def _in_top_k(w: NodeWriter, predictions: str, targets: str, k: str) -> str:
    """Write whether fewer than k of a row are larger than its target, all are finite, and there is such a target."""
    targets, zero = w.cast(targets, Dtype.INT64), w.constant(0)
    is_class = w.call("And", w.call("GreaterOrEqual", targets, zero), w.call("Less", targets, w.size(predictions, 1)))
    at = w.unsqueezed(w.call("Where", is_class, targets, zero), 1)
    larger = w.call("Greater", predictions, w.call("GatherElements", predictions, at, axis=1))
    before = w.call("ReduceSum", w.cast(larger, Dtype.INT64), w.constant([1]), keepdims=0)
    infinite = w.like(w.constant(np.float32(np.inf)), predictions)
    finite = w.cast(w.call("Less", w.call("Abs", predictions), infinite), Dtype.INT64)
    all_finite = w.cast(w.call("ReduceMin", finite, w.constant([1]), keepdims=0), Dtype.BOOL)
    return w.call("And", w.call("And", is_class, all_finite), w.call("Less", before, w.cast(k, Dtype.INT64)))


def _diagonal(w: NodeWriter, x: str, *_padding: str, k: int) -> str:
    """Take the diagonal that begins k columns to the right, or -k rows below."""
    shape, rows, columns = w.call("Shape", x), w.size(x, -2), w.size(x, -1)
    unit, first = w.constant(1), w.constant(abs(k))
    places = w.call("Range", w.constant(0), _diagonal_length(w, rows, columns, k), unit)
    places = w.call("Add", w.mul(places, w.call("Add", columns, unit)), first if k >= 0 else w.mul(first, columns))
    flat = w.joined(w.slice(shape, 0, -2), w.vector(w.mul(rows, columns)))
    return w.call("Gather", w.reshaped(x, flat), places, axis=-1)


def _diagonal_length(w: NodeWriter, rows: str, columns: str, k: int) -> str:
    return w.call("Min", w.sub(rows, w.constant(max(-k, 0))), w.sub(columns, w.constant(max(k, 0))))


def _with_diagonal(w: NodeWriter, x: str, diagonal: str, *_k: str, k: int) -> str:
    """Replace the diagonal that `_diagonal` takes."""
    rows, columns = w.size(x, -2), w.size(x, -1)
    zero, unit = w.constant(0), w.constant(1)
    before = w.constant(max(-k, 0))
    after = w.sub(w.sub(rows, before), _diagonal_length(w, rows, columns, k))
    batch = w.slice(w.call("Shape", diagonal), 0, -1)
    empty = [w.call("Expand", w.number(0), w.joined(batch, w.vector(count))) for count in (before, after)]
    row_values = w.call("Concat", empty[0], diagonal, empty[1], axis=-1)
    down = w.unsqueezed(w.call("Range", zero, rows, unit), 1)
    on_diagonal = w.call("Equal", w.call("Add", down, w.constant(k)), w.call("Range", zero, columns, unit))
    return w.call("Where", on_diagonal, w.unsqueezed(row_values, -1), x)


def _diagonal_matrix(w: NodeWriter, diagonal: str, *options: str, k: int) -> str:
    """Write matrices with a diagonal, of the sizes that `options` name: k, rows, columns and the padding value.

    They are square where no size is named, else no larger than needed.
    """
    sizes = [size for name in options[1:3] if (size := constant_integer(w.graph, name)) is not None]
    w.require(len(sizes) == len(options[1:3]), f"{w.node.type} of a size that is computed")
    sizes = sizes or [-1, -1]
    margins = [abs(k)] * 2 if sizes == [-1, -1] else [max(-k, 0), max(k, 0)]
    length = w.size(diagonal, -1)
    rows, columns = (
        w.call("Add", length, w.constant(margin)) if size == -1 else w.constant(size)
        for size, margin in zip(sizes, margins, strict=True)
    )
    shape = w.joined(w.slice(w.call("Shape", diagonal), 0, -1), w.vector(rows), w.vector(columns))
    blank = w.call("Expand", options[3] if options else w.number(0), shape)
    return _with_diagonal(w, blank, diagonal, k=k)


def _convert_top_k(graph: TfGraph, node: TfNode, **_options: object) -> None:
    """Sort in the dtype itself, or in one that has all its numbers."""
    w, dtype = NodeWriter(graph, node), graph.get_dtype(node.input[0])
    w.require(dtype != Dtype.UINT64, "TopKV2 of uint64")
    x = node.input[0]
    if dtype not in _SORTED_DTYPES:
        x = w.cast(x, Dtype.INT64 if w.is_integer else Dtype.FLOAT)
    inputs, attributes = [x, w.vector(w.cast(node.input[1], Dtype.INT64))], {"axis": -1, "sorted": 1}
    top = graph.make_node("TopK", inputs, attr=attributes, output_count=2, op_name_scope=node.name)
    w.replace([w.cast(output, graph.get_dtype(name)) for output, name in zip(top.output, node.output, strict=True)])


def _convert_diagonal(
    compute: Callable[..., str], at: int, own: str, graph: TfGraph, node: TfNode, **options: object
) -> None:
    """Convert an operator on one diagonal, which the input at `at` names. `own`: tf2onnx's handler of several ones."""
    w = NodeWriter(graph, node)
    diagonals = {0}
    if len(node.input) > at:
        value = constant_of(node.inputs[at])
        if value is None:
            raise ValueError(f"{node.type} of a diagonal that is computed is not carried")
        diagonals = {int(k) for k in value.ravel()}
    if len(diagonals) > 1 and own:
        getattr(private_tf2onnx, own).version_13(graph, node, **options)
        return
    w.require(len(diagonals) == 1, f"{node.type} of several diagonals")
    w.replace([compute(w, *node.input, k=diagonals.pop())])


_convert_diagonal_part = partial(_convert_diagonal, _diagonal, 1, "MatrixDiagPartV2V3")
_convert_diagonal_matrix = partial(_convert_diagonal, _diagonal_matrix, 1, "MatrixDiag")
_convert_set_diagonal = partial(_convert_diagonal, _with_diagonal, 2, "")


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
        units = w.call("Expand", w.constant(1), w.joined(w.call("Shape", self.places), ones))
        return _RowTable(w, self.places, self.count, ones).filled(units, w.constant(0), "add")


def _scatter_nd(w: NodeWriter, indices: str, updates: str, shape: str) -> str:
    """Add the updates at their places to zeros of `shape`."""
    shape, indices = w.cast(shape, Dtype.INT64), w.cast(indices, Dtype.INT64)
    known = w.graph.get_shape(w.node.input[0])
    depth = known[-1] if known else -1
    w.require(depth >= 0, "ScatterNd with indices of a length that is not known")
    place = w.call("Expand", w.constant(0), w.slice(w.call("Shape", indices), 0, -1))
    count = w.constant(1)
    for at in range(depth):
        size, along = w.pick(shape, at), w.call("Gather", indices, w.constant(at), axis=-1)
        place, count = w.call("Add", w.mul(place, size), along), w.mul(count, size)
    rows = _RowTable(w, place, count, w.slice(shape, depth))
    is_sum = w.graph.get_dtype(updates) != Dtype.BOOL
    return w.reshaped(rows.filled(updates, w.number(0), "add" if is_sum else "none"), shape)


def _sorted_rows(w: NodeWriter, ids: str, data: str) -> _RowTable:
    """Return a table of as many rows as the largest id asks for."""
    ids = w.cast(ids, Dtype.INT64)
    last = w.call("ReduceMax", w.joined(w.constant([-1]), ids), keepdims=0)
    return _RowTable(w, ids, w.call("Add", last, w.constant(1)), w.call("Shape", data, start=1))


def _segments(reduction: str, start: str) -> Compute:
    """Return the function that reduces the rows of a segment, by sorted ids; 0 without rows, of a product 1."""

    def compute(w: NodeWriter, data: str, ids: str) -> str:
        rows = _sorted_rows(w, ids, data)
        reduced = rows.filled(data, w.number(w.limits(infinite=True)[start]), reduction)
        if start in ("0", "1"):
            return reduced
        return w.call("Where", w.call("Equal", rows.lengths, w.constant(0)), w.number(0), reduced)

    return compute


def _segment_mean(w: NodeWriter, data: str, ids: str) -> str:
    """Divide the sum of each segment by the number of its rows; 0 where it has none."""
    rows = _sorted_rows(w, ids, data)
    lengths = w.call("Max", rows.lengths, w.constant(1))
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
        ids, count = w.cast(ids, Dtype.INT64), w.cast(count, Dtype.INT64)
        places = w.call("Where", w.call("Less", ids, w.constant(0)), count, ids)
        one_more = w.call("Add", count, w.constant(1))
        rows = _RowTable(w, places, one_more, w.call("Shape", data, start=rank))
        return w.slice(rows.filled(data, w.number(w.limits(infinite=False)[start]), reduction), 0, w.vector(count))

    return compute


_LOOPS = "it goes by a loop over diagonals, with an operator that is not ONNX's own; ours are of one diagonal"
_REDUCTIONS = {"Sum": ("add", "0"), "Prod": ("mul", "1"), "Max": ("max", "low"), "Min": ("min", "high")}
PATCHES = (
    *missing_handlers(
        {"InTopKV2": computed(_in_top_k)},
    ),
    *handlers(
        {"TopKV2": _convert_top_k},
        why="it goes by float32, which has not all integers beyond 2^24",
        upstream="tf2onnx/onnx_opset/tensor.py:1206",
        until="tf2onnx sorts integers as integers",
    ),
    *handlers(
        dict.fromkeys(("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3"), _convert_diagonal_part),
        why=f"{_LOOPS}. The first version takes no matrix without a batch",
        upstream="tf2onnx/onnx_opset/tensor.py:3219",
        until="tf2onnx takes one diagonal by ONNX's own operators",
    ),
    *handlers(
        dict.fromkeys(("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3"), _convert_diagonal_matrix),
        why=f"{_LOOPS}; it also loses the batch where that has one sample",
        upstream="tf2onnx/onnx_opset/tensor.py:3602",
        until="tf2onnx writes one diagonal by ONNX's own operators",
    ),
    *handlers(
        dict.fromkeys(("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3"), _convert_set_diagonal),
        why=f"{_LOOPS}, and several are refused",
        upstream="tf2onnx/onnx_opset/tensor.py:3950",
        until="tf2onnx replaces one diagonal by ONNX's own operators",
    ),
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
