"""Handlers of single operators that tf2onnx 1.17 lacks or converts wrongly. Families have modules of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from .. import private_tf2onnx
from ..ledger import TF2ONNX, Kind, handlers, missing_handlers, patches
from .crop_and_resize import crop_and_resize
from .graph_reader import constant_of, copy_source
from .graph_writer import INT64, Compute, NodeWriter, computed
from .tf2onnx_graphs import Rewriter, TfGraph, TfNode

_SIGN_BIT = -(2**31)
_FLOAT, _DOUBLE = 1, 11  # of onnx.TensorProto


def _flattening_own_size_only(rewrite: Rewriter) -> Rewriter:
    """Return tf2onnx's rewriter, kept from a Reshape whose first size is not the tensor's own."""

    def rewritten(graph: TfGraph, nodes: Sequence[TfNode]) -> Sequence[TfNode]:
        for node in nodes:
            if node.type == "Reshape" and not _keeps_own_size(graph, node):
                graph.insert_new_node_on_input(node, "Identity", node.input[1], input_index=1)
        return rewrite(graph, graph.get_nodes())

    return rewritten


def _keeps_own_size(graph: TfGraph, reshape: TfNode) -> bool:
    """Return whether the size that a shape begins with, where that is read from a tensor, is of the reshaped one."""
    node = reshape
    for kind, at in (("Pack", 1), ("StridedSlice", 0), ("Shape", 0)):
        source = node.inputs[at]
        if source is None or source.type != kind:
            return True
        node = source
    return copy_source(graph, node.input[0]) == copy_source(graph, reshape.input[0])


def _select_handler() -> type:
    """Return tf2onnx's handler, told for every choice that a side may be NaN: it finds that out for some alone."""

    class Choice:
        @classmethod
        def version_11(cls, ctx: TfGraph, node: TfNode, **options: object) -> None:
            node.set_attr("handles_nan", True)
            private_tf2onnx.Select.version_9(ctx, node, **options)

    return Choice


def _floor_div_handler() -> type:
    """Return a handler of TFLite's FLOOR_DIV: TensorFlow's operator, in LiteRT's precision."""

    class Quotient:
        options: ClassVar = {"tf_op": "FloorDiv"}

        @classmethod
        def to_tf(cls, ctx: TfGraph, node: TfNode, **_options: object) -> None:
            if ctx.get_dtype(node.input[0]) != _FLOAT:
                return
            for name in tuple(node.input):
                ctx.insert_new_node_on_input(node, "Cast", name, to=_DOUBLE)
            ctx.set_dtype(node.output[0], _DOUBLE)
            ctx.insert_new_node_on_output("Cast", node.output[0], to=_FLOAT)

    return Quotient


def _sign_handler() -> type:
    """Return a handler of a Bitcast of which the sign alone is used: it writes the sign's bit, and no others."""

    class Sign:
        @classmethod
        def version_11(cls, ctx: TfGraph, node: TfNode, **_options: object) -> None:
            users = ctx.find_output_consumers(node.output[0])
            if ctx.get_dtype(node.input[0]) != _FLOAT or not users or not all(map(_takes_sign, users)):
                return
            w, x = NodeWriter(ctx, node), node.input[0]
            zero = w.constant(np.float32(0))
            negative = w.call("Or", w.call("Less", x, zero), w.call("Less", w.call("Reciprocal", x), zero))  # also -0
            sign = w.call("Where", negative, w.number(_SIGN_BIT), w.number(0))
            for user in users:
                ctx.replace_all_inputs(user.output[0], sign)

    return Sign


def _takes_sign(user: TfNode) -> bool:
    masks = [value for source in user.inputs if (value := constant_of(source)) is not None]
    return user.type == "BitwiseAnd" and len(masks) == 1 and bool(np.all(masks[0] == _SIGN_BIT))


def _bucketize(w: NodeWriter, x: str) -> str:
    """Count the boundaries that are not larger than x; NaN lies above all. TensorFlow keeps them in float32, and
    compares integers as floats."""
    is_double = w.graph.get_dtype(x) == _DOUBLE
    x = x if is_double else w.cast(x, _FLOAT)
    count = w.number(0)
    for boundary in w.node.get_attr_value("boundaries"):
        below = w.call("Less", x, w.constant(np.float64(boundary) if is_double else np.float32(boundary)))
        count = w.call("Add", count, w.call("Where", below, w.number(0), w.number(1)))
    return count


