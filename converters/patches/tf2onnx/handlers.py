"""Operators that tf2onnx 1.17 has no ONNX for, or the wrong one. `register` adds them to its tables in this process.

Erfc              tf2onnx writes an operator `Erfc`, which ONNX does not have, and reports success
FloorDiv          of whole numbers it writes ONNX's Div, which rounds towards zero, and reports success
FloorMod          the same; of floats it is a divisor off where the quotient was rounded up to a whole number
TFL_FLOOR_DIV     of floats LiteRT divides in double, and rounds down what TensorFlow has rounded up
Expm1, Log1p      by their definitions, and near 0 by others that keep the last digits
Select, SelectV2  it writes c * x + (1 - c) * y and reports success: NaN and infinities come through from the side that
                  is not chosen, and a choice between sizes is no longer seen as one
BroadcastArgs     of two shapes the one that both can be broadcast to, also as TFL_BROADCAST_ARGS
Bitcast           of a float for the sake of its sign, as Keras's argmax reads it; any other is left over
Bucketize         the number of boundaries that are not larger
OneHot            ONNX's counts from the end where an index is negative, and TensorFlow's is off everywhere
TFL_GELU          both forms, by their definitions (https://onnx.ai/onnx/operators/onnx__Gelu.html)
TFL_RELU_N1_TO_1  the two rectifiers of TFLite that have another upper bound than 6
TFL_RELU_0_TO_1
ScatterNd, Segment...  see segments.py
InTopKV2, TopKV2, MatrixDiagPart...  see places.py
CropAndResize     see crops.py
Less, Greater...  see integers.py
Conv2DBackprop..  see transposed.py
...CrossEntropy.. it takes the log of a softmax, which far apart is the log of 0
Reshape           to [n, -1] it makes a Flatten, whosever size n is: an example's frames were one
BatchToSpaceND    see dilations.py
While, TensorList...  see loops.py
FFT, Real, Complex... see pairs.py, which is a rewriter and no handler
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from .complex_pairs import COMPLEX, register_pairs
from .crop_and_resize import crop_and_resize
from .dilated_convolutions import Rewriter, with_open_sizes
from .graph_writer import Compute, Graph, Node, Writer
from .integers import INTEGERS, WHOLE, register_integers
from .loop_counting import source
from .search_operators import PLACES, in_top_k, register_places
from .segments import SEGMENTS
from .sized_transposed_convolution import TRANSPOSED, register_transposed
from .while_loops import LOOPS, register_loops


@cache
def register() -> None:
    """Add the handlers; a second call does nothing."""
    from tf2onnx import tfonnx
    from tf2onnx.handler import tf_op, tfl_op

    for name, compute in _WRITTEN.items():
        tf_op(name)(_handler(compute))
    tf_op(_CHOICES)(_choice())
    tf_op(_SIGN)(_sign())
    tfl_op(_QUOTIENT, tf_op="FloorDiv")(_quotient())
    tfonnx.rewrite_flatten = _flattening_alone(tfonnx.rewrite_flatten)
    tfonnx.rewrite_conv_dilations = with_open_sizes(tfonnx.rewrite_conv_dilations)
    register_integers()
    register_places()
    register_transposed()
    register_loops()
    register_pairs()


def _flattening_alone(rewrite: Rewriter) -> Rewriter:
    """tf2onnx's rewriter, kept from what is not reshaped by its own first size."""

    def rewritten(graph: Graph, nodes: Sequence[Node]) -> Sequence[Node]:
        for node in nodes:
            if node.type == "Reshape" and not _by_own_size(graph, node):
                graph.insert_new_node_on_input(node, "Identity", node.input[1], input_index=1)
        return rewrite(graph, graph.get_nodes())

    return rewritten


def _by_own_size(graph: Graph, reshape: Node) -> bool:
    """Whether the size that a shape begins with, where one is asked for, is the tensor's own."""
    found = reshape
    for kind, at in (("Pack", 1), ("StridedSlice", 0), ("Shape", 0)):
        found = found.inputs[at]
        if found is None or found.type != kind:
            return True
    return source(graph, found.input[0]) == source(graph, reshape.input[0])


def _choice() -> type:
    """tf2onnx's own handler, told what it finds out for some choices alone: that a side may be no number."""
    from tf2onnx.onnx_opset.controlflow import Select

    class Choice:
        @classmethod
        def version_11(cls, ctx: Graph, node: Node, **options: object) -> None:
            node.set_attr("handles_nan", True)
            Select.version_9(ctx, node, **options)

    return Choice


