"""Handlers of single operators that tf2onnx 1.17 lacks or converts wrongly. Families have modules of their own.

Integers it converts by float32, without all integers beyond 2^24, or writes by operators that ONNX has of floats alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from .. import private_tf2onnx
from ..ledger import TF2ONNX, Kind, handlers, missing_handlers, patches
from .crop_and_resize import crop_and_resize
from .graph_writer import Compute, NodeWriter, computed
from .tf2onnx_graphs import Dtype, Rewriter, TfGraph, TfNode, constant_of, copy_source

_SIGN_BIT = -(2**31)
_SMALL = (Dtype.UINT8, Dtype.INT8, Dtype.UINT16, Dtype.INT16)
_WIDER = {Dtype.UINT16: Dtype.INT32, Dtype.UINT32: Dtype.INT64}


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


def _convert_select(graph: TfGraph, node: TfNode, **options: object) -> None:
    """Tell tf2onnx's handler for every choice that a side may be NaN: it finds that out for some alone."""
    node.set_attr("handles_nan", True)
    private_tf2onnx.Select.version_9(graph, node, **options)


def _widen_floor_div(graph: TfGraph, node: TfNode, **_options: object) -> None:
    """Have TensorFlow's operator, which TFLite's FLOOR_DIV becomes, compute in LiteRT's precision."""
    if graph.get_dtype(node.input[0]) != Dtype.FLOAT:
        return
    for name in tuple(node.input):
        graph.insert_new_node_on_input(node, "Cast", name, to=Dtype.DOUBLE)
    graph.set_dtype(node.output[0], Dtype.DOUBLE)
    graph.insert_new_node_on_output("Cast", node.output[0], to=Dtype.FLOAT)


def _convert_sign(graph: TfGraph, node: TfNode, **_options: object) -> None:
    """Write the sign's bit of a Bitcast of which the sign alone is used, and no others."""
    users = graph.find_output_consumers(node.output[0])
    if graph.get_dtype(node.input[0]) != Dtype.FLOAT or not users or not all(map(_takes_sign, users)):
        return
    w, x = NodeWriter(graph, node), node.input[0]
    zero = w.constant(np.float32(0))
    negative = w.call("Or", w.call("Less", x, zero), w.call("Less", w.call("Reciprocal", x), zero))  # also -0
    sign = w.call("Where", negative, w.number(_SIGN_BIT), w.number(0))
    for user in users:
        graph.replace_all_inputs(user.output[0], sign)


def _takes_sign(user: TfNode) -> bool:
    masks = [value for source in user.inputs if (value := constant_of(source)) is not None]
    return user.type == "BitwiseAnd" and len(masks) == 1 and bool(np.all(masks[0] == _SIGN_BIT))


def _bucketize(w: NodeWriter, x: str) -> str:
    """Count the boundaries that are not larger than x; NaN lies above all. TensorFlow keeps them in float32, and
    compares integers as floats."""
    is_double = w.graph.get_dtype(x) == Dtype.DOUBLE
    x = x if is_double else w.cast(x, Dtype.FLOAT)
    count = w.number(0)
    for boundary in w.node.get_attr_value("boundaries"):
        below = w.call("Less", x, w.constant(np.float64(boundary) if is_double else np.float32(boundary)))
        count = w.call("Add", count, w.call("Where", below, w.number(0), w.number(1)))
    return count


def _one_hot(w: NodeWriter, indices: str, depth: str, on: str, off: str) -> str:
    """Write `on` where the place along the new axis is the index, else `off`."""
    axis = w.node.get_attr_value("axis", -1)
    zero, unit = (w.constant(value) for value in (0, 1))
    places, indices = w.call("Range", zero, w.cast(depth, Dtype.INT64), unit), w.cast(indices, Dtype.INT64)
    if axis >= 0 and (axes_behind := (w.graph.get_rank(indices) or 0) - axis):
        places = w.call("Reshape", places, w.constant([-1, *[1] * axes_behind]))
    return w.call("Where", w.call("Equal", w.unsqueezed(indices, axis), places), on, off)


def _broadcast_shape(w: NodeWriter, a: str, b: str) -> str:
    """Write the shape that both broadcast to: right-aligned, of each pair of sizes the one that is not 1."""
    missing = w.length(b) - w.length(a)
    a, b = w.with_leading_ones(a, missing), w.with_leading_ones(b, -missing)
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
    one_hot = w.call("OneHot", w.cast(labels, Dtype.INT64), w.size(logits, -1), w.like(values, logits), axis=-1)
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


def _clip_to_one(low: float) -> Compute:
    return lambda w, x: w.call("Clip", x, w.number(low), w.number(1))


