"""Edits that make an ONNX file grossly wrong: padding, axes, layouts, order of gates and operands, lost parts."""

from __future__ import annotations

import numpy as np
from onnx_edit import GraphEdit, Writer, attribute, set_attribute


def pads_mirrored(graph: GraphEdit) -> None:
    """Put the wider padding on the other side."""
    node = graph.node("Conv", at=1)
    top, left, bottom, right = attribute(node, "pads")
    set_attribute(node, "pads", [bottom, right, top, left])


def softmax_axis_last(graph: GraphEdit) -> None:
    """Take the softmax over the last axis instead of the channels."""
    set_attribute(graph.node("Softmax"), "axis", -1)


def softmax_flattened(graph: GraphEdit) -> None:
    """Take the softmax over all axes from the first on, as before opset 13."""
    node = graph.node("Softmax")

    def write(writer: Writer) -> str:
        flat = writer.op("Flatten", writer.inputs[0], axis=1)
        return writer.op("Reshape", writer.op("Softmax", flat, axis=1), writer.op("Shape", writer.inputs[0]))

    graph.expand(node, write)


def lstm_gates_in_torch_order(graph: GraphEdit) -> None:
    """Leave the gates as PyTorch has them, (i, f, g, o), where ONNX wants (i, o, f, c)."""
    node = graph.node("LSTM")
    for at in (1, 2):
        graph.change(
            node, at, lambda weights: np.concatenate([np.split(weights, 4, 1)[gate] for gate in (0, 2, 3, 1)], 1)
        )
    graph.change(
        node, 3, lambda bias: np.concatenate([np.split(bias, 8, 1)[gate] for gate in (0, 2, 3, 1, 4, 6, 7, 5)], 1)
    )


def lstm_backward_not_reversed(graph: GraphEdit) -> None:
    """Leave the backward direction's answers in the order in which it reads."""
    node = graph.node("LSTM")

    def write(writer: Writer) -> str:
        inner = writer.inputs[0]
        forward, backward = (
            writer.op("Slice", inner, *(writer.const([at], "int64") for at in (start, start + 1, 1)))
            for start in (0, 1)
        )
        ends = [writer.const([value], "int64") for value in (-1, -(2**31), 0, -1)]
        return writer.op("Concat", forward, writer.op("Slice", backward, *ends), axis=1)

    made = graph.insert_after(node, "Identity")
    graph.expand(graph.named(made.name), write)


def gru_resets_before(graph: GraphEdit) -> None:
    """Apply the reset gate before the linear layer: the default of ONNX, and not PyTorch's."""
    set_attribute(graph.node("GRU"), "linear_before_reset", 0)


def operands_swapped(graph: GraphEdit) -> None:
    """Exchange the operands of a subtraction."""
    node = graph.node("Sub", at=-1)
    node.input[0], node.input[1] = node.input[1], node.input[0]


def bias_lost(graph: GraphEdit) -> None:
    """Lose the bias of a convolution."""
    node = graph.node("Conv", at=1)
    del node.input[2:]


def nhwc_flattened(graph: GraphEdit) -> None:
    """Flatten pixels before channels, as in a graph with channels last."""
    node = graph.nodes("Gemm")[-1]
    flatten = next(other for other in graph.model.graph.node if node.input[0] in other.output)
    graph.note(flatten)
    shape = flatten.input[0]

    def write(writer: Writer) -> str:
        image = writer.op("Reshape", shape, writer.const([0, 8, 64], "int64"))
        return writer.op("Reshape", writer.op("Transpose", image, perm=[0, 2, 1]), writer.const([0, 512], "int64"))

    graph.expand(flatten, write)


def square_matrix_transposed(graph: GraphEdit) -> None:
    """Multiply by the transposed weights of a layer whose input and output have one size."""
    graph.change(graph.node("MatMul"), 1, lambda weights: weights.T)


def batch_baked(graph: GraphEdit) -> None:
    """Reshape to the batch size of the example, 1."""
    node = graph.node("Reshape", at=-1)
    node.input[1] = graph.constant([1, -1], "int64")


def length_baked(graph: GraphEdit) -> None:
    """Count positions up to the length of the example, whatever the input's is."""
    node = graph.node("Range")
    node.input[1] = graph.constant(7, "int64")


