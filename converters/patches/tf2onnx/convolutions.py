"""Convolutions that tf2onnx writes wrongly, or as many.

Transposed convolutions whose output size is known and larger than the input spreads over: Keras's output_padding, and
strides wider than the kernel.

Dilated convolutions of pictures whose sizes are open are written as one convolution instead of one of pieces.
TensorFlow lays a picture's every d-th pixels apart (SpaceToBatchND), convolves, and puts them together again
(BatchToSpaceND). Before that it pads the end by e more, so that d divides the sizes, and crops e after. Where e is
computed from sizes, tf2onnx keeps the pieces; but whatever e is, the convolution is that of the picture with the rest
of the padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

from .. import private_tf2onnx
from ..ledger import TF2ONNX, Kind, handlers, patches
from .tf2onnx_graphs import Rewriter, TfGraph, TfNode, constant_of, copy_source

# A number, and the elements of tensors (their name and place) that are added to it.
_Sum: TypeAlias = tuple[int, tuple[tuple[str, tuple[int, ...]], ...]]
_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
_MASKS = ("begin", "shrink_axis", "ellipsis", "new_axis")


def _merging_dilations(rewrite: Rewriter) -> Rewriter:
    """Return tf2onnx's rewriter with ours before it."""

    def rewritten(graph: TfGraph, nodes: Sequence[TfNode]) -> Sequence[TfNode]:
        for node in nodes:
            if node.type == "BatchToSpaceND":
                _merge(graph, node)
        return rewrite(graph, graph.get_nodes())

    return rewritten


