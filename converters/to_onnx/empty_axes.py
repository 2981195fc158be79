"""Axes that are empty, in an ONNX model of torch's exporters: a size of 0 in a computed shape means 0, as in PyTorch.

ONNX's Reshape else takes a 0 for "as long as before", and torch's exporters leave it at that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from ...models.signature import Array

if TYPE_CHECKING:
    import onnx

_SINCE = 14  # the opset that has `allowzero`
_HANDED_ON = ("Cast", "Concat", "Identity", "Unsqueeze")  # what a shape is put together with


def keep_zeros(graph: onnx.GraphProto, opset: int) -> None:
    """Let every Reshape to a computed shape take its zeros as they are, but for one in which a 0 is written down, which
    is meant as ONNX has it. With a -1 beside a size of 0 PyTorch has no answer either."""
    from onnx import helper, numpy_helper

    known = {each.name: numpy_helper.to_array(each) for each in graph.initializer if not each.external_data}
    makers = {name: node for node in graph.node for name in node.output}
    for node in graph.node if opset >= _SINCE else ():
        if node.op_type == "Reshape":
            parts = list(_parts(node.input[1], makers, known))
            written = [part for part in parts if part is not None]
            if len(written) < len(parts) and all(part.all() for part in written):
                kept = [each for each in node.attribute if each.name != "allowzero"]
                del node.attribute[:]
                node.attribute.extend([*kept, helper.make_attribute("allowzero", 1)])


def _parts(name: str, makers: Mapping[str, onnx.NodeProto], known: Mapping[str, Array]) -> Iterator[Array | None]:
    """What a shape is put together of: constants, and None for what is computed."""
    node = makers.get(name)
    if node is None:
        yield known.get(name)
    elif node.op_type == "Constant":
        yield _constant(node)
    elif node.op_type in _HANDED_ON:
        for each in node.input if node.op_type == "Concat" else node.input[:1]:
            yield from _parts(each, makers, known)
    else:
        yield None


def constants(graph: onnx.GraphProto, names: Collection[str]) -> dict[str, Array]:
    """Of these values those that are written down in the graph."""
    from onnx import numpy_helper

    tensors = [each for each in graph.initializer if each.name in names and not each.external_data]
    nodes = [node for node in graph.node if node.op_type == "Constant" and node.output[0] in names]
    return {each.name: numpy_helper.to_array(each) for each in tensors} | {
        node.output[0]: _constant(node) for node in nodes
    }


def _constant(node: onnx.NodeProto) -> Array:
    import numpy as np
    from onnx import helper, numpy_helper

    value = helper.get_attribute_value(node.attribute[0])
    return numpy_helper.to_array(value) if node.attribute[0].name == "value" else np.asarray(value)
