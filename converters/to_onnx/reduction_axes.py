"""Repair of negative reduction axes in ONNX models of torch's exporters.

ONNX Runtime 1.31 does not reduce an empty tensor along a negative axis: (0, 7) stays (0, 7) instead of becoming (0,),
as in `x[mask].sum(-1)` where the mask selects nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ...models.signature import Array
from .empty_axes import constant_values

if TYPE_CHECKING:
    import onnx


def count_from_the_front(model: onnx.ModelProto, never_empty: Collection[str]) -> None:
    """Make reduction axes non-negative where the tensor may be empty and its rank is known.

    `never_empty`: the names of sizes that are never 0.
    """
    graph = model.graph
    reduced = [node for node in graph.node if node.op_type.startswith("Reduce") or node.op_type in ("ArgMax", "ArgMin")]
    known = constant_values(graph, {node.input[1] for node in reduced if len(node.input) > 1})
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
    import onnx

    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.input, *graph.output)}
    return {name: list(tensor_type.shape.dim) for name, tensor_type in types.items() if tensor_type.HasField("shape")}


def _axes(node: onnx.NodeProto, known: Mapping[str, Array]) -> list[int]:
    """Return the axes of a node that are an attribute or a constant."""
    for attribute in node.attribute:
        if attribute.name in ("axis", "axes"):
            return [*attribute.ints] or [attribute.i]
    axes = known.get(node.input[1]) if len(node.input) > 1 else None
    return [] if axes is None else [int(axis) for axis in axes.reshape(-1)]


def _write_axes(graph: onnx.GraphProto, node: onnx.NodeProto, axes: list[int], name: str) -> None:
    from onnx import TensorProto, helper

    attribute = next((candidate for candidate in node.attribute if candidate.name in ("axis", "axes")), None)
    if attribute is None:
        graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, [len(axes)], axes))
        node.input[1] = name
    elif attribute.name == "axis":
        attribute.i = axes[0]
    else:
        attribute.ints[:] = axes