def _merge(graph: TfGraph, batch_to_space: TfNode) -> None:
    """Make one dilated convolution of the nodes up to `batch_to_space`, where they are one."""
    chain = _chain_before(graph, batch_to_space)
    if chain is None:
        return
    *between, space_to_batch = chain
    blocks = _block_sizes(space_to_batch)
    axes = range(0 if blocks is None else len(blocks))
    paddings = [
        padding for axis in axes if (padding := _padding(graph, space_to_batch, batch_to_space, axis)) is not None
    ]
    if blocks is None or len(paddings) < len(axes):
        return
    other_axes = [(0, 0)] * (3 - len(blocks))  # the batch, and the height of pictures of one row
    convolution = between[len(between) // 2]
    convolution.set_attr("dilations", [*[1] * (3 - len(blocks)), *blocks.tolist(), 1])
    convolution.set_attr("padding", "EXPLICIT")
    convolution.set_attr("explicit_paddings", [end for pair in (*other_axes, *paddings, (0, 0)) for end in pair])
    graph.replace_input(between[-1], space_to_batch.output[0], space_to_batch.input[0], 0)
    graph.replace_all_inputs(batch_to_space.output[0], between[0].output[0])
    _restore_shapes(graph, between, space_to_batch.input[0], batch_to_space.output[0])


def _restore_shapes(graph: TfGraph, between: Sequence[TfNode], pictures: str, result: str) -> None:
    """Restore the static shapes: the nodes still carry those of the split pictures."""
    graph.copy_shape(result, between[0].output[0])
    if len(between) == 1:
        return
    for node, like in ((between[1], result), (between[2], pictures)):
        shape = graph.get_shape(like)
        graph.set_shape(node.output[0], None if shape is None else [shape[0], 1, *shape[1:]])


def _block_sizes(node: TfNode) -> NDArray[Any] | None:
    return constant_of(node.inputs[1])


def _padding(graph: TfGraph, space_to_batch: TfNode, batch_to_space: TfNode, axis: int) -> tuple[int, int] | None:
    """Return the padding along an axis that is not cropped again, at its begin and end; None where it is unknown."""
    begin, end = (_element(graph, space_to_batch.input[2], (axis, side)) for side in (0, 1))
    crop_begin, crop_end = (_element(graph, batch_to_space.input[2], (axis, side)) for side in (0, 1))
    is_known = not begin[1] and crop_begin == (0, ()) and end[1] == crop_end[1] and end[0] >= crop_end[0]
    return (begin[0], end[0] - crop_end[0]) if is_known else None


def _chain_before(graph: TfGraph, batch_to_space: TfNode) -> list[TfNode] | None:
    """Return the nodes from before `batch_to_space` back to its SpaceToBatchND.

    None unless there is nothing but a convolution between them, and nothing else reads any of it.
    """
    chain: list[TfNode] = []
    node = batch_to_space.inputs[0]
    while node is not None and node.type in (*_CONVOLUTIONS, "Squeeze", "ExpandDims"):
        chain.append(node)
        node = node.inputs[0]
    if node is None or node.type != "SpaceToBatchND" or batch_to_space.output[0] in graph.outputs:
        return None
    is_read_once = all(
        len(graph.find_output_consumers(link.output[0])) == 1 and link.output[0] not in graph.outputs
        for link in (*chain, node)
    )
    blocks, other_blocks = _block_sizes(node), _block_sizes(batch_to_space)
    if blocks is None or other_blocks is None or blocks.tolist() != other_blocks.tolist() or not is_read_once:
        return None
    return [*chain, node] if _is_plain(chain, len(blocks)) else None


def _is_plain(between: Sequence[TfNode], axes: int) -> bool:
    """Return whether `between` is a convolution along `axes` axes that reads every pixel once, without padding.

    Along one axis it is of pictures of one row.
    """
    convolution: TfNode | None
    if [node.type for node in between] == ["Squeeze", "Conv2D", "ExpandDims"]:
        squeeze, convolution, expand = between
        row = constant_of(expand.inputs[1])
        is_row = row is not None and row.tolist() in (1, -3)
        fits = axes == 1 and is_row and squeeze.get_attr_value("squeeze_dims") in ([1], [-3])
    else:
        fits = axes == 2 and len(between) == 1 and between[0].type in _CONVOLUTIONS
        convolution = between[0] if between else None
    if not fits or convolution is None:
        return False
    values = {name: convolution.get_attr_value(name) for name in ("strides", "dilations", "data_format", "padding")}
    are_ones = all(set(values[name] or [1]) == {1} for name in ("strides", "dilations"))
    return are_ones and values["data_format"] in (None, b"NHWC") and values["padding"] == b"VALID"


def _element(graph: TfGraph, name: str, place: tuple[int, ...]) -> _Sum:
    """Return an element of a tensor as a sum."""
    name = copy_source(graph, name)
    node = graph.get_node_by_output(name)
    value = constant_of(node)
    if value is not None and value.ndim == len(place):  # one of fewer axes would be added to every element
        return int(value[place]), ()
    if node is not None and node.type == "Pack" and not node.get_attr_value("axis", 0):
        return _element(graph, node.input[place[0]], place[1:])
    if node is not None and node.type in ("Add", "AddV2"):
        (left, left_terms), (right, right_terms) = (_element(graph, term, place) for term in node.input)
        return left + right, (*left_terms, *right_terms)
    sliced = _place_before(node, place) if node is not None and node.type == "StridedSlice" else None
    return _element(graph, node.input[0], sliced) if node is not None and sliced is not None else (0, ((name, place),))


def _place_before(slicing: TfNode, place: Sequence[int]) -> tuple[int, ...] | None:
    """Return where an element of a slice was in the sliced tensor, if the slice's places are known."""
    begin, steps = constant_of(slicing.inputs[1]), constant_of(slicing.inputs[3])
    from_start, single, *other_masks = (slicing.get_attr_value(f"{mask}_mask", 0) for mask in _MASKS)
    if begin is None or steps is None or any(other_masks):
        return None
    firsts = [0 if from_start >> axis & 1 else first for axis, first in enumerate(begin.tolist())]
    if min(firsts) < 0 or set(steps.tolist()) != {1}:
        return None
    rest = list(place)
    before = [first + (0 if single >> axis & 1 else rest.pop(0)) for axis, first in enumerate(firsts)]
    return (*before, *rest)


def _convert_transposed_convolution(graph: TfGraph, node: TfNode, **options: object) -> None:
    """Make pads below zero, as tf2onnx's handler writes them, padding at the end, as TensorFlow has it."""
    private_tf2onnx.ConvTranspose.version_11(graph, node, **options)
    pads = node.get_attr_value("pads", [])
    axes = len(pads) // 2
    totals = [pads[at] + pads[at + axes] for at in range(axes)]
    if min(totals, default=0) < 0:
        node.set_attr("pads", [0 if totals[at % axes] < 0 else pad for at, pad in enumerate(pads)])
        node.set_attr("output_padding", [max(-total, 0) for total in totals])


PATCHES = (
    *handlers(
        dict.fromkeys(("Conv2DBackpropInput", "Conv3DBackpropInputV2"), _convert_transposed_convolution),
        why="it writes pads below zero, which ONNX has not, where the output is larger than the input spreads over",
        upstream="tf2onnx/onnx_opset/nn.py:433",
        until="tf2onnx writes output_padding",
    ),
    *patches(
        Kind.PERMANENT,
        "tf2onnx.tfonnx",
        {"rewrite_conv_dilations": _merging_dilations},
        why="where the padding is computed from open sizes it keeps a dilated convolution as one of pieces",
        upstream="tf2onnx/rewriter/conv_dilations_rewriter.py",
        until="tf2onnx merges a dilation whose padding and crop cancel whatever they are",
        seen=TF2ONNX,
    ),
)
