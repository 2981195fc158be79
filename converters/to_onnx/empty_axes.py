"""Repairs for empty tensors in ONNX models of torch's exporters.

A size of 0 in a computed shape means 0, as in PyTorch. By default ONNX's Reshape takes a 0 for "as long as before", and
torch's exporters leave that default.

ONNX Runtime 1.31 does not reduce an empty tensor along a negative axis: (0, 7) stays (0, 7) instead of becoming (0,),
as in `x[mask].sum(-1)` where the mask selects nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from ...models.signature import Array
from ..lazy_import import onnx

_ALLOWZERO_OPSET = 14  # the first opset with `allowzero`
_SHAPE_OPERATORS = ("Cast", "Concat", "Identity", "Unsqueeze")  # assemble a shape


def keep_zeros(graph: onnx.GraphProto, opset: int) -> None:
    """Set `allowzero` on every Reshape to a computed shape.

    A shape with a constant 0 is left: that zero has ONNX's meaning. With a -1 beside a size of 0 PyTorch has no answer
    either.
    """
    if opset < _ALLOWZERO_OPSET:
        return
    shaping = [node for node in graph.node if node.op_type in ("Reshape", *_SHAPE_OPERATORS)]
    known = _constants(graph, {name for node in shaping for name in node.input})
    producers = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        if node.op_type == "Reshape":
            parts = list(_parts(node.input[1], producers, known))
            constants = [part for part in parts if part is not None]
            if len(constants) < len(parts) and all(part.all() for part in constants):
                attributes = [item for item in node.attribute if item.name != "allowzero"]
                del node.attribute[:]
                node.attribute.extend([*attributes, onnx.helper.make_attribute("allowzero", 1)])


def _parts(name: str, producers: Mapping[str, onnx.NodeProto], known: Mapping[str, Array]) -> Iterator[Array | None]:
    """Yield the parts of a shape: constants, and None for a computed part."""
    node = producers.get(name)
    if node is not None and node.op_type in _SHAPE_OPERATORS:
        for operand in node.input if node.op_type == "Concat" else node.input[:1]:
            yield from _parts(operand, producers, known)
    else:
        yield known.get(name)


def _constants(graph: onnx.GraphProto, names: Collection[str]) -> dict[str, Array]:
    """Return the constants of the graph among these values."""
    tensors = [tensor for tensor in graph.initializer if tensor.name in names and not tensor.external_data]
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in tensors}
    for node in graph.node:
        if node.op_type == "Constant" and node.output[0] in names and not node.attribute[0].t.external_data:
            value = onnx.helper.get_attribute_value(node.attribute[0])
            is_tensor = node.attribute[0].name == "value"
            constants[node.output[0]] = onnx.numpy_helper.to_array(value) if is_tensor else np.asarray(value)
    return constants


def count_from_the_front(model: onnx.ModelProto, never_empty: Collection[str]) -> None:
    """Make reduction axes non-negative where the tensor may be empty and its rank is known.

    `never_empty`: the names of sizes that are never 0.
    """
    graph = model.graph
    reduced = [node for node in graph.node if node.op_type.startswith("Reduce") or node.op_type in ("ArgMax", "ArgMin")]
    known = _constants(graph, {node.input[1] for node in reduced if len(node.input) > 1})
    negative = [(node, axes) for node in reduced if min(axes := _axes(node, known), default=0) < 0]
    shapes = _shapes(model) if negative else {}
    for node, axes in negative:
        shape = shapes.get(node.input[0], [])
        if any(_may_be_empty(size, never_empty) for size in shape):
            _write_axes(graph, node, [axis % len(shape) for axis in axes], f"{node.output[0]}/axes")


def _may_be_empty(size: onnx.TensorShapeProto.Dimension, never_empty: Collection[str]) -> bool:
    return size.dim_value == 0 if size.HasField("dim_value") else size.dim_param not in never_empty


def _shapes(model: onnx.ModelProto) -> dict[str, list[onnx.TensorShapeProto.Dimension]]:
    """Return the shape of every value of known rank, as the exporter declares or ONNX infers it."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.input, *graph.output)}
    return {name: list(tensor_type.shape.dim) for name, tensor_type in types.items() if tensor_type.HasField("shape")}


def _axes_attribute(node: onnx.NodeProto) -> onnx.AttributeProto | None:
    return next((attribute for attribute in node.attribute if attribute.name in ("axis", "axes")), None)


def _axes(node: onnx.NodeProto, known: Mapping[str, Array]) -> list[int]:
    """Return the axes of a node that are an attribute or a constant."""
    if attribute := _axes_attribute(node):
        return [*attribute.ints] or [attribute.i]
    axes = known.get(node.input[1]) if len(node.input) > 1 else None
    return [] if axes is None else [int(axis) for axis in axes.reshape(-1)]


def _write_axes(graph: onnx.GraphProto, node: onnx.NodeProto, axes: list[int], name: str) -> None:
    attribute = _axes_attribute(node)
    if attribute is None:
        graph.initializer.append(onnx.helper.make_tensor(name, onnx.TensorProto.INT64, [len(axes)], axes))
        node.input[1] = name
    elif attribute.name == "axis":
        attribute.i = axes[0]
    else:
        attribute.ints[:] = axes
