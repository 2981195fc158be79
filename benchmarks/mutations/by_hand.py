"""Layers of an ONNX graph in another right form, as people and other exporters write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from onnx import NodeProto
from onnx_edit import Writer, attribute

Write: TypeAlias = Callable[[Writer], str]


def fits(node: NodeProto) -> bool:
    """Whether the form written here holds for the node's attributes."""
    if node.op_type == "Gemm":
        is_plain = not attribute(node, "transA") and attribute(node, "alpha", 1.0) == attribute(node, "beta", 1.0) == 1
        return bool(is_plain and len(node.input) == 3)
    return node.op_type != "LayerNormalization" or (attribute(node, "axis", -1) == -1 and len(node.input) == 3)


def _gemm(node: NodeProto) -> Write:
    def write(writer: Writer) -> str:
        left, right, bias = writer.inputs
        right = writer.op("Transpose", right, perm=[1, 0]) if attribute(node, "transB") else right
        return writer.op("Add", writer.op("MatMul", left, right), bias)

    return write


def _layer_norm(node: NodeProto) -> Write:
    def write(writer: Writer) -> str:
        x, scale, bias = writer.inputs
        last = writer.const([-1], "int64")
        centred = writer.op("Sub", x, writer.op("ReduceMean", x, last))
        variance = writer.op("ReduceMean", writer.op("Mul", centred, centred), last)
        root = writer.op("Sqrt", writer.op("Add", variance, writer.const(attribute(node, "epsilon", 1e-5))))
        return writer.op("Add", writer.op("Mul", writer.op("Div", centred, root), scale), bias)

    return write


def _relu(_: NodeProto) -> Write:
    return lambda writer: writer.op("Max", writer.inputs[0], writer.const(0.0))


def _softmax(node: NodeProto) -> Write:
    def write(writer: Writer) -> str:
        axis = writer.const([attribute(node, "axis", -1)], "int64")
        parts = writer.op("Exp", writer.op("Sub", writer.inputs[0], writer.op("ReduceMax", writer.inputs[0], axis)))
        return writer.op("Div", parts, writer.op("ReduceSum", parts, axis))

    return write


FORMS: Mapping[str, Callable[[NodeProto], Write]] = {
    "Gemm": _gemm, "LayerNormalization": _layer_norm, "Relu": _relu, "Softmax": _softmax,
}  # fmt: skip