def _one_hot(w: NodeWriter, indices: str, depth: str, on: str, off: str) -> str:
    """Write `on` where the place along the new axis is the index, else `off`."""
    axis = w.node.get_attr_value("axis", -1)
    zero, unit = (w.constant(np.int64(value)) for value in (0, 1))
    places, indices = w.call("Range", zero, w.cast(depth, INT64), unit), w.cast(indices, INT64)
    if axis >= 0 and (axes_behind := (w.graph.get_rank(indices) or 0) - axis):
        places = w.call("Reshape", places, w.constant([-1, *[1] * axes_behind]))
    return w.call("Where", w.call("Equal", w.unsqueezed(indices, axis), places), on, off)


def _broadcast_shape(w: NodeWriter, a: str, b: str) -> str:
    """Write the shape that both broadcast to: right-aligned, of each pair of sizes the one that is not 1."""
    a, b = (
        w.with_leading_ones(a, w.length(b) - w.length(a)),
        w.with_leading_ones(b, w.length(a) - w.length(b)),
    )
    return w.call("Where", w.call("Equal", a, w.number(1)), b, a)


def _gelu(w: NodeWriter, x: str) -> str:
    """Multiply x by the normal distribution's share below x, or by its approximation by tanh.

    Formulas: https://onnx.ai/onnx/operators/onnx__Gelu.html.
    """
    if w.node.get_attr_value("approximate", False):
        cubic = w.mul(w.number(0.044715), w.mul(x, w.mul(x, x)))
        share = w.call("Tanh", w.mul(w.number(math.sqrt(2 / math.pi)), w.call("Add", x, cubic)))
    else:
        share = w.call("Erf", w.mul(x, w.number(math.sqrt(0.5))))
    return w.mul(w.mul(x, w.number(0.5)), w.call("Add", w.number(1), share))


def _floor_div(w: NodeWriter, x: str, y: str) -> str:
    """Write the quotient rounded down. Of integers the remainder is subtracted first: the rest divides exactly."""
    return w.call("Div", w.sub(x, w.call("Mod", x, y)), y) if w.is_integer else w.call("Floor", w.call("Div", x, y))


def _floor_mod(w: NodeWriter, x: str, y: str) -> str:
    """Write the remainder of x, with the sign of y. Of floats as TensorFlow does it: the remainder of rounding towards
    zero, which is exact, plus y where that has the other sign."""
    if w.is_integer:
        return w.call("Mod", x, y)
    remainder, zero = w.call("Mod", x, y, fmod=1), w.number(0)
    other_sign = w.call("Xor", w.call("Less", remainder, zero), w.call("Less", y, zero))
    is_zero = w.call("Equal", remainder, zero)
    return w.call("Where", w.call("And", other_sign, w.call("Not", is_zero)), w.call("Add", remainder, y), remainder)


def _cross_entropy(w: NodeWriter, logits: str, labels: str) -> Sequence[str]:
    """Write the loss of each sample by the shares of its classes, and its gradient by the logits."""
    loss = w.call("ReduceSum", w.mul(labels, w.call("LogSoftmax", logits, axis=-1)), w.constant([-1]), keepdims=0)
    return w.call("Neg", loss), w.sub(w.call("Softmax", logits, axis=-1), labels)


def _sparse_cross_entropy(w: NodeWriter, logits: str, labels: str) -> Sequence[str]:
    """Write the same by the one class of each sample."""
    values = w.constant(np.array([0, 1], np.float64))
    one_hot = w.call("OneHot", w.cast(labels, INT64), w.size(logits, -1), w.like(values, logits), axis=-1)
    return _cross_entropy(w, logits, one_hot)


def _expm1(w: NodeWriter, x: str) -> str:
    """Write exp(x) - 1. Near 0 rounding errors cancel in (u - 1) x / log(u), where u = exp(x) (W. Kahan)."""
    u, unit = w.call("Exp", x), w.number(1)
    difference = w.sub(u, unit)
    return _near_zero(w, x, u, w.call("Div", w.mul(difference, x), w.call("Log", u)), difference)


def _log1p(w: NodeWriter, x: str) -> str:
    """Write log(1 + x). Near 0 rounding errors cancel in log(u) x / (u - 1), where u = 1 + x (W. Kahan)."""
    unit = w.number(1)
    u = w.call("Add", x, unit)
    log = w.call("Log", u)
    return _near_zero(w, x, u, w.call("Div", w.mul(log, x), w.sub(u, unit)), log)


def _near_zero(w: NodeWriter, x: str, u: str, near: str, far: str) -> str:
    """Choose `near` where x is small, x itself where that is too small to change `u` from 1, else `far`."""
    is_lost = w.call("Equal", u, w.number(1))
    is_near = w.call("Less", w.call("Abs", x), w.number(0.5))
    return w.call("Where", is_lost, x, w.call("Where", is_near, near, far))


