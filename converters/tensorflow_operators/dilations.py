"""Dilated convolutions of pictures whose sizes are open: as one convolution, and not as one of pieces.

TensorFlow lays a picture's every d-th pixels apart (SpaceToBatchND), convolves, and puts them together again
(BatchToSpaceND). Before, it pads the end by e more, so that d divides the sizes, and crops e after. Where e is worked
out of sizes, tf2onnx leaves it so; but whatever e is, the convolution is that of the picture with what else is padded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .counting import Graph, Node, source

Rewriter: TypeAlias = Callable[[Graph, Sequence[Node]], Sequence[Node]]
_Sum: TypeAlias = tuple[int, tuple[Any, ...]]  # a number, and elements of tensors (their name and place) added to it
_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")


def with_known_paddings(rewrite: Rewriter) -> Rewriter:
    """tf2onnx's rewriter, told what is padded and not cropped again."""

    def rewritten(graph: Graph, nodes: Sequence[Node]) -> Sequence[Node]:
        for node in nodes:
            if node.type == "BatchToSpaceND":
                _tell(graph, node)
        return rewrite(graph, graph.get_nodes())

    return rewritten


def _tell(graph: Graph, after: Node) -> None:
    before = _taken_apart(graph, after)
    if before is None:
        return
    kept = [_kept(graph, before, after, axis) for axis in range(len(after.inputs[1].get_tensor_value()))]
    if all(kept):
        for node, pairs in ((before, kept), (after, [(0, 0)] * len(kept))):
            known = graph.make_const(f"{node.name}_known", np.array(pairs, np.int32)).output[0]
            graph.replace_input(node, node.input[2], known, 2)


def _kept(graph: Graph, before: Node, after: Node, axis: int) -> tuple[int, int] | None:
    """What is padded along an axis and not cropped again; None where that is not known."""
    begin, end = (_element(graph, before.input[2], (axis, side)) for side in (0, 1))
    none, cropped = (_element(graph, after.input[2], (axis, side)) for side in (0, 1))
    is_known = not begin[1] and none == (0, ()) and end[1] == cropped[1] and end[0] >= cropped[0]
    return (begin[0], end[0] - cropped[0]) if is_known else None


def _taken_apart(graph: Graph, after: Node) -> Node | None:
    """What laid the pixels apart that `after` puts together, if there is nothing but a convolution between, and
    nothing else reads of it: then tf2onnx makes a dilated one of all."""
    between = [after.inputs[0]]
    while between[-1] is not None and between[-1].type in (*_CONVOLUTIONS, "Squeeze", "ExpandDims"):
        between.append(between[-1].inputs[0])
    *between, before = between
    if before is None or before.type != "SpaceToBatchND" or before.inputs[2].is_const():
        return None
    alone = [
        len(graph.find_output_consumers(each.output[0])) == 1 and each.output[0] not in graph.outputs
        for each in (*between, before)
    ]
    blocks = [each.inputs[1].get_tensor_value() if each.inputs[1].is_const() else None for each in (before, after)]
    is_one = blocks[0] is not None and blocks[0] == blocks[1] and _is_plain(between, len(blocks[0]))
    return before if all(alone) and is_one else None


def _is_plain(between: Sequence[Node], axes: int) -> bool:
    """Whether this is a convolution along so many axes that takes each pixel as it is; along one, of pictures of a row
    each."""
    if [each.type for each in between] == ["Squeeze", "Conv2D", "ExpandDims"]:
        squeeze, convolution, expand = between
        row = expand.inputs[1].get_tensor_value() if expand.inputs[1].is_const() else None
        fits = axes == 1 and row in (1, -3) and squeeze.get_attr_value("squeeze_dims") in ([1], [-3])
    else:
        convolution = between[0] if between else None
        fits = len(between) == 1 and convolution.type in _CONVOLUTIONS and axes == 2
    if not fits:
        return False
    said = {name: convolution.get_attr_value(name) for name in ("strides", "dilations", "data_format", "padding")}
    ones = all(set(said[name] or [1]) == {1} for name in ("strides", "dilations"))
    return ones and said["data_format"] in (None, b"NHWC") and said["padding"] == b"VALID"


def _element(graph: Graph, name: str, place: tuple[int, ...]) -> _Sum:
    """An element of a tensor, as a sum."""
    name = source(graph, name)
    node = graph.get_node_by_output(name)
    if node is not None and node.is_const():
        return int(node.get_tensor_value(as_list=False)[place]), ()
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
