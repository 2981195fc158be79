"""TensorFlow's lists of tensors for tf2onnx: a list is one tensor with its elements along the first axis."""

from __future__ import annotations

from .graph_writer import TfGraphWriter
from .tf2onnx_graphs import Dtype, Shape, TfGraph, TfNode, copy_source


def may_grow(node: TfNode) -> bool:
    """Return whether a TensorListSetItem may write behind the end of its list."""
    return bool(node.get_attr_value("resize_if_index_out_of_bounds", False))


def reserved_zeros(w: TfGraphWriter, reserved: TfNode, shape: str, dtype: int) -> str:
    """Write a list that was only reserved, with elements of a shape (int64[rank])."""
    return w.zeros(w.int64(reserved.input[1], (1,)), shape, dtype)


def with_item_set(w: TfGraphWriter, node: TfNode) -> str:
    """Write the list that a TensorListSetItem makes of one.

    One that was only reserved is full of zeros before, and one that may grow is lengthened by zeros.
    """
    held, place, element = node.input[:3]
    shape, dtype = w.call("Shape", element), w.graph.get_dtype(element)
    if (reserve := reserved_by(w.graph, held)) is not None:
        held = reserved_zeros(w, reserve, shape, dtype)
    if may_grow(node):
        missing = w.call("Sub", w.call("Add", w.int64(place, (1,)), w.constant([1])), _length(w, held))
        tail = w.zeros(w.call("Max", missing, w.constant([0])), shape, dtype)
        held = w.call("Concat", held, tail, axis=0)
    result = w.call("ScatterND", held, w.int64(place, (1, 1)), w.unsqueezed(element, 0))
    w.graph.set_dtype(result, dtype)  # tf2onnx does not know it for a list that comes from around the loop
    return result


def _length(w: TfGraphWriter, held: str) -> str:
    """Read the number of elements of a list (int64[1])."""
    return w.call("Slice", w.call("Shape", held), w.constant([0]), w.constant([1]))


def reserved_by(graph: TfGraph, name: str) -> TfNode | None:
    """Return the node that reserved a list, where nothing was written into it yet."""
    node = graph.get_node_by_output(copy_source(graph, name))
    return node if node is not None and node.type == "TensorListReserve" else None


def is_list(dtype: int | None) -> bool:
    """Return whether a dtype is of a list: tf2onnx knows none of these."""
    return not dtype  # None, or onnx.TensorProto.UNDEFINED


def add_copy(graph: TfGraph, name: str, copy: str, shape: Shape | None, dtype: int | None) -> None:
    """Add a copy of a tensor under another name. A list has no shape and dtype of its own before it is a tensor."""
    if is_list(dtype):
        shape, dtype = graph.get_shape(name), graph.get_dtype(name)
    graph.make_node("Identity", [name], outputs=[copy], shapes=[shape], dtypes=[dtype])
    declare_tensor(graph, copy, shape, dtype)


def declare_tensor(graph: TfGraph, name: str, shape: Shape | None, dtype: int | None) -> None:
    """Set shape and dtype of a tensor, of the copies that are there already, and of those that loops carry."""
    graph.set_shape(name, shape)
    graph.set_dtype(name, dtype)
    for node in graph.find_output_consumers(name):
        if node.type == "Identity" and is_list(node.output_dtypes[0]):
            declare_tensor(node.graph, node.output[0], shape, dtype)
        elif node.type == "Loop":
            _declare_carried(node, name, shape, dtype)


def _declare_carried(loop: TfNode, name: str, shape: Shape | None, dtype: int | None) -> None:
    """Set shape and dtype of a tensor that a loop carries, in its steps and behind it."""
    body = loop.get_body_graphs()["body"]
    for place in range(2, len(loop.input)):
        if loop.input[place] == name and is_list(loop.output_dtypes[place - 2]):
            declare_tensor(body, body.input_names[place], shape, dtype)
            declare_tensor(loop.graph, loop.output[place - 2], shape, dtype)


def replace_by_copy(graph: TfGraph, node: TfNode, name: str) -> None:
    """Put a copy of a tensor in a node's place."""
    copy, shape, dtype = node.output[0], node.output_shapes[0], node.output_dtypes[0]
    graph.remove_node(node.name)
    add_copy(graph, name, copy, shape, dtype)


def convert_list_operator(graph: TfGraph, node: TfNode, **_options: object) -> None:
    """Convert an operator on lists by its name: a handler for tf2onnx's tables."""
    w = TfGraphWriter(graph, node.name)
    if node.type in ("TensorListStack", "TensorListFromTensor"):
        replace_by_copy(graph, node, node.input[0])
    elif node.type in ("TensorListGetItem", "TensorListGather"):
        replace_by_copy(graph, node, w.call("Gather", node.input[0], node.input[1], axis=0))
    elif node.type == "TensorListLength":
        replace_by_copy(graph, node, _count(w, node))
    elif node.type == "TensorListSetItem" and not graph._is_subgraph:  # in a loop's body the loop decides
        replace_by_copy(graph, node, with_item_set(w, node))


def _count(w: TfGraphWriter, node: TfNode) -> str:
    """Write the result of a TensorListLength."""
    if (reserve := reserved_by(w.graph, node.input[0])) is not None:
        return str(reserve.input[1])
    length = w.call("Reshape", _length(w, node.input[0]), w.constant([], "int64"))
    return w.call("Cast", length, to=Dtype.INT32)
