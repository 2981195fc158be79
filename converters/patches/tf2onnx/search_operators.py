"""Operators that look for places, where tf2onnx's way loses numbers or ends in no ONNX.

InTopKV2          it has none
TopKV2            it goes by float32, which has no whole numbers beyond 2^24
MatrixDiagPart... it goes by a loop over diagonals, with an operator that is not ONNX's own; here one diagonal is taken.
MatrixSetDiag...  Several are left to it, or refused
MatrixDiag...     it also loses the batch where that has one sample
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .graph_writer import Graph, Node, Writer
from .loop_counting import whole

_INT64, _BOOL = 7, 9  # onnx.TensorProto
_KEPT = (1, 6, _INT64, 11)  # float32, int32, int64 and float64: what ONNX Runtime sorts
_UINT64 = 13


def in_top_k(w: Writer, predictions: str, targets: str, k: str) -> str:
    """Whether fewer than k of a row are larger than its target, all of them are finite, and there is such a target."""
    targets, zero = w.cast(targets, _INT64), w.constant(np.int64(0))
    is_one = w.call("And", w.call("GreaterOrEqual", targets, zero), w.call("Less", targets, w.size(predictions, 1)))
    at = w.unsqueezed(w.call("Where", is_one, targets, zero), 1)
    larger = w.call("Greater", predictions, w.call("GatherElements", predictions, at, axis=1))
    before = w.call("ReduceSum", w.cast(larger, _INT64), w.constant([1]), keepdims=0)
    infinite = w.like(w.constant(np.float32(np.inf)), predictions)
    finite = w.cast(w.call("Less", w.call("Abs", predictions), infinite), _INT64)
    all_finite = w.cast(w.call("ReduceMin", finite, w.constant([1]), keepdims=0), _BOOL)
    return w.call("And", w.call("And", is_one, all_finite), w.call("Less", before, w.cast(k, _INT64)))


def _diagonal(w: Writer, x: str, k: int) -> str:
    """The diagonal that begins k columns to the right, or -k rows below."""
    shape, rows, columns = w.call("Shape", x), w.size(x, -2), w.size(x, -1)
    one, first = w.constant(np.int64(1)), w.constant(np.int64(abs(k)))
    places = w.call("Range", w.constant(np.int64(0)), _length(w, rows, columns, k), one)
    places = w.call("Add", w.mul(places, w.call("Add", columns, one)), first if k >= 0 else w.mul(first, columns))
    flat = w.joined(w.slice(shape, 0, -2), w.vector(w.mul(rows, columns)))
    return w.call("Gather", w.reshaped(x, flat), places, axis=-1)


def _length(w: Writer, rows: str, columns: str, k: int) -> str:
    return w.call("Min", w.sub(rows, w.constant(np.int64(max(-k, 0)))), w.sub(columns, w.constant(np.int64(max(k, 0)))))


def _with_diagonal(w: Writer, x: str, diagonal: str, k: int) -> str:
    """X with another diagonal, the one that `_diagonal` takes."""
    rows, columns = w.size(x, -2), w.size(x, -1)
    zero, one = w.constant(np.int64(0)), w.constant(np.int64(1))
    before = w.constant(np.int64(max(-k, 0)))
    after = w.sub(w.sub(rows, before), _length(w, rows, columns, k))
    others = w.slice(w.call("Shape", diagonal), 0, -1)
    empty = [w.call("Expand", w.number(0), w.joined(others, w.vector(each))) for each in (before, after)]
    of_rows = w.call("Concat", empty[0], diagonal, empty[1], axis=-1)
    down = w.unsqueezed(w.call("Range", zero, rows, one), 1)
    there = w.call("Equal", w.call("Add", down, w.constant(np.int64(k))), w.call("Range", zero, columns, one))
    return w.call("Where", there, w.unsqueezed(of_rows, -1), x)


def _diagonal_matrix(w: Writer, diagonal: str, *said: str, k: int) -> str:
    """Matrices with a diagonal: of the sizes that are said, square where none is, else no larger than it needs."""
    sizes = [size for each in said[1:3] if (size := whole(w.graph, each)) is not None]
    w.require(len(sizes) == len(said[1:3]), f"{w.node.type} of a size that is computed")
    sizes = sizes or [-1, -1]
    needed = [abs(k)] * 2 if sizes == [-1, -1] else [max(-k, 0), max(k, 0)]
    length = w.size(diagonal, -1)
    rows, columns = (
        w.call("Add", length, w.constant(np.int64(more))) if size == -1 else w.constant(np.int64(size))
        for size, more in zip(sizes, needed, strict=True)
    )
    shape = w.joined(w.slice(w.call("Shape", diagonal), 0, -1), w.vector(rows), w.vector(columns))
    blank = w.call("Expand", said[3] if said else w.number(0), shape)
    return _with_diagonal(w, blank, diagonal, k)


def register_places() -> None:
    """Add the handlers to tf2onnx's tables."""
    from tf2onnx.handler import tf_op
    from tf2onnx.onnx_opset.tensor import MatrixDiag, MatrixDiagPartV2V3

    tf_op("TopKV2")(_top_k())
    tf_op(_PARTS)(_of_one_diagonal(lambda w, x, *_, k: _diagonal(w, x, k), 1, MatrixDiagPartV2V3.version_13))
    tf_op(_MADE)(_of_one_diagonal(_diagonal_matrix, 1, MatrixDiag.version_13))
    tf_op(_SETS)(_of_one_diagonal(lambda w, x, y, *_, k: _with_diagonal(w, x, y, k), 2))


def _top_k() -> type:
    """In the dtype itself, or in one that has all its numbers."""

    class TopK:
        @classmethod
        def version_18(cls, ctx: Graph, node: Node, **_options: object) -> None:
            w, dtype = Writer(ctx, node), ctx.get_dtype(node.input[0])
            w.require(dtype != _UINT64, "TopKV2 of uint64")
            x = node.input[0]
            if dtype not in _KEPT:
                x = w.cast(x, _INT64 if w.is_whole else _KEPT[0])
            found = w.graph.make_node(
                "TopK",
                [x, w.vector(w.cast(node.input[1], _INT64))],
                attr={"axis": -1, "sorted": 1},
                output_count=2,
                op_name_scope=node.name,
            )
            w.replace([w.cast(each, to) for each, to in zip(found.output, node.output_dtypes, strict=True)])

    return TopK


def _of_one_diagonal(compute: Callable[..., str], at: int, several: Callable[..., None] | None = None) -> type:
    """`at`: which input tells the diagonals. `several`: a handler of tf2onnx's where they are more than one."""

    class Diagonal:
        @classmethod
        def version_18(cls, ctx: Graph, node: Node, **options: object) -> None:
            w = Writer(ctx, node)
            inputs = list(node.input)
            numbers = {0}
            if len(inputs) > at:
                w.require(node.inputs[at].is_const(), f"{node.type} of a diagonal that is computed")
                numbers = {int(each) for each in node.inputs[at].get_tensor_value(as_list=False).ravel()}
            if len(numbers) > 1 and several:
                several(ctx, node, **options)
                return
            w.require(len(numbers) == 1, f"{node.type} of several diagonals")
            w.replace([compute(w, *inputs, k=numbers.pop())])

    return Diagonal


_PARTS = ["MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3"]
_MADE = ["MatrixDiag", "MatrixDiagV2", "MatrixDiagV3"]
_SETS = ["MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3"]
PLACES = frozenset({"TopKV2", *_PARTS, *_MADE, *_SETS})
