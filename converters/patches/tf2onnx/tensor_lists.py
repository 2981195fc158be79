"""TensorFlow's lists of tensors for tf2onnx: a list is one tensor with its elements along the first axis."""

from __future__ import annotations

from typing import Any

from .loop_counting import Builder, Graph, Node, source


def grows(node: Node) -> bool:
    """Whether a TensorListSetItem may write behind the end of its list."""
    return bool(node.get_attr_value("resize_if_index_out_of_bounds", False))


def zeros(b: Builder, reserved: Node, shape: str, dtype: int) -> str:
    """A list that was only reserved, with elements of a shape (int64[rank])."""
    return b.zeros(b.int64(reserved.input[1], (1,)), shape, dtype)


def written(b: Builder, node: Node) -> str:
    """The list that a TensorListSetItem makes of one. One that was only reserved is full of zeros before, and one that
    may grow is lengthened by zeros."""
    held, place, element = node.input[:3]
    shape, dtype = b.call("Shape", element), b.graph.get_dtype(element)
    if (found := reserved_by(b.graph, held)) is not None:
        held = zeros(b, found, shape, dtype)
    if grows(node):
        missing = b.call("Sub", b.call("Add", b.int64(place, (1,)), b.constant([1])), _length(b, held))
        more = b.zeros(b.call("Max", missing, b.constant([0])), shape, dtype)
        held = b.call("Concat", held, more, axis=0)
    made = b.call("ScatterND", held, b.int64(place, (1, 1)), b.call("Unsqueeze", element, b.constant([0])))
    b.graph.set_dtype(made, dtype)  # of a list that comes from around the loop nobody knew it
    return made


def _length(b: Builder, held: str) -> str:
    """How many elements a list has (int64[1])."""
    return b.call("Slice", b.call("Shape", held), b.constant([0]), b.constant([1]))


def reserved_by(graph: Graph, name: str) -> Node | None:
    """What reserved a list, where nothing was written into it yet."""
    node = graph.get_node_by_output(source(graph, name))
    return node if node is not None and node.type == "TensorListReserve" else None


def is_list(dtype: int | None) -> bool:
    """Whether tf2onnx knows no dtype: so it is of a list."""
    from onnx import TensorProto

    return dtype in (None, TensorProto.UNDEFINED)


def copied(graph: Graph, name: str, copy: str, shape: Any, dtype: int | None) -> None:
    """A tensor under another name. A list has no shape and dtype of its own before it is a tensor."""
    if is_list(dtype):
        shape, dtype = graph.get_shape(name), graph.get_dtype(name)
    graph.make_node("Identity", [name], outputs=[copy], shapes=[shape], dtypes=[dtype])
    tell(graph, copy, shape, dtype)


def tell(graph: Graph, name: str, shape: Any, dtype: int | None) -> None:
    """Say what a tensor is, and the copies of it that are there already; and what loops carry of it."""
    graph.set_shape(name, shape)
    graph.set_dtype(name, dtype)
    for node in graph.find_output_consumers(name):
        if node.type == "Identity" and is_list(node.output_dtypes[0]):
            tell(node.graph, node.output[0], shape, dtype)
        elif node.type == "Loop":
            _tell_loop(node, name, shape, dtype)


def _tell_loop(loop: Node, name: str, shape: Any, dtype: int | None) -> None:
    """Say what a tensor that a loop carries is in its steps, and behind it."""
    body = loop.get_body_graphs()["body"]
    for place in range(2, len(loop.input)):
        if loop.input[place] == name and is_list(loop.output_dtypes[place - 2]):
            tell(body, body.input_names[place], shape, dtype)
            tell(loop.graph, loop.output[place - 2], shape, dtype)


def replaced(graph: Graph, node: Node, name: str) -> None:
    """Put the copy of a tensor in a node's place."""
    copy, shape, dtype = node.output[0], node.output_shapes[0], node.output_dtypes[0]
    graph.remove_node(node.name)
    copied(graph, name, copy, shape, dtype)


class Lists:
    """Handlers of the operators on lists, for tf2onnx's tables."""

    @classmethod
    def version_13(cls, ctx: Graph, node: Node, **_options: object) -> None:
        """Of each by its name."""
        b = Builder(ctx, node.name)
        if node.type in ("TensorListStack", "TensorListFromTensor"):
            replaced(ctx, node, node.input[0])
        elif node.type in ("TensorListGetItem", "TensorListGather"):
            replaced(ctx, node, b.call("Gather", node.input[0], node.input[1], axis=0))
        elif node.type == "TensorListLength":
            replaced(ctx, node, _count(b, node))
        elif node.type == "TensorListSetItem" and not ctx._is_subgraph:  # in a loop's body the loop decides
            replaced(ctx, node, written(b, node))


def _count(b: Builder, node: Node) -> str:
    """What a TensorListLength makes."""
    from onnx import TensorProto

    if (found := reserved_by(b.graph, node.input[0])) is not None:
        return str(found.input[1])
    return b.call("Cast", b.call("Reshape", _length(b, node.input[0]), b.constant([])), to=TensorProto.INT32)
