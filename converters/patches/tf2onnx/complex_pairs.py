"""Complex numbers for tf2onnx: a complex tensor becomes a pair, floats with the real and the imaginary part along one
more axis at the end. `rewrite_complex_as_pairs` is a rewriter for tf2onnx, which by itself converts a transform only
where ComplexAbs reads it.

Most operators that move elements stay TensorFlow's: they take the pair with the last axis left as it is. Those that
compute with complex numbers are written by their definitions, the transforms in fourier.py. Any other operator that
takes or returns complex numbers is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ....models.errors import Refused
from ..ledger import TF2ONNX, Kind, always, handlers, patches
from .fourier import TRANSFORMS, imaginary, leading_sizes, paired, real
from .graph_writer import TfGraphWriter
from .tf2onnx_graphs import Dtype, TfGraph, TfNode, constant_of

_PART_DTYPES = {Dtype.COMPLEX64: Dtype.FLOAT, Dtype.COMPLEX128: Dtype.DOUBLE}
_FIX = "serve this model as SavedModel, or compute that with real and imaginary parts"


def rewrite_complex_as_pairs(graph: TfGraph, nodes: Sequence[TfNode]) -> Sequence[TfNode]:
    """Return the nodes of a graph after every complex tensor became a pair.

    Raises Refused where an operator with complex numbers is none of those below.
    """
    complex_names = {name for node in nodes for name in node.output if _part_dtype(graph.get_dtype(name)) is not None}
    if not complex_names:
        return nodes
    graph.topological_sort(nodes)
    for node in list(graph.get_nodes()):
        if not complex_names.isdisjoint([*node.input, *node.output]):
            _rewrite(graph, node, complex_names)
    if not complex_names.isdisjoint(graph.outputs):
        raise Refused("an output of the model is complex, and no serving format takes that", fix=_FIX)
    return list(graph.get_nodes())


def _rewrite(graph: TfGraph, node: TfNode, complex_names: set[str]) -> None:
    dtypes = [_part_dtype(dtype) or dtype for dtype in node.output_dtypes]
    shapes = [
        [*shape, 2] if name in complex_names and shape is not None else shape
        for name, shape in zip(node.output, node.output_shapes, strict=True)
    ]
    w = TfGraphWriter(graph, node.name)
    if node.type in _KEPT and complex_names.issuperset(node.output):
        _KEPT[node.type](w, node)
        for name, shape, dtype in zip(node.output, shapes, dtypes, strict=True):
            graph.set_dtype(name, dtype)
            if shape is not None:
                graph.set_shape(name, shape)
        return
    write = _WRITTEN.get(node.type)
    are_pairs = [name in complex_names for name in node.input]
    result = write(w, node, are_pairs) if write is not None else None
    if result is None:
        raise Refused(f"no ONNX is known for {node.type} ({node.name}) of complex numbers", fix=_FIX)
    output = list(node.output)
    graph.remove_node(node.name)
    graph.make_node("Identity", [result], outputs=output, name=node.name, shapes=shapes, dtypes=dtypes)


def _part_dtype(dtype: int | None) -> int | None:
    """Return ONNX's dtype of the parts of complex numbers; None of other dtypes."""
    return _PART_DTYPES.get(dtype) if dtype is not None else None


# Operators that stay TensorFlow's. An adapter changes what their inputs and attributes say of axes for the new one.
_Adapter: TypeAlias = Callable[[TfGraphWriter, TfNode], None]


def _keep(_w: TfGraphWriter, _node: TfNode) -> None:
    """Change nothing: the axis at the end makes no difference."""


def _change_constant(w: TfGraphWriter, node: TfNode, at: int, change: Callable[[NDArray[Any]], ArrayLike]) -> None:
    """Replace a constant input by what `change` makes of it."""
    value = constant_of(node.inputs[at])
    if value is None:
        raise Refused(f"the axes of {node.type} ({node.name}) of complex numbers are computed by the model", fix=_FIX)
    w.graph.replace_input(node, node.input[at], w.constant(change(value), value.dtype), at)


def _shifted_axes(axes: ArrayLike) -> NDArray[Any]:
    """Return axes of which those counted from the end are counted from before the axis of the parts."""
    return np.where(np.asarray(axes) < 0, np.asarray(axes) - 1, axes)


