"""Operators that look for places, where tf2onnx loses numbers or writes operators that are not ONNX's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from .. import private_tf2onnx
from ..ledger import handlers, missing_handlers
from .graph_reader import constant_integer, constant_of
from .graph_writer import INT64, NodeWriter, computed
from .tf2onnx_graphs import TfGraph, TfNode

_BOOL = 9  # of onnx.TensorProto
_SORTED_DTYPES = (1, 6, INT64, 11)  # float32, int32, int64 and float64: what ONNX Runtime sorts
_UINT64 = 13


def _in_top_k(w: NodeWriter, predictions: str, targets: str, k: str) -> str:
    """Write whether fewer than k of a row are larger than its target, all are finite, and there is such a target."""
    targets, zero = w.cast(targets, INT64), w.constant(np.int64(0))
    is_class = w.call("And", w.call("GreaterOrEqual", targets, zero), w.call("Less", targets, w.size(predictions, 1)))
    at = w.unsqueezed(w.call("Where", is_class, targets, zero), 1)
    larger = w.call("Greater", predictions, w.call("GatherElements", predictions, at, axis=1))
    before = w.call("ReduceSum", w.cast(larger, INT64), w.constant([1]), keepdims=0)
    infinite = w.like(w.constant(np.float32(np.inf)), predictions)
    finite = w.cast(w.call("Less", w.call("Abs", predictions), infinite), INT64)
    all_finite = w.cast(w.call("ReduceMin", finite, w.constant([1]), keepdims=0), _BOOL)
    return w.call("And", w.call("And", is_class, all_finite), w.call("Less", before, w.cast(k, INT64)))


def _diagonal(w: NodeWriter, x: str, *_padding: str, k: int) -> str:
    """Take the diagonal that begins k columns to the right, or -k rows below."""
    shape, rows, columns = w.call("Shape", x), w.size(x, -2), w.size(x, -1)
    unit, first = w.constant(np.int64(1)), w.constant(np.int64(abs(k)))
    places = w.call("Range", w.constant(np.int64(0)), _diagonal_length(w, rows, columns, k), unit)
    places = w.call("Add", w.mul(places, w.call("Add", columns, unit)), first if k >= 0 else w.mul(first, columns))
    flat = w.joined(w.slice(shape, 0, -2), w.vector(w.mul(rows, columns)))
    return w.call("Gather", w.reshaped(x, flat), places, axis=-1)


def _diagonal_length(w: NodeWriter, rows: str, columns: str, k: int) -> str:
    return w.call("Min", w.sub(rows, w.constant(np.int64(max(-k, 0)))), w.sub(columns, w.constant(np.int64(max(k, 0)))))


def _with_diagonal(w: NodeWriter, x: str, diagonal: str, *_k: str, k: int) -> str:
    """Replace the diagonal that `_diagonal` takes."""
    rows, columns = w.size(x, -2), w.size(x, -1)
    zero, unit = w.constant(np.int64(0)), w.constant(np.int64(1))
    before = w.constant(np.int64(max(-k, 0)))
    after = w.sub(w.sub(rows, before), _diagonal_length(w, rows, columns, k))
    batch = w.slice(w.call("Shape", diagonal), 0, -1)
    empty = [w.call("Expand", w.number(0), w.joined(batch, w.vector(count))) for count in (before, after)]
    row_values = w.call("Concat", empty[0], diagonal, empty[1], axis=-1)
    down = w.unsqueezed(w.call("Range", zero, rows, unit), 1)
    on_diagonal = w.call("Equal", w.call("Add", down, w.constant(np.int64(k))), w.call("Range", zero, columns, unit))
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
        w.call("Add", length, w.constant(np.int64(margin))) if size == -1 else w.constant(np.int64(size))
        for size, margin in zip(sizes, margins, strict=True)
    )
    shape = w.joined(w.slice(w.call("Shape", diagonal), 0, -1), w.vector(rows), w.vector(columns))
    blank = w.call("Expand", options[3] if options else w.number(0), shape)
    return _with_diagonal(w, blank, diagonal, k=k)


def _top_k_handler() -> type:
    """Return a handler that sorts in the dtype itself, or in one that has all its numbers."""

    class TopK:
        @classmethod
        def version_18(cls, ctx: TfGraph, node: TfNode, **_options: object) -> None:
            w, dtype = NodeWriter(ctx, node), ctx.get_dtype(node.input[0])
            w.require(dtype != _UINT64, "TopKV2 of uint64")
            x = node.input[0]
            if dtype not in _SORTED_DTYPES:
                x = w.cast(x, INT64 if w.is_integer else _SORTED_DTYPES[0])
            top = w.graph.make_node(
                "TopK",
                [x, w.vector(w.cast(node.input[1], INT64))],
                attr={"axis": -1, "sorted": 1},
                output_count=2,
                op_name_scope=node.name,
            )
            w.replace(
                [w.cast(output, ctx.get_dtype(name)) for output, name in zip(top.output, node.output, strict=True)]
            )

    return TopK


def _diagonal_handler(compute: Callable[..., str], at: int, own: str = "") -> type:
    """Return a handler of one diagonal, which the input at `at` names. `own`: tf2onnx's handler of several ones."""

    class Diagonal:
        @classmethod
        def version_18(cls, ctx: TfGraph, node: TfNode, **options: object) -> None:
            w = NodeWriter(ctx, node)
            inputs = list(node.input)
            diagonals = {0}
            if len(inputs) > at:
                value = constant_of(node.inputs[at])
                if value is None:
                    raise ValueError(f"{node.type} of a diagonal that is computed is not carried")
                diagonals = {int(k) for k in value.ravel()}
            if len(diagonals) > 1 and own:
                getattr(private_tf2onnx, own).version_13(ctx, node, **options)
                return
            w.require(len(diagonals) == 1, f"{node.type} of several diagonals")
            w.replace([compute(w, *inputs, k=diagonals.pop())])

    return Diagonal


_take_handler = partial(_diagonal_handler, _diagonal, 1, "MatrixDiagPartV2V3")
_matrix_handler = partial(_diagonal_handler, _diagonal_matrix, 1, "MatrixDiag")
_set_handler = partial(_diagonal_handler, _with_diagonal, 2)
_LOOPS = "it goes by a loop over diagonals, with an operator that is not ONNX's own; ours are of one diagonal"

PATCHES = (
    *missing_handlers(
        {"InTopKV2": computed(_in_top_k)},
    ),
    *handlers(
        {"TopKV2": _top_k_handler},
        why="it goes by float32, which has not all integers beyond 2^24",
        upstream="tf2onnx/onnx_opset/tensor.py:1206",
        until="tf2onnx sorts integers as integers",
    ),
    *handlers(
        dict.fromkeys(("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3"), _take_handler),
        why=f"{_LOOPS}. The first version takes no matrix without a batch",
        upstream="tf2onnx/onnx_opset/tensor.py:3219",
        until="tf2onnx takes one diagonal by ONNX's own operators",
    ),
    *handlers(
        dict.fromkeys(("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3"), _matrix_handler),
        why=f"{_LOOPS}; it also loses the batch where that has one sample",
        upstream="tf2onnx/onnx_opset/tensor.py:3602",
        until="tf2onnx writes one diagonal by ONNX's own operators",
    ),
    *handlers(
        dict.fromkeys(("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3"), _set_handler),
        why=f"{_LOOPS}, and several are refused",
        upstream="tf2onnx/onnx_opset/tensor.py:3950",
        until="tf2onnx replaces one diagonal by ONNX's own operators",
    ),
)
