"""Axes that are reduced, counted from the front in an ONNX model of torch's exporters.

ONNX Runtime 1.31 reduces no tensor without elements along an axis that is counted from the end: of (0, 7) it makes
(0, 7) and not (0,), where a mask selects nothing (`x[mask].sum(-1)`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ...models.signature import Array
from .empty_axes import constants

if TYPE_CHECKING:
    import onnx


def count_from_the_front(model: onnx.ModelProto, filled: Collection[str]) -> None:
    """Wherever the tensor may be empty, and its rank is known. `filled`: the names of sizes that never are 0."""
    graph = model.graph
    reduced = [node for node in graph.node if node.op_type.startswith("Reduce") or node.op_type in ("ArgMax", "ArgMin")]
    known = constants(graph, {node.input[1] for node in reduced if len(node.input) > 1})
    found = [(node, axes) for node in reduced if min(axes := _axes(node, known), default=0) < 0]
    shapes = _shapes(model) if found else {}
    for node, axes in found:
        shape = shapes.get(node.input[0], [])
        if any(_may_be_empty(size, filled) for size in shape):
            _write(graph, node, [axis % len(shape) for axis in axes], f"{node.output[0]}/axes")


def _may_be_empty(size: onnx.TensorShapeProto.Dimension, filled: Collection[str]) -> bool:
    return size.dim_value == 0 if size.HasField("dim_value") else size.dim_param not in filled


def _shapes(model: onnx.ModelProto) -> dict[str, list[onnx.TensorShapeProto.Dimension]]:
    """Of every value whose rank is known: what the exporter has not said, ONNX infers."""
    import onnx

    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.input, *graph.output)}
    return {name: list(each.shape.dim) for name, each in types.items() if each.HasField("shape")}


def _axes(node: onnx.NodeProto, known: Mapping[str, Array]) -> list[int]:
    """Those that are written down, as an attribute or a constant."""
    for attribute in node.attribute:
        if attribute.name in ("axis", "axes"):
            return [*attribute.ints] or [attribute.i]
    axes = known.get(node.input[1]) if len(node.input) > 1 else None
    return [] if axes is None else [int(axis) for axis in axes.reshape(-1)]


def _write(graph: onnx.GraphProto, node: onnx.NodeProto, axes: list[int], name: str) -> None:
    from onnx import TensorProto, helper

    written = next((each for each in node.attribute if each.name in ("axis", "axes")), None)
    if written is None:
        graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, [len(axes)], axes))
        node.input[1] = name
    elif written.name == "axis":
        written.i = axes[0]
    else:
        written.ints[:] = axes