def _one_minus_erf(w: NodeWriter, x: str) -> str:
    return w.sub(w.number(1), w.call("Erf", x))


def _clip_to_one(low: float) -> Compute:
    return lambda w, x: w.call("Clip", x, w.number(low), w.number(1))


PATCHES = (
    *handlers(
        {"Erfc": computed(_one_minus_erf)},
        why="tf2onnx writes an operator Erfc, which ONNX does not have, and reports success",
        upstream="tf2onnx/onnx_opset/math.py",
        until="tf2onnx writes 1 - Erf(x), or ONNX has Erfc",
    ),
    *handlers(
        {"FloorDiv": computed(_floor_div), "FloorMod": computed(_floor_mod)},
        why="of integers it writes ONNX's Div, which rounds towards zero, and reports success; of floats FloorMod is a "
        "divisor off where the quotient was rounded up to an integer",
        upstream="tf2onnx/onnx_opset/math.py:512",
        until="tf2onnx rounds quotients of integers down and computes remainders by fmod",
    ),
    *handlers(
        {"TFL_FLOOR_DIV": _floor_div_handler},
        why="of floats LiteRT divides in double, and rounds down what TensorFlow has rounded up",
        upstream="tf2onnx/tflite_handlers/tfl_direct.py:33",
        until="LiteRT's FLOOR_DIV divides as TensorFlow's does, or tf2onnx divides in double",
    ),
    *handlers(
        {"Select": _select_handler, "SelectV2": _select_handler},
        why="it writes c * x + (1 - c) * y and reports success: NaN and infinities come through from the side that is "
        "not chosen, and a choice between sizes is no longer seen as one",
        upstream="tf2onnx/onnx_opset/controlflow.py:136",
        until="tf2onnx writes Where for every choice",
    ),
    *handlers(
        {"Bitcast": _sign_handler},
        why="tf2onnx has no handler of it. Written is a float's for the sake of its sign, as Keras's argmax reads it",
        upstream="https://github.com/onnx/onnx/blob/main/docs/Operators.md (no operator reads a number's bits)",
        until="tf2onnx converts Bitcast; ONNX has BitCast from opset 26 on",
    ),
    *handlers(
        {"OneHot": computed(_one_hot)},
        why="ONNX's OneHot counts from the end where an index is negative, and TensorFlow's is off everywhere",
        upstream="tf2onnx/onnx_opset/tensor.py:1357",
        until="tf2onnx masks negative indices",
    ),
    *handlers(
        {"SparseSoftmaxCrossEntropyWithLogits": computed(_sparse_cross_entropy)},
        why="it takes the logarithm of a softmax, which for logits far apart is the logarithm of 0",
        upstream="tf2onnx/onnx_opset/nn.py: _make_sparse_softmax_cross_entropy_with_logits",
        until="tf2onnx writes LogSoftmax",
    ),
    *handlers(
        {"SoftmaxCrossEntropyWithLogits": computed(_cross_entropy)},
        why="it writes the loss, and leaves out the second output, its gradient by the logits",
        upstream="tf2onnx/onnx_opset/nn.py:1870",
        until="tf2onnx writes both outputs",
    ),
    *handlers(
        {"CropAndResize": computed(crop_and_resize)},
        why="it loops over the boxes, knows no sizes inside the loop, and writes single values where the picture ends",
        upstream="tf2onnx/onnx_opset/nn.py:1236",
        until="tf2onnx computes all boxes at once by TensorFlow's formula",
    ),
    *missing_handlers(
        {
            "Expm1": computed(_expm1),
            "Log1p": computed(_log1p),
            "BroadcastArgs": computed(_broadcast_shape),
            "Bucketize": computed(_bucketize),
            "TFL_BROADCAST_ARGS": computed(_broadcast_shape),
            "TFL_GELU": computed(_gelu),
            "TFL_RELU_N1_TO_1": computed(_clip_to_one(-1)),
            "TFL_RELU_0_TO_1": computed(_clip_to_one(0)),
        },
    ),
    *patches(
        Kind.PERMANENT,
        "tf2onnx.tfonnx",
        {"rewrite_flatten": _flattening_own_size_only},
        why="of a Reshape to [n, -1] it makes a Flatten, whichever tensor's size n is: an example's frames became one",
        upstream="tf2onnx/rewriter/flatten_rewriter.py",
        until="the rewriter compares the tensor whose size is read with the one that is reshaped",
        seen=TF2ONNX,
    ),
)