def _quotient() -> type:
    """TensorFlow's operator, in LiteRT's precision."""

    class Quotient:
        @classmethod
        def to_tf(cls, ctx: Graph, node: Node, **_options: object) -> None:
            if ctx.get_dtype(node.input[0]) != _FLOAT:
                return
            for name in tuple(node.input):
                ctx.insert_new_node_on_input(node, "Cast", name, to=_DOUBLE)
            ctx.set_dtype(node.output[0], _DOUBLE)
            ctx.insert_new_node_on_output("Cast", node.output[0], to=_FLOAT)

    return Quotient


def _sign() -> type:
    """In the place of a float's bits, of which the sign alone is used: the bit of the sign, and no others."""

    class Sign:
        @classmethod
        def version_11(cls, ctx: Graph, node: Node, **_options: object) -> None:
            users = ctx.find_output_consumers(node.output[0])
            if ctx.get_dtype(node.input[0]) != _FLOAT or not users or not all(map(_takes_sign, users)):
                return
            w, x = Writer(ctx, node), node.input[0]
            zero = w.constant(np.float32(0))
            negative = w.call("Or", w.call("Less", x, zero), w.call("Less", w.call("Reciprocal", x), zero))  # also -0
            sign = w.call("Where", negative, w.number(_SIGN_BIT), w.number(0))
            for user in users:
                ctx.replace_all_inputs(user.output[0], sign)

    return Sign


def _takes_sign(user: Node) -> bool:
    masks = [each.get_tensor_value(as_list=False) for each in user.inputs if each.is_const()]
    return user.type == "BitwiseAnd" and len(masks) == 1 and bool(np.all(masks[0] == _SIGN_BIT))


def _buckets(w: Writer, x: str) -> str:
    """How many boundaries are not larger than x, of which none is a number larger than all. TensorFlow keeps them in
    float32, and compares whole numbers as such."""
    wide = w.graph.get_dtype(x) == _DOUBLE
    x = x if wide else w.cast(x, _FLOAT)
    found = w.number(0)
    for boundary in w.node.get_attr_value("boundaries"):
        below = w.call("Less", x, w.constant(np.float64(boundary) if wide else np.float32(boundary)))
        found = w.call("Add", found, w.call("Where", below, w.number(0), w.number(1)))
    return found


def _one_hot(w: Writer, indices: str, depth: str, on: str, off: str) -> str:
    """`on` where the place along the new axis is the index."""
    axis = w.node.get_attr_value("axis", -1)
    zero, one = (w.constant(np.int64(value)) for value in (0, 1))
    places, indices = w.call("Range", zero, w.cast(depth, _INT64), one), w.cast(indices, _INT64)
    if axis >= 0 and (behind := w.graph.get_rank(indices) - axis):
        places = w.call("Reshape", places, w.constant([-1, *[1] * behind]))
    return w.call("Where", w.call("Equal", w.unsqueezed(indices, axis), places), on, off)


def _broadcast_shape(w: Writer, a: str, b: str) -> str:
    """Right-aligned, of each pair of sizes the one that is not 1."""
    a, b = w.in_front(a, w.length(b) - w.length(a)), w.in_front(b, w.length(a) - w.length(b))
    return w.call("Where", w.call("Equal", a, w.number(1)), b, a)


def _gelu(w: Writer, x: str) -> str:
    """The product of x and the normal distribution's share below x, or the approximation of it by tanh."""
    if w.node.get_attr_value("approximate", False):
        cubic = w.mul(w.number(0.044715), w.mul(x, w.mul(x, x)))
        share = w.call("Tanh", w.mul(w.number(math.sqrt(2 / math.pi)), w.call("Add", x, cubic)))
    else:
        share = w.call("Erf", w.mul(x, w.number(math.sqrt(0.5))))
    return w.mul(w.mul(x, w.number(0.5)), w.call("Add", w.number(1), share))


def _floor_div(w: Writer, x: str, y: str) -> str:
    """The quotient rounded down. What Mod leaves over is taken off first: the rest divides without a remainder."""
    return w.call("Div", w.sub(x, w.call("Mod", x, y)), y) if w.is_whole else w.call("Floor", w.call("Div", x, y))


