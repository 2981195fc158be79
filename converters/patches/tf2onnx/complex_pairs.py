"""Complex numbers for tf2onnx: a complex tensor becomes a pair, floats with the real and the imaginary part along one
more axis at the end. `as_pairs` is a rewriter for tf2onnx, which itself has a transform only where ComplexAbs reads it.

Most operators that move elements stay TensorFlow's: they take the pair with the last axis left as it is. Those that
compute with complex numbers are written by their definitions, the transforms in spectra.py. Whatever else takes or
gives complex numbers is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ....models.errors import Refused
from .fourier import TRANSFORMS, dtype_of, imaginary, leading, paired, real
from .loop_counting import Builder, Graph, Node

_FIX = "serve this model as SavedModel, or compute that with real and imaginary parts"


def register_pairs() -> None:
    """Tell tf2onnx of TFLite's operators that become TensorFlow's, and take out its rewriter of TFLite's transforms: it
    leaves numbers that are no longer complex called so."""
    from tf2onnx import tfonnx
    from tf2onnx.handler import tfl_op
    from tf2onnx.tflite_handlers.tfl_direct import TflDirectOp

    tfl_op("TFL_REAL", tf_op="Real")(TflDirectOp)
    tfl_op("TFL_IMAG", tf_op="Imag")(TflDirectOp)
    tfonnx.rewrite_tfl_rfft = lambda _graph, nodes: nodes


def as_pairs(graph: Graph, nodes: list[Node]) -> list[Node]:
    """The nodes of a graph after it has no complex tensor any more.

    Raises Refused where an operator with complex numbers is none of those below.
    """
    complex_ones = {name for node in nodes for name in node.output if _floats(graph.get_dtype(name)) is not None}
    if not complex_ones:
        return nodes
    graph.topological_sort(nodes)
    for node in list(graph.get_nodes()):
        if not complex_ones.isdisjoint([*node.input, *node.output]):
            _rewrite(graph, node, complex_ones)
    if not complex_ones.isdisjoint(graph.outputs):
        raise Refused("an output of the model is complex, and no serving format takes that", fix=_FIX)
    return list(graph.get_nodes())


def _rewrite(graph: Graph, node: Node, complex_ones: set[str]) -> None:
    dtypes = [_floats(dtype) or dtype for dtype in node.output_dtypes]
    shapes = [
        [*shape, 2] if name in complex_ones and shape is not None else shape
        for name, shape in zip(node.output, node.output_shapes, strict=True)
    ]
    b = Builder(graph, node.name)
    if node.type in _MOVING and complex_ones.issuperset(node.output):
        _MOVING[node.type](b, node)
        for name, shape, dtype in zip(node.output, shapes, dtypes, strict=True):
            graph.set_dtype(name, dtype)
            if shape is not None:
                graph.set_shape(name, shape)
        return
    write = _WRITTEN.get(node.type)
    given = [name in complex_ones for name in node.input]
    made = write(b, node, given) if write is not None else None
    if made is None:
        raise Refused(f"no ONNX is known for {node.type} ({node.name}) of complex numbers", fix=_FIX)
    output = list(node.output)
    graph.remove_node(node.name)
    graph.make_node("Identity", [made], outputs=output, name=node.name, shapes=shapes, dtypes=dtypes)


def _floats(dtype: int | None) -> int | None:
    """ONNX's dtype of the parts of complex numbers; None of what is not complex."""
    from onnx import TensorProto

    if dtype not in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        return None
    return int(TensorProto.FLOAT if dtype == TensorProto.COMPLEX64 else TensorProto.DOUBLE)


# Operators that stay TensorFlow's. Each is told of the axis more.


def _as_it_is(_b: Builder, _node: Node) -> None:
    """The axis at the end changes nothing."""


def _replaced(b: Builder, node: Node, at: int, change: Callable[[Any], Any]) -> None:
    """A constant input changed."""
    given = node.inputs[at]
    if not given.is_const():
        raise Refused(f"the axes of {node.type} ({node.name}) of complex numbers are computed by the model", fix=_FIX)
    value = given.get_tensor_value(as_list=False)
    b.graph.replace_input(node, node.input[at], b.constant(change(value), value.dtype), at)


def _before_the_last(axes: Any) -> Any:
    """Axes that are counted from the end, counted from before the pairs."""
    return np.where(np.asarray(axes) < 0, np.asarray(axes) - 1, axes)


def _of_axes(at: int) -> Callable[[Builder, Node], None]:
    """An operator whose input at this place names axes."""
    return lambda b, node: _replaced(b, node, at % len(node.input), _before_the_last)


def _of_axis_attributes(name: str) -> Callable[[Builder, Node], None]:
    """An operator of which an attribute names axes, or one."""

    def told(_b: Builder, node: Node) -> None:
        found = node.get_attr_value(name)
        if found is not None:
            node.set_attr(name, _before_the_last(found).tolist())

    return told


def _with_ends(ends: Mapping[int, int | list[int]]) -> Callable[[Builder, Node], None]:
    """An operator whose inputs at these places say something of each axis, and this of the pairs'."""

    def told(b: Builder, node: Node) -> None:
        for at, end in ends.items():
            if node.inputs[at].is_const():
                _replaced(b, node, at, partial(_and, end=end))
            else:
                name = node.input[at]
                more = b.constant([end], dtype_of(b, name))
                b.graph.replace_input(node, name, b.call("Concat", name, more, axis=0), at)

    return told


def _and(values: Any, end: int | list[int]) -> list[Any]:
    return [*values, end]