def _convert_comparison(graph: TfGraph, node: TfNode, **_options: object) -> None:
    """Leave the operator to ONNX, which has it by the same name and of every dtype.

    PyTorch compares no unsigned integers: they are cast to wider signed ones, where there are such.
    """
    if wider := _WIDER.get(graph.get_dtype(node.input[0])):
        _cast_inputs(graph, node, node.input, wider)


def _cast_inputs(graph: TfGraph, node: TfNode, names: Iterable[str], to: int) -> None:
    for name in dict.fromkeys(names):
        cast = graph.insert_new_node_on_input(node, "Cast", name, to=to)
        graph.copy_shape(name, cast.output[0])


def _convert_by_cast(
    own: str, onnx_op: str, casts: Mapping[int, int], graph: TfGraph, node: TfNode, **options: object
) -> None:
    """Have tf2onnx's handler of this name compute some dtypes in others: `casts`, by ONNX's numbers."""
    tf_op, node.type = node.type, onnx_op
    dtype = graph.get_dtype(node.output[0])
    if dtype in casts:
        _cast_inputs(graph, node, [name for name in node.input if graph.get_dtype(name) == dtype], casts[dtype])
        graph.set_dtype(node.output[0], casts[dtype])
        back = graph.insert_new_node_on_output("Cast", node.output[0], to=dtype)
        graph.copy_shape(node.output[0], back.output[0])
    getattr(private_tf2onnx, own).version_11(graph, node, tf_op=tf_op, **options)


_PADDED_AS = {**dict.fromkeys(_SMALL, Dtype.INT32), Dtype.UINT32: Dtype.INT64, Dtype.UINT64: Dtype.INT64}
_convert_pad = partial(_convert_by_cast, "Pad", "Pad", _PADDED_AS)
_convert_pool = partial(_convert_by_cast, "PoolOp", "MaxPool", {Dtype.INT32: Dtype.DOUBLE, Dtype.INT64: Dtype.DOUBLE})


def _sum(w: NodeWriter, *terms: str) -> str:
    if not w.is_integer:
        return w.call("Sum", *terms)
    total, *rest = terms
    for term in rest:
        total = w.call("Add", total, term)
    return total


def _inverse_permutation(w: NodeWriter, order: str) -> str:
    """Write at each number's place where it stands in the order."""
    places = w.call("Range", w.constant(0), w.size(order, 0), w.constant(1))
    return w.call("ScatterElements", order, order, w.like(places, order))


def _truncated_mod(w: NodeWriter, x: str, y: str) -> str:
    """Write the remainder of the quotient rounded towards zero, with the sign of x. ONNX Runtime's fmod of integers
    goes by float64."""
    return w.sub(x, w.mul(w.call("Div", x, y), y)) if w.is_integer else w.call("Mod", x, y, fmod=1)


PATCHES = (
    *handlers(
        {"Erfc": computed(lambda w, x: w.sub(w.number(1), w.call("Erf", x)))},
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
        {"TFL_FLOOR_DIV": _widen_floor_div},
        why="of floats LiteRT divides in double, and rounds down what TensorFlow has rounded up",
        upstream="tf2onnx/tflite_handlers/tfl_direct.py:33",
        until="LiteRT's FLOOR_DIV divides as TensorFlow's does, or tf2onnx divides in double",
    ),
    *handlers(
        {"Select": _convert_select, "SelectV2": _convert_select},
        why="it writes c * x + (1 - c) * y and reports success: NaN and infinities come through from the side that is "
        "not chosen, and a choice between sizes is no longer seen as one",
        upstream="tf2onnx/onnx_opset/controlflow.py:136",
        until="tf2onnx writes Where for every choice",
    ),
    *handlers(
        {"Bitcast": _convert_sign},
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
    *handlers(
        dict.fromkeys(("Less", "Greater"), _convert_comparison),
        why="it casts both sides to float32, and reports success: 16777216 < 16777217 is false",
        upstream="tf2onnx/onnx_opset/logical.py:128",
        until="tf2onnx compares integers as integers",
    ),
    *handlers(
        dict.fromkeys(("Pad", "PadV2", "MirrorPad"), _convert_pad),
        why="dtypes that ONNX Runtime does not pad it casts to float32; of small integers not the pad value",
        upstream="tf2onnx/onnx_opset/nn.py:821",
        until="tf2onnx pads integers as integers",
    ),
    *handlers(
        dict.fromkeys(("MaxPool", "MaxPoolV2"), _convert_pool),
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
    *handlers(
        {"InvertPermutation": computed(_inverse_permutation)},
        why="the dtypes that it declares are not those of the operators that it writes",
        upstream="tf2onnx/onnx_opset/math.py:1016",
        until="tf2onnx declares the dtypes that it writes",
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
            "TruncateMod": computed(_truncated_mod),
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
