"""Handlers of operators on integers, which tf2onnx converts by float32, without all integers beyond 2^24, or writes by
operators that ONNX has of floats alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import ClassVar

import numpy as np

from .. import private_tf2onnx
from ..ledger import handlers, missing_handlers
from .graph_writer import NodeWriter, computed
from .tf2onnx_graphs import TfGraph, TfNode

_SMALL = (2, 3, 4, 5)  # uint8, int8, uint16 and int16, of onnx.TensorProto
_UINT16, _INT32, _INT64, _DOUBLE, _UINT32, _UINT64 = 4, 6, 7, 11, 12, 13
_WIDER = {_UINT16: _INT32, _UINT32: _INT64}


def _comparison_handler() -> type:
    """Return a handler that leaves the operator to ONNX, which has it by the same name and of every dtype.

    PyTorch compares no unsigned integers: they are cast to wider signed ones, where there are such.
    """

    class Compared:
        @classmethod
        def version_18(cls, ctx: TfGraph, node: TfNode, **_options: object) -> None:
            if wider := _WIDER.get(ctx.get_dtype(node.input[0])):
                _cast_inputs(ctx, node, node.input, wider)

    return Compared


def _cast_inputs(graph: TfGraph, node: TfNode, names: Iterable[str], to: int) -> None:
    for name in dict.fromkeys(names):
        cast = graph.insert_new_node_on_input(node, "Cast", name, to=to)
        graph.copy_shape(name, cast.output[0])


def _casting_handler(own: str, casts: Mapping[int, int], onnx_op: str) -> type:
    """Return tf2onnx's handler of this name, which computes some dtypes in others: `casts`, by ONNX's numbers."""

    class CastingHandler(getattr(private_tf2onnx, own)):  # type: ignore[misc]
        options: ClassVar = {"onnx_op": onnx_op}

        @classmethod
        def version_18(cls, ctx: TfGraph, node: TfNode, **options: object) -> None:
            dtype = ctx.get_dtype(node.output[0])
            if dtype in casts:
                _cast_inputs(ctx, node, [name for name in node.input if ctx.get_dtype(name) == dtype], casts[dtype])
                ctx.set_dtype(node.output[0], casts[dtype])
                back = ctx.insert_new_node_on_output("Cast", node.output[0], to=dtype)
                ctx.copy_shape(node.output[0], back.output[0])
            super().version_11(ctx, node, **options)

    return CastingHandler


_pad_handler = partial(
    _casting_handler, "Pad", {**dict.fromkeys(_SMALL, _INT32), _UINT32: _INT64, _UINT64: _INT64}, "Pad"
)
_pool_handler = partial(_casting_handler, "PoolOp", {_INT32: _DOUBLE, _INT64: _DOUBLE}, "MaxPool")


def _sum(w: NodeWriter, *terms: str) -> str:
    if not w.is_integer:
        return w.call("Sum", *terms)
    total, *rest = terms
    for term in rest:
        total = w.call("Add", total, term)
    return total


def _inverse_permutation(w: NodeWriter, order: str) -> str:
    """Write at each number's place where it stands in the order."""
    places = w.call("Range", w.constant(np.int64(0)), w.size(order, 0), w.constant(np.int64(1)))
    return w.call("ScatterElements", order, order, w.like(places, order))


def _truncated_mod(w: NodeWriter, x: str, y: str) -> str:
    """Write the remainder of the quotient rounded towards zero, with the sign of x. ONNX Runtime's fmod of integers
    goes by float64."""
    return w.sub(x, w.mul(w.call("Div", x, y), y)) if w.is_integer else w.call("Mod", x, y, fmod=1)


PATCHES = (
    *handlers(
        dict.fromkeys(("Less", "Greater"), _comparison_handler),
        why="it casts both sides to float32, and reports success: 16777216 < 16777217 is false",
        upstream="tf2onnx/onnx_opset/logical.py:128",
        until="tf2onnx compares integers as integers",
    ),
    *handlers(
        dict.fromkeys(("Pad", "PadV2", "MirrorPad"), _pad_handler),
        why="dtypes that ONNX Runtime does not pad it casts to float32; of small integers not the pad value",
        upstream="tf2onnx/onnx_opset/nn.py:821",
        until="tf2onnx pads integers as integers",
    ),
    *handlers(
        dict.fromkeys(("MaxPool", "MaxPoolV2"), _pool_handler),
        why="integers, which ONNX Runtime does not pool, it casts to float32",
        upstream="tf2onnx/onnx_opset/nn.py:668",
        until="tf2onnx pools integers by float64, or ONNX Runtime pools them",
    ),
    *handlers(
        {"AddN": computed(_sum)},
        why="of integers it writes ONNX's Sum, which is of floats",
        upstream="tf2onnx/onnx_opset/reduction.py:185",
        until="tf2onnx adds integers by Add",
    ),
    *missing_handlers(
        {"TruncateMod": computed(_truncated_mod)},
    ),
    *handlers(
        {"InvertPermutation": computed(_inverse_permutation)},
        why="the dtypes that it declares are not those of the operators that it writes",
        upstream="tf2onnx/onnx_opset/math.py:1016",
        until="tf2onnx declares the dtypes that it writes",
    ),
)