def _transposed(b: Builder, node: Node) -> None:
    _replaced(b, node, 1, lambda order: [*order, len(order)])


def _sliced(b: Builder, node: Node) -> None:
    """What begins with the first axis leaves the pairs alone; behind an ellipsis they are one axis more."""
    if not node.get_attr_value("ellipsis_mask", 0):
        return
    (count,) = b.graph.get_shape(node.input[1])
    _with_ends({1: 0, 2: 0, 3: 1})(b, node)
    for mask in ("begin_mask", "end_mask"):
        node.set_attr(mask, node.get_attr_value(mask, 0) | 1 << count)


def _chosen(b: Builder, node: Node) -> None:
    asked = b.call("Unsqueeze", node.input[0], b.constant([-1]))
    b.graph.replace_input(node, node.input[0], asked, 0)


_MOVING: Mapping[str, Callable[[Builder, Node], None]] = {
    **dict.fromkeys(("Identity", "StopGradient", "Snapshot", "ZerosLike", "AddV2", "Add", "Sub", "AddN", "Neg"),
                    _as_it_is),
    **dict.fromkeys(("Reshape", "BroadcastTo"), _with_ends({1: 2})),
    **dict.fromkeys(("Pack", "Unpack"), _of_axis_attributes("axis")),
    **dict.fromkeys(("ExpandDims", "ReverseV2", "Sum", "Mean", "Cumsum"), _of_axes(1)),
    **dict.fromkeys(("GatherV2", "SplitV"), _of_axes(2)),
    "ConcatV2": _of_axes(-1),
    "Pad": _with_ends({1: [0, 0]}),
    "SelectV2": _chosen,
    "Slice": _with_ends({1: 0, 2: -1}),
    "Split": _of_axes(0),
    "Squeeze": _of_axis_attributes("squeeze_dims"),
    "StridedSlice": _sliced,
    "Tile": _with_ends({1: 1}),
    "Transpose": _transposed,
}  # fmt: skip

# Operators that are written anew: of the builder, the node and which of its inputs are pairs, the result, or None.
Compute = Callable[[Builder, Node, list[bool]], "str | None"]


def _constant(b: Builder, node: Node, _given: list[bool]) -> str:
    value = node.get_tensor_value(as_list=False)
    return b.constant(np.stack([value.real, value.imag], -1), value.real.dtype)


def _cast(b: Builder, node: Node, given: list[bool]) -> str:
    """To a complex number, from one (of which TensorFlow takes the real part), or from one to a wider one."""
    to = node.get_attr_value("to")
    floats = _floats(to)
    if floats is None:
        return b.call("Cast", real(b, node.input[0]), to=to)
    cast = b.call("Cast", node.input[0], to=floats)
    return cast if given[0] else paired(b, cast, b.zero(floats))


def _product(b: Builder, x: str, y: str) -> str:
    (a, c), (e, f) = ((real(b, each), imaginary(b, each)) for each in (x, y))
    return paired(
        b,
        b.call("Sub", b.call("Mul", a, e), b.call("Mul", c, f)),
        b.call("Add", b.call("Mul", a, f), b.call("Mul", c, e)),
    )


def _conjugate(b: Builder, x: str) -> str:
    return paired(b, real(b, x), b.call("Neg", imaginary(b, x)))


def _quotient(b: Builder, x: str, y: str) -> str:
    """X times the conjugate of y, by the square of y's length."""
    over = b.call("ReduceSumSquare", y, b.constant([-1]), keepdims=1)
    return b.call("Div", _product(b, x, _conjugate(b, y)), over)


def _exponential(b: Builder, x: str) -> str:
    length, angle = b.call("Exp", real(b, x)), imaginary(b, x)
    return paired(b, b.call("Mul", length, b.call("Cos", angle)), b.call("Mul", length, b.call("Sin", angle)))


def _angle(b: Builder, x: str) -> str:
    parts = [imaginary(b, x), real(b, x)]
    kind = {"shapes": [b.graph.get_shape(parts[0])], "dtypes": [b.graph.get_dtype(x)]}
    return str(b.graph.make_node("Atan2", parts, skip_conversion=False, **kind).output[0])


def _shape(b: Builder, node: Node, _given: list[bool]) -> str:
    return b.call("Cast", leading(b, node.input[0], -1), to=b.graph.get_dtype(node.output[0]))


def _transform(write: Callable[[Builder, Node], str], b: Builder, node: Node, _given: list[bool]) -> str:
    return write(b, node)


def _of(compute: Callable[..., str]) -> Compute:
    """An operator that takes nothing but complex numbers."""
    return lambda b, node, given: compute(b, *node.input) if all(given) else None


_WRITTEN: Mapping[str, Compute] = {
    "Angle": _of(_angle),
    "Cast": _cast,
    "Complex": lambda b, node, _: paired(b, *node.input),
    "ComplexAbs": _of(lambda b, x: b.call("ReduceL2", x, b.constant([-1]), keepdims=0)),
    "Conj": _of(_conjugate),
    "Const": _constant,
    "Exp": _of(_exponential),
    "Imag": _of(imaginary),
    "Mul": _of(_product),
    "Real": _of(real),
    "Shape": _shape,
    "Square": _of(lambda b, x: _product(b, x, x)),
    **dict.fromkeys(("Div", "RealDiv"), _of(_quotient)),
    **{name: partial(_transform, write) for name, write in TRANSFORMS.items()},
}

# What the name alone says to be of complex numbers.
COMPLEX = frozenset({*TRANSFORMS, "Angle", "Complex", "ComplexAbs", "Conj", "Imag", "Real"})