def dilation_ignored(graph: GraphEdit) -> None:
    """Run a dilated convolution without its dilation."""
    node = graph.node("Conv", at=2)
    set_attribute(node, "dilations", [1, 1])
    set_attribute(node, "pads", [1, 1, 1, 1])


def groups_exchanged(graph: GraphEdit) -> None:
    """Give the groups of a convolution each other's channels."""
    node = next(node for node in graph.nodes("Conv") if attribute(node, "group") == 2)
    graph.note(node)
    channels = graph.constant([4, 5, 6, 7, 0, 1, 2, 3], "int64")
    graph.insert_before(node, 0, "Gather", channels, axis=1)


def shuffle_by_depth(graph: GraphEdit) -> None:
    """Move depth to space in the order depth, column, row (DCR), where PyTorch's is CRD."""
    set_attribute(graph.node("DepthToSpace"), "mode", "DCR")


def reflection_as_zeros(graph: GraphEdit) -> None:
    """Pad with zeros where the border is reflected."""
    set_attribute(graph.node("Pad"), "mode", "constant")


def flip_lost(graph: GraphEdit) -> None:
    """Lose a flip: a slice whose step is -1."""
    node = graph.node("Slice", "flip")
    graph.expand(node, lambda writer: writer.inputs[0])


def resize_asymmetric(graph: GraphEdit) -> None:
    """Resize by another rule for coordinates."""
    set_attribute(graph.node("Resize", "bilinear"), "coordinate_transformation_mode", "asymmetric")


def resize_align_corners(graph: GraphEdit) -> None:
    """Resize with corners aligned."""
    set_attribute(graph.node("Resize", "bilinear"), "coordinate_transformation_mode", "align_corners")


def transposed_conv_shifted(graph: GraphEdit) -> None:
    """Cut a transposed convolution's output at one side only."""
    set_attribute(graph.node("ConvTranspose"), "pads", [2, 2, 0, 0])


def leaky_slope_default(graph: GraphEdit) -> None:
    """Use the default slope of LeakyRelu."""
    set_attribute(graph.node("LeakyRelu"), "alpha", 0.01)


def softplus_beta_ignored(graph: GraphEdit) -> None:
    """Ignore the beta of a softplus."""
    node = graph.node("Softplus")
    before = next(other for other in graph.model.graph.node if node.input[0] in other.output)
    after = next(other for other in graph.model.graph.node if node.output[0] in other.input)
    for scaled in (before, after):
        at = next(at for at, name in enumerate(scaled.input) if name not in (*node.output,) and graph.is_constant(name))
        graph.change(scaled, at, np.ones_like)


def hard_sigmoid_default(graph: GraphEdit) -> None:
    """Use the default slope of HardSigmoid, 0.2, where PyTorch's is 1/6."""
    set_attribute(graph.node("HardSigmoid"), "alpha", 0.2)


def causal_mask_shifted(graph: GraphEdit) -> None:
    """Let each position see the next one."""
    graph.change(graph.node("Slice", at=0), 0, lambda mask: np.triu(np.ones_like(mask), 2) * -1e9)


def ranks_exchanged(graph: GraphEdit) -> None:
    """Return the second best before the best."""
    node = graph.node("TopK")
    order = graph.constant([1, 0, 2, 3], "int64")
    for at in (0, 1):
        graph.insert_after(node, "Gather", order, axis=1, output=at)


def mean_over_padding(graph: GraphEdit) -> None:
    """Count the padding into the means of a pooling."""
    set_attribute(graph.node("AveragePool"), "count_include_pad", 1)


def class_one_less(graph: GraphEdit) -> None:
    """Number the classes from another start."""
    node = graph.node("ArgMax")
    graph.insert_after(node, "Sub", graph.constant(1, "int64"))


def norm_statistics_stale(graph: GraphEdit) -> None:
    """Fold a batch norm whose statistics are those of a fresh layer."""
    graph.fold_batch_norm(0, "stem", "norm1", stale=True)


def norm_folded_without_bias_scale(graph: GraphEdit) -> None:
    """Fold a batch norm into a convolution, and forget to scale the convolution's own bias."""
    graph.fold_batch_norm(1, "conv", "norm2", scale_bias=False)
