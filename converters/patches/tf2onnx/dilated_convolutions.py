"""Dilated convolutions of pictures whose sizes are open: as one convolution, and not as one of pieces.

TensorFlow lays a picture's every d-th pixels apart (SpaceToBatchND), convolves, and puts them together again
(BatchToSpaceND). Before, it pads the end by e more, so that d divides the sizes, and crops e after. Where e is worked
out of sizes, tf2onnx leaves it so; but whatever e is, the convolution is that of the picture with what else is padded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from .loop_counting import Graph, Node, source

Rewriter: TypeAlias = Callable[[Graph, Sequence[Node]], Sequence[Node]]
_Sum: TypeAlias = tuple[int, tuple[Any, ...]]  # a number, and elements of tensors (their name and place) added to it
_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")


def with_open_sizes(rewrite: Rewriter) -> Rewriter:
    """tf2onnx's rewriter, and before it ours."""

    def rewritten(graph: Graph, nodes: Sequence[Node]) -> Sequence[Node]:
        for node in nodes:
            if node.type == "BatchToSpaceND":
                _join(graph, node)
        return rewrite(graph, graph.get_nodes())

    return rewritten


def _join(graph: Graph, after: Node) -> None:
    """Make one convolution of what `after` puts together, where it is one."""
    between = _between(graph, after)
    if not between:
        return
    *between, before = between
    blocks = before.inputs[1].get_tensor_value()
    found = [_kept(graph, before, after, axis) for axis in range(len(blocks))]
    kept = [each for each in found if each is not None]
    if len(kept) < len(found):
        return
    rows = [(0, 0)] * (3 - len(blocks))  # of the batch, and of pictures of a row each
    convolution = between[len(between) // 2]
    convolution.set_attr("dilations", [*[1] * (3 - len(blocks)), *blocks, 1])
    convolution.set_attr("padding", "EXPLICIT")
    convolution.set_attr("explicit_paddings", [end for pair in (*rows, *kept, (0, 0)) for end in pair])
    graph.replace_input(between[-1], before.output[0], before.input[0], 0)
    graph.replace_all_inputs(after.output[0], between[0].output[0])
    _tell_shapes(graph, between, before.input[0], after.output[0])


def _tell_shapes(graph: Graph, between: Sequence[Node], taken: str, made: str) -> None:
    """The pieces had others."""
    graph.copy_shape(made, between[0].output[0])
    if len(between) == 1:
        return
    for node, like in ((between[1], made), (between[2], taken)):
        shape = graph.get_shape(like)
        graph.set_shape(node.output[0], None if shape is None else [shape[0], 1, *shape[1:]])


def _kept(graph: Graph, before: Node, after: Node, axis: int) -> tuple[int, int] | None:
    """What is padded along an axis and not cropped again; None where that is not known."""
    begin, end = (_element(graph, before.input[2], (axis, side)) for side in (0, 1))
    none, cropped = (_element(graph, after.input[2], (axis, side)) for side in (0, 1))
    is_known = not begin[1] and none == (0, ()) and end[1] == cropped[1] and end[0] >= cropped[0]
    return (begin[0], end[0] - cropped[0]) if is_known else None


def _between(graph: Graph, after: Node) -> list[Node]:
    """The nodes from before `after` to what laid apart the pixels that it puts together, if there is nothing but a
    convolution between them, and nothing else reads any of it; else none."""
    found = [after.inputs[0]]
    while found[-1] is not None and found[-1].type in (*_CONVOLUTIONS, "Squeeze", "ExpandDims"):
        found.append(found[-1].inputs[0])
    *between, before = found
    if before is None or before.type != "SpaceToBatchND" or after.output[0] in graph.outputs:
        return []
    alone = [
        len(graph.find_output_consumers(each.output[0])) == 1 and each.output[0] not in graph.outputs for each in found
    ]
    blocks = [each.inputs[1].get_tensor_value() if each.inputs[1].is_const() else None for each in (before, after)]
    is_one = blocks[0] is not None and blocks[0] == blocks[1] and _is_plain(between, len(blocks[0]))
    return found if all(alone) and is_one else []


def _is_plain(between: Sequence[Node], axes: int) -> bool:
    """Whether this is a convolution along so many axes that takes each pixel as it is; along one, of pictures of a row
    each."""
    if [each.type for each in between] == ["Squeeze", "Conv2D", "ExpandDims"]:
        squeeze, convolution, expand = between
        row = expand.inputs[1].get_tensor_value() if expand.inputs[1].is_const() else None
        fits = axes == 1 and row in (1, -3) and squeeze.get_attr_value("squeeze_dims") in ([1], [-3])
    else:
        convolution = between[0] if len(between) == 1 and axes == 2 else None
        fits = convolution is not None and convolution.type in _CONVOLUTIONS
    if not fits or convolution is None:
        return False
    said = {name: convolution.get_attr_value(name) for name in ("strides", "dilations", "data_format", "padding")}
    ones = all(set(said[name] or [1]) == {1} for name in ("strides", "dilations"))
    return ones and said["data_format"] in (None, b"NHWC") and said["padding"] == b"VALID"


def _element(graph: Graph, name: str, place: tuple[int, ...]) -> _Sum:
    """An element of a tensor, as a sum."""
    name = source(graph, name)
    node = graph.get_node_by_output(name)
    value = node.get_tensor_value(as_list=False) if node is not None and node.is_const() else None
    if value is not None and value.ndim == len(place):  # it may be added to each
        return int(value[place]), ()
    if node is not None and node.type == "Pack" and not node.get_attr_value("axis", 0):
        return _element(graph, node.input[place[0]], place[1:])
    if node is not None and node.type in ("Add", "AddV2"):
        (one, of_one), (other, of_other) = (_element(graph, each, place) for each in node.input)
        return one + other, (*of_one, *of_other)
    sliced = _place_before(node, place) if node is not None and node.type == "StridedSlice" else None
    return _element(graph, node.input[0], sliced) if sliced is not None else (0, ((name, place),))


_MASKS = ("begin", "shrink_axis", "ellipsis", "new_axis")


def _place_before(slicing: Node, place: Sequence[int]) -> tuple[int, ...] | None:
    """Where an element of a slice was before, if the slice's places are known."""
    _, begin, _, steps = slicing.inputs
    whole, single, *others = (slicing.get_attr_value(f"{each}_mask", 0) for each in _MASKS)
    if not (begin.is_const() and steps.is_const()) or any(others):
        return None
    firsts = [0 if whole >> axis & 1 else first for axis, first in enumerate(begin.get_tensor_value())]
    if min(firsts) < 0 or set(steps.get_tensor_value()) != {1}:
        return None
    rest = list(place)
    found = [first + (0 if single >> axis & 1 else rest.pop(0)) for axis, first in enumerate(firsts)]
    return (*found, *rest)
