"""Reads what a graph of tf2onnx says of a tensor: the tensor it copies, the number or the array it always holds."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from .tf2onnx_graphs import TfGraph, TfNode


def copy_source(graph: TfGraph, name: str) -> str:
    """Return the tensor that `name` is a copy of, through any chain of Identity nodes."""
    node = graph.get_node_by_output(name)
    return copy_source(graph, node.input[0]) if node is not None and node.type == "Identity" else name


def integer_source(graph: TfGraph, name: str) -> str:
    """Return the number that `name` is a copy of, also through a Cast of an int32 or int64."""
    from onnx import TensorProto

    name = copy_source(graph, name)
    node = graph.get_node_by_output(name)
    integers = (TensorProto.INT32, TensorProto.INT64)
    is_cast = node is not None and node.type == "Cast" and graph.get_dtype(node.input[0]) in integers
    return integer_source(graph, node.input[0]) if node is not None and is_cast else name


def constant_of(node: TfNode | None) -> NDArray[Any] | None:
    """Return the array that a constant node holds, or None for any other node and for none."""
    return node.get_tensor_value(as_list=False) if node is not None and node.is_const() else None


def constant_integer(graph: TfGraph, name: str) -> int | None:
    """Return the integer that a tensor without axes always holds, or None."""
    value = constant_of(graph.get_node_by_output(integer_source(graph, name)))
    return int(value) if value is not None and not value.ndim and value.dtype.kind == "i" else None