def _shift_axes_input(at: int) -> _Adapter:
    """Adapt an operator whose input at this place names axes."""
    return lambda w, node: _change_constant(w, node, at % len(node.input), _shifted_axes)


def _shift_axes_attribute(name: str) -> _Adapter:
    """Adapt an operator of which an attribute names one axis, or several."""

    def adapt(_w: TfGraphWriter, node: TfNode) -> None:
        axes = node.get_attr_value(name)
        if axes is not None:
            node.set_attr(name, _shifted_axes(axes).tolist())

    return adapt


def _append_for_parts(ends: Mapping[int, int | list[int]]) -> _Adapter:
    """Adapt an operator whose inputs at these places have an entry per axis: append that of the parts' axis."""

    def adapt(w: TfGraphWriter, node: TfNode) -> None:
        for at, end in ends.items():
            if constant_of(node.inputs[at]) is not None:
                _change_constant(w, node, at, partial(_appended, end=end))
            else:
                name = node.input[at]
                last = w.constant([end], w.numpy_dtype(name))
                w.graph.replace_input(node, name, w.call("Concat", name, last, axis=0), at)

    return adapt


def _appended(values: Iterable[Any], end: int | list[int]) -> list[Any]:
    return [*values, end]


def _adapt_strided_slice(w: TfGraphWriter, node: TfNode) -> None:
    """Adapt a slice: one without an ellipsis leaves the parts alone; behind an ellipsis they are one axis more."""
    if not node.get_attr_value("ellipsis_mask", 0):
        return
    (count,) = w.graph.get_shape(node.input[1]) or [0]
    _append_for_parts({1: 0, 2: 0, 3: 1})(w, node)
    for mask in ("begin_mask", "end_mask"):
        node.set_attr(mask, node.get_attr_value(mask, 0) | 1 << count)


_KEPT: Mapping[str, _Adapter] = {
    **dict.fromkeys(("Identity", "StopGradient", "Snapshot", "ZerosLike", "AddV2", "Add", "Sub", "AddN", "Neg"), _keep),
    **dict.fromkeys(("Reshape", "BroadcastTo"), _append_for_parts({1: 2})),
    **dict.fromkeys(("Pack", "Unpack"), _shift_axes_attribute("axis")),
    **dict.fromkeys(("ExpandDims", "ReverseV2", "Sum", "Mean", "Cumsum"), _shift_axes_input(1)),
    **dict.fromkeys(("GatherV2", "SplitV"), _shift_axes_input(2)),
    "ConcatV2": _shift_axes_input(-1),
    "Pad": _append_for_parts({1: [0, 0]}),
    "SelectV2": lambda w, node: w.graph.replace_input(node, node.input[0], w.unsqueezed(node.input[0], -1), 0),
    "Slice": _append_for_parts({1: 0, 2: -1}),
    "Split": _shift_axes_input(0),
    "Squeeze": _shift_axes_attribute("squeeze_dims"),
    "StridedSlice": _adapt_strided_slice,
    "Tile": _append_for_parts({1: 1}),
    "Transpose": lambda w, node: _change_constant(w, node, 1, lambda order: [*order, len(order)]),
}

# Operators that are written anew: a function of the writer, the node and which of its inputs are pairs returns the
# result, or None where it has none.
_ComplexCompute: TypeAlias = Callable[[TfGraphWriter, TfNode, list[bool]], str | None]


def _constant(w: TfGraphWriter, node: TfNode, _are_pairs: list[bool]) -> str:
    value = node.get_tensor_value(as_list=False)
    return w.constant(np.stack([value.real, value.imag], -1), value.real.dtype)


def _cast(w: TfGraphWriter, node: TfNode, are_pairs: list[bool]) -> str:
    """Cast to a complex number, from one (of which TensorFlow takes the real part), or from one to a wider one."""
    to = node.get_attr_value("to")
    part_dtype = _part_dtype(to)
    if part_dtype is None:
        return w.call("Cast", real(w, node.input[0]), to=to)
    cast = w.call("Cast", node.input[0], to=part_dtype)
    return cast if are_pairs[0] else paired(w, cast, w.zero(part_dtype))


