"""Repair of Reshape in ONNX models of torch's exporters: a size of 0 in a computed shape means 0, as in PyTorch.

By default ONNX's Reshape takes a 0 for "as long as before", and torch's exporters leave that default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from ...models.signature import Array

if TYPE_CHECKING:
    import onnx

_ALLOWZERO_OPSET = 14  # the first opset with `allowzero`
_SHAPE_OPERATORS = ("Cast", "Concat", "Identity", "Unsqueeze")  # assemble a shape


def keep_zeros(graph: onnx.GraphProto, opset: int) -> None:
    """Set `allowzero` on every Reshape to a computed shape.

    A shape with a constant 0 is left: that zero has ONNX's meaning. With a -1 beside a size of 0 PyTorch has no answer
    either.
    """
    from onnx import helper, numpy_helper

    known = {item.name: numpy_helper.to_array(item) for item in graph.initializer if not item.external_data}
    producers = {name: node for node in graph.node for name in node.output}
    for node in graph.node if opset >= _ALLOWZERO_OPSET else ():
        if node.op_type == "Reshape":
            parts = list(_parts(node.input[1], producers, known))
            constant_values = [part for part in parts if part is not None]
            if len(constant_values) < len(parts) and all(part.all() for part in constant_values):
                attributes = [item for item in node.attribute if item.name != "allowzero"]
                del node.attribute[:]
                node.attribute.extend([*attributes, helper.make_attribute("allowzero", 1)])


def _parts(name: str, producers: Mapping[str, onnx.NodeProto], known: Mapping[str, Array]) -> Iterator[Array | None]:
    """Yield the parts of a shape: constants, and None for a computed part."""
    node = producers.get(name)
    if node is None:
        yield known.get(name)
    elif node.op_type == "Constant":
        yield _constant(node)
    elif node.op_type in _SHAPE_OPERATORS:
        for operand in node.input if node.op_type == "Concat" else node.input[:1]:
            yield from _parts(operand, producers, known)
    else:
        yield None


def constant_values(graph: onnx.GraphProto, names: Collection[str]) -> dict[str, Array]:
    """Return the constants of the graph among these values."""
    from onnx import numpy_helper

    tensors = [tensor for tensor in graph.initializer if tensor.name in names and not tensor.external_data]
    nodes = [node for node in graph.node if node.op_type == "Constant" and node.output[0] in names]
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors} | {
        node.output[0]: _constant(node) for node in nodes
    }


def _constant(node: onnx.NodeProto) -> Array:
    import numpy as np
    from onnx import helper, numpy_helper

    value = helper.get_attribute_value(node.attribute[0])
    return numpy_helper.to_array(value) if node.attribute[0].name == "value" else np.asarray(value)
