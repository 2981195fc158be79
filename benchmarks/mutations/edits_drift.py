"""Edits that make an ONNX file slightly wrong: epsilons, approximations, reduced precision, leaks."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from declarations import Array
from onnx import TensorProto
from onnx_edit import GraphEdit, Writer, set_attribute


def batch_norm_epsilon(graph: GraphEdit) -> None:
    """Fold a batch norm with Keras's epsilon, 1e-3."""
    graph.fold_batch_norm(1, "conv", "norm2", eps=1e-3)


def layer_norm_epsilon(graph: GraphEdit) -> None:
    """Normalise with an epsilon of 1e-5 where the model has 1e-12."""
    for node in graph.nodes("LayerNormalization"):
        graph.note(node)
        set_attribute(node, "epsilon", 1e-5)


def layer_norm_epsilon_of_one(graph: GraphEdit) -> None:
    """Normalise once with another epsilon."""
    set_attribute(graph.node("LayerNormalization"), "epsilon", 1e-3)


def instance_norm_epsilon(graph: GraphEdit) -> None:
    """Normalise each image with an epsilon of 1e-3."""
    set_attribute(graph.node("InstanceNormalization", at=-1), "epsilon", 1e-3)


def gelu_by_tanh(graph: GraphEdit) -> None:
    """Replace the exact GELU by the approximation with tanh."""
    set_attribute(graph.node("Gelu"), "approximate", "tanh")


def gelu_by_sigmoid(graph: GraphEdit) -> None:
    """Replace the exact GELU by x times the sigmoid of 1.702 x."""

    def write(writer: Writer) -> str:
        scaled = writer.op("Mul", writer.inputs[0], writer.const(1.702))
        return writer.op("Mul", writer.inputs[0], writer.op("Sigmoid", scaled))

    graph.expand(graph.node("Gelu", at=-1), write)


def half_inside(graph: GraphEdit) -> None:
    """Round the values between two layers to float16."""
    _through(graph, "MatMul", TensorProto.FLOAT16)


def half_inside_conv(graph: GraphEdit) -> None:
    """Round the values before a convolution to float16."""
    _through(graph, "Conv", TensorProto.FLOAT16)


def _through(graph: GraphEdit, op_type: str, dtype: int) -> None:
    node = graph.node(op_type, at=1)
    graph.insert_before(node, 0, "Cast", to=TensorProto.FLOAT)
    inner = next(other for other in graph.model.graph.node if node.input[0] in other.output)
    graph.insert_before(inner, 0, "Cast", to=dtype)


def scaled_by_a_little(graph: GraphEdit) -> None:
    """Multiply a layer by 1.0001, as a scale of few digits does."""
    node = graph.node("Gemm", at=-1)
    graph.change(node, 1, lambda weights: weights * np.float32(1.0001))
    graph.change(node, 2, lambda bias: bias * np.float32(1.0001))


def half_weights(graph: GraphEdit) -> None:
    """Keep all weights in float16 on disk."""
    _round_weights(graph, np.float16)


def brain_weights(graph: GraphEdit) -> None:
    """Keep the weights of one layer in bfloat16."""
    graph.change(graph.node("Gemm", at=-1), 1, lambda weights: weights.astype(ml_dtypes.bfloat16).astype(np.float32))


def _round_weights(graph: GraphEdit, dtype: type) -> None:
    for op_type in ("Conv", "Gemm", "MatMul", "ConvTranspose"):
        for node in graph.nodes(op_type):
            if graph.is_constant(node.input[1]):
                graph.note(node)
                graph.change(node, 1, lambda weights: weights.astype(dtype).astype(np.float32))


def tf32_products(graph: GraphEdit) -> None:
    """Round the operands of a product to the 10 bits of TF32."""
    node = graph.node("MatMul", at=-1)

    def write(writer: Writer) -> str:
        return writer.op("MatMul", *(_rounded(writer, name) for name in writer.inputs))

    graph.expand(node, write)


def _rounded(writer: Writer, name: str) -> str:
    """Round to 11 bits by Dekker's split: c = (2^13 + 1) x, and c - (c - x)."""
    scaled = writer.op("Mul", name, writer.const(8193.0))
    return writer.op("Sub", scaled, writer.op("Sub", scaled, name))


def softmax_by_fast_exp(graph: GraphEdit) -> None:
    """Compute a softmax with powers of two that a parabola joins."""

    def write(writer: Writer) -> str:
        axis = writer.const([-1], "int64")
        shifted = writer.op("Sub", writer.inputs[0], writer.op("ReduceMax", writer.inputs[0], axis, keepdims=1))
        power = writer.op("Mul", shifted, writer.const(1.4426950408889634))
        power = writer.op("Max", power, writer.const(-120.0))
        whole = writer.op("Floor", power)
        rest = writer.op("Sub", power, whole)
        slope = writer.op("Add", writer.op("Mul", rest, writer.const(0.33977)), writer.const(0.66023))
        joined = writer.op("Add", writer.op("Mul", rest, slope), writer.const(1.0))
        parts = writer.op("Mul", writer.op("Pow", writer.const(2.0), whole), joined)
        return writer.op("Div", parts, writer.op("ReduceSum", parts, axis, keepdims=1))

    graph.expand(graph.node("Softmax", at=0), write)


def mask_leaks(graph: GraphEdit) -> None:
    """Hide what is masked by -8 and not by -10000, so that a little of it is seen."""
    node = graph.node("Mul", "mul_41")
    graph.change(node, 1, lambda value: np.full_like(value, -8.0))


def one_sign(graph: GraphEdit) -> None:
    """Change the sign of one small weight."""

    def change(weights: Array) -> Array:
        flat = weights.reshape(-1)
        at = np.argsort(np.abs(flat))[flat.size // 20]
        flat[at] = -flat[at]
        return weights

    graph.change(graph.node("Conv", at=-1), 1, change)


def variance_biased(graph: GraphEdit) -> None:
    """Divide a variance by n where the model divides by n - 1."""
    sqrt = graph.node("Sqrt", at=0)
    graph.insert_before(sqrt, 0, "Mul", graph.constant(41.0 / 42.0))


def normalised_by_one_group(graph: GraphEdit) -> None:
    """Normalise each channel alone where two groups of four are asked for."""
    node = graph.node("InstanceNormalization", at=0)
    before = next(other for other in graph.model.graph.node if node.input[0] in other.output)
    graph.change(before, 1, lambda shape: np.where(shape == 2, 8, shape))
    for at in (1, 2):
        graph.change(node, at, lambda scale: np.repeat(scale, 4))