def _floor_mod(w: Writer, x: str, y: str) -> str:
    """What is left of x, with the sign of y. Of floats as TensorFlow does it: what is left when rounding towards zero,
    which is exact, and once more y where that has the other sign."""
    if w.is_whole:
        return w.call("Mod", x, y)
    left, zero = w.call("Mod", x, y, fmod=1), w.number(0)
    other_sign = w.call("Xor", w.call("Less", left, zero), w.call("Less", y, zero))
    is_none = w.call("Equal", left, zero)
    return w.call("Where", w.call("And", other_sign, w.call("Not", is_none)), w.call("Add", left, y), left)


def _cross_entropy(w: Writer, logits: str, labels: str) -> Sequence[str]:
    """The loss of each sample by the shares of its classes, and what it gives to the logits."""
    loss = w.call("ReduceSum", w.mul(labels, w.call("LogSoftmax", logits, axis=-1)), w.constant([-1]), keepdims=0)
    return w.call("Neg", loss), w.sub(w.call("Softmax", logits, axis=-1), labels)


def _sparse_cross_entropy(w: Writer, logits: str, labels: str) -> Sequence[str]:
    """The same by the one class of each sample."""
    ends = w.constant(np.array([0, 1], np.float64))
    one_hot = w.call("OneHot", w.cast(labels, _INT64), w.size(logits, -1), w.like(ends, logits), axis=-1)
    return _cross_entropy(w, logits, one_hot)


def _expm1(w: Writer, x: str) -> str:
    """exp(x) - 1. Near 0 by the numbers that are left after rounding: (u - 1) x / log(u), of u = exp(x) (W. Kahan)."""
    u, one = w.call("Exp", x), w.number(1)
    less = w.sub(u, one)
    return _near_zero(w, x, u, w.call("Div", w.mul(less, x), w.call("Log", u)), less)


def _log1p(w: Writer, x: str) -> str:
    """log(1 + x). Near 0 by the numbers that are left after rounding: log(u) x / (u - 1), of u = 1 + x (W. Kahan)."""
    one = w.number(1)
    u = w.call("Add", x, one)
    log = w.call("Log", u)
    return _near_zero(w, x, u, w.call("Div", w.mul(log, x), w.sub(u, one)), log)


def _near_zero(w: Writer, x: str, u: str, near: str, far: str) -> str:
    """`near` where x is small, x itself where that is too small to change `u` from 1, else `far`."""
    is_lost = w.call("Equal", u, w.number(1))
    is_near = w.call("Less", w.call("Abs", x), w.number(0.5))
    return w.call("Where", is_lost, x, w.call("Where", is_near, near, far))


def _handler(compute: Compute) -> type:
    """A class as tf2onnx wants it: an opset that has all of the operators above stands in the method's name, and what
    tf2onnx has for none after it."""

    class Handler:
        @classmethod
        def version_18(cls, ctx: Graph, node: Node, **_options: object) -> None:
            w = Writer(ctx, node)
            made = compute(w, *node.input)
            w.replace([made] if isinstance(made, str) else made)

    return Handler


_WRITTEN: Mapping[str, Compute] = {
    "Erfc": lambda w, x: w.sub(w.number(1), w.call("Erf", x)),
    "FloorDiv": _floor_div,
    "FloorMod": _floor_mod,
    "Expm1": _expm1,
    "Log1p": _log1p,
    "BroadcastArgs": _broadcast_shape,
    "Bucketize": _buckets,
    "CropAndResize": crop_and_resize,
    "OneHot": _one_hot,
    "InTopKV2": in_top_k,
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "SparseSoftmaxCrossEntropyWithLogits": _sparse_cross_entropy,
    **SEGMENTS,
    **WHOLE,
    "TFL_BROADCAST_ARGS": _broadcast_shape,
    "TFL_GELU": _gelu,
    "TFL_RELU_N1_TO_1": lambda w, x: w.call("Clip", x, w.number(-1), w.number(1)),
    "TFL_RELU_0_TO_1": lambda w, x: w.call("Clip", x, w.number(0), w.number(1)),
}
_CHOICES = ["Select", "SelectV2"]
_SIGN = "Bitcast"
_QUOTIENT = "TFL_FLOOR_DIV"
_SIGN_BIT = -(2**31)
_FLOAT, _INT64, _DOUBLE = 1, 7, 11  # onnx.TensorProto
_JOINED = "BatchToSpaceND"
_OTHERS = {*_CHOICES, _SIGN, _JOINED}
# What tf2onnx alone does otherwise.
MENDED = frozenset({*_WRITTEN, *_OTHERS, *INTEGERS, *PLACES, *TRANSPOSED, *COMPLEX, *LOOPS})
