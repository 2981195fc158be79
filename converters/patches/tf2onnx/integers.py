"""Operators of whole numbers, where tf2onnx goes by float32, which has not all of them beyond 2^24, or writes what ONNX
has of floats alone.

Less, Greater      it casts both sides, and reports success: 16777216 < 16777217 is false
Pad, MaxPool       what ONNX Runtime has in another dtype it casts to float32; of small numbers not what it pads with
AddN               ONNX's Sum is of floats
TruncateMod        it has none
InvertPermutation  it says other dtypes than its operators have
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from .graph_writer import Compute, Graph, Node, Writer

_SMALL = (2, 3, 4, 5)  # uint8, int8, uint16 and int16, of onnx.TensorProto
_UINT16, _INT32, _INT64, _DOUBLE, _UINT32, _UINT64 = 4, 6, 7, 11, 12, 13
_WIDER = {_UINT16: _INT32, _UINT32: _INT64}


def register_integers() -> None:
    """Add the handlers to tf2onnx's tables."""
    from tf2onnx.handler import tf_op
    from tf2onnx.onnx_opset.nn import Pad, PoolOp

    tf_op(_COMPARED)(_compared())
    tf_op(_PADS, onnx_op="Pad")(_in(Pad, {**dict.fromkeys(_SMALL, _INT32), _UINT32: _INT64, _UINT64: _INT64}))
    tf_op(_POOLS, onnx_op="MaxPool")(_in(PoolOp, {_INT32: _DOUBLE, _INT64: _DOUBLE}))


def _compared() -> type:
    """The operator is ONNX's own, by the same name, and of every dtype; PyTorch compares no unsigned ones, so they are
    carried in wider ones with a sign, where there are such."""

    class Compared:
        @classmethod
        def version_18(cls, ctx: Graph, node: Node, **_options: object) -> None:
            if wider := _WIDER.get(ctx.get_dtype(node.input[0])):
                _cast(ctx, node, node.input, wider)

    return Compared


def _cast(graph: Graph, node: Node, names: Iterable[str], to: int) -> None:
    """Have a node read tensors in another dtype."""
    for name in dict.fromkeys(names):
        made = graph.insert_new_node_on_input(node, "Cast", name, to=to)
        graph.copy_shape(name, made.output[0])


def _in(handler: type, kinds: Mapping[int, int]) -> type:
    """A handler of tf2onnx's, for numbers of some dtypes in others: `kinds`, of ONNX, which it leaves as they are."""

    class InAnother(handler):  # type: ignore[misc]
        @classmethod
        def version_18(cls, ctx: Graph, node: Node, **options: object) -> None:
            own = ctx.get_dtype(node.output[0])
            if own in kinds:
                _cast(ctx, node, [each for each in node.input if ctx.get_dtype(each) == own], kinds[own])
                ctx.set_dtype(node.output[0], kinds[own])
                back = ctx.insert_new_node_on_output("Cast", node.output[0], to=own)
                ctx.copy_shape(node.output[0], back.output[0])
            super().version_11(ctx, node, **options)

    return InAnother


def _sum(w: Writer, *terms: str) -> str:
    if not w.is_whole:
        return w.call("Sum", *terms)
    total, *others = terms
    for each in others:
        total = w.call("Add", total, each)
    return total


def _inverted(w: Writer, order: str) -> str:
    """At each place where it is in the order."""
    places = w.call("Range", w.constant(np.int64(0)), w.size(order, 0), w.constant(np.int64(1)))
    return w.call("ScatterElements", order, order, w.like(places, order))


def _left(w: Writer, x: str, y: str) -> str:
    """What is left of x when the quotient is rounded towards zero, with the sign of x. ONNX Runtime's own goes by
    float64."""
    return w.sub(x, w.mul(w.call("Div", x, y), y)) if w.is_whole else w.call("Mod", x, y, fmod=1)


WHOLE: Mapping[str, Compute] = {
    "AddN": _sum,
    "InvertPermutation": _inverted,
    "TruncateMod": _left,
}
_COMPARED = ["Less", "Greater"]
_PADS = ["Pad", "PadV2", "MirrorPad"]
_POOLS = ["MaxPool", "MaxPoolV2", "MaxPool3D"]
INTEGERS = frozenset(_COMPARED)  # tf2onnx alone does otherwise; of pads and pools with dtypes that are rare alone