def _product(w: TfGraphWriter, x: str, y: str) -> str:
    (a, c), (e, f) = ((real(w, pair), imaginary(w, pair)) for pair in (x, y))
    return paired(
        w,
        w.call("Sub", w.call("Mul", a, e), w.call("Mul", c, f)),
        w.call("Add", w.call("Mul", a, f), w.call("Mul", c, e)),
    )


def _conjugate(w: TfGraphWriter, x: str) -> str:
    return paired(w, real(w, x), w.call("Neg", imaginary(w, x)))


def _quotient(w: TfGraphWriter, x: str, y: str) -> str:
    """Multiply x by the conjugate of y, and divide by the square of y's length."""
    squared_length = w.call("ReduceSumSquare", y, w.constant([-1]), keepdims=1)
    return w.call("Div", _product(w, x, _conjugate(w, y)), squared_length)


def _exponential(w: TfGraphWriter, x: str) -> str:
    length, angle = w.call("Exp", real(w, x)), imaginary(w, x)
    return paired(w, w.call("Mul", length, w.call("Cos", angle)), w.call("Mul", length, w.call("Sin", angle)))


def _angle(w: TfGraphWriter, x: str) -> str:
    parts = [imaginary(w, x), real(w, x)]
    shapes, dtypes = [w.graph.get_shape(parts[0])], [w.graph.get_dtype(x)]
    return str(w.graph.make_node("Atan2", parts, skip_conversion=False, shapes=shapes, dtypes=dtypes).output[0])


def _shape(w: TfGraphWriter, node: TfNode, _are_pairs: list[bool]) -> str:
    return w.call("Cast", leading_sizes(w, node.input[0], -1), to=w.graph.get_dtype(node.output[0]))


def _pair_function(compute: Callable[..., str]) -> _ComplexCompute:
    """Return the function of an operator that takes nothing but complex numbers."""
    return lambda w, node, are_pairs: compute(w, *node.input) if all(are_pairs) else None


_WRITTEN: Mapping[str, _ComplexCompute] = {
    "Angle": _pair_function(_angle),
    "Cast": _cast,
    "Complex": lambda w, node, _: paired(w, *node.input),
    "ComplexAbs": _pair_function(lambda w, x: w.call("ReduceL2", x, w.constant([-1]), keepdims=0)),
    "Conj": _pair_function(_conjugate),
    "Const": _constant,
    "Exp": _pair_function(_exponential),
    "Imag": _pair_function(imaginary),
    "Mul": _pair_function(_product),
    "Real": _pair_function(real),
    "Shape": _shape,
    "Square": _pair_function(lambda w, x: _product(w, x, x)),
    **dict.fromkeys(("Div", "RealDiv"), _pair_function(_quotient)),
    **TRANSFORMS,
}

# Operators whose name alone says that they take or return complex numbers.
COMPLEX_OPERATORS = frozenset({*TRANSFORMS, "Angle", "Complex", "ComplexAbs", "Conj", "Imag", "Real"})


def _keep_node(_graph: TfGraph, _node: TfNode, **_options: object) -> None:
    """Leave an operator of TFLite as it is: registry.py gives it TensorFlow's name."""


PATCHES = (
    *handlers(
        {"TFL_REAL": _keep_node, "TFL_IMAG": _keep_node},
        why="tf2onnx does not know these operators of TFLite, and leaves them in the model",
        upstream="tf2onnx/tflite_handlers/tfl_direct.py",
        until="tf2onnx maps them to TensorFlow's",
    ),
    *patches(
        Kind.PERMANENT,
        "tf2onnx.tfonnx",
        {"rewrite_tfl_rfft": always(lambda _graph, nodes: nodes)},
        why="it leaves the complex dtype on tensors that are now real",
        upstream="tf2onnx/rewriter/rfft_tfl_rewriter.py",
        until="tf2onnx converts transforms of TFLite to tensors of the right dtype",
        seen=TF2ONNX,
    ),
    *patches(
        Kind.REWRITE,
        "tf2onnx.tfonnx.process_tf_graph",
        {"complex numbers": rewrite_complex_as_pairs},
        why="tf2onnx has no complex numbers: it converts a transform only where ComplexAbs reads it",
        upstream="tf2onnx/onnx_opset/signal.py:344",
        until="tf2onnx or ONNX has complex tensors",
        seen=TF2ONNX,
    ),
)
