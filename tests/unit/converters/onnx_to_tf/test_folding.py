"""Batch normalisation that directly follows a convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def model_of(path: Any, nodes: list[Any], constants: dict[str, Any], outputs: tuple[str, ...] = ("y",)) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    held = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("N", 4, 7, 6))]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "pair", inputs, made, held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def pair(op_type: str, group: int, *, bias: bool = True) -> tuple[list[Any], dict[str, Any]]:
    from onnx import helper

    rng = np.random.default_rng(3)
    shape = (6, 4 // group, 3, 2) if op_type == "Conv" else (4, 6 // group, 3, 2)
    constants = {"w": rng.standard_normal(shape), "b": rng.standard_normal(6)}
    constants |= {name: rng.uniform(0.5, 2, 6) for name in ("scale", "offset", "mean", "variance")}
    inputs = ["x", "w", "b"] if bias else ["x", "w"]
    nodes = [
        helper.make_node(op_type, inputs, ["c"], group=group),
        helper.make_node("BatchNormalization", ["c", "scale", "offset", "mean", "variance"], ["y"], epsilon=1e-3),
    ]
    return nodes, {name: array.astype(np.float32) for name, array in constants.items()}


def answers(path: Any) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Ours, ONNX Runtime's, and the operators of the graph."""
    import onnxruntime
    import tensorflow as tf

    from transload.converters.onnx_to_tf.lower_model import lower

    x = np.random.default_rng(5).standard_normal((2, 4, 7, 6)).astype(np.float32)
    lowered = lower(path)
    ours = {name: each.numpy() for name, each in lowered.module.serve(tf.constant(x)).items()}
    theirs = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    operators = [each.type for each in lowered.module.serve.graph.get_operations()]
    return ours, dict(zip(lowered.outputs, theirs, strict=True)), operators


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_a_batch_normalisation_is_folded_into_the_convolution(tmp_path, op_type, group, bias):
    model_of(tmp_path / "m.onnx", *pair(op_type, group, bias=bias))
    ours, theirs, operators = answers(tmp_path / "m.onnx")
    np.testing.assert_allclose(ours["y"], theirs["y"], 1e-4, 1e-4)
    assert ("BiasAdd" if group == 1 else "Sub") in operators
    assert not {"Mul", "AddV2", "Rsqrt"} & set(operators), operators


def test_a_batch_normalisation_stays_where_another_node_reads_the_convolution(tmp_path):
    nodes, constants = pair("Conv", 1)
    model_of(tmp_path / "m.onnx", nodes, constants, ("y", "c"))
    ours, theirs, operators = answers(tmp_path / "m.onnx")
    for name in ("y", "c"):
        np.testing.assert_allclose(ours[name], theirs[name], 1e-4, 1e-4)
    assert "AddV2" in operators


def test_a_batch_normalisation_stays_where_a_branch_reads_the_convolution(tmp_path):
    from onnx import TensorProto, helper

    nodes, constants = pair("Conv", 1)
    yes = helper.make_graph(
        [helper.make_node("Relu", ["c"], ["t"])],
        "yes",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
    )
    no = helper.make_graph(
        [helper.make_node("Neg", ["c"], ["e"])], "no", [], [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)]
    )
    nodes += [
        helper.make_node("ReduceSum", ["y"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["flag"], to=TensorProto.BOOL),
        helper.make_node("If", ["flag"], ["z"], then_branch=yes, else_branch=no),
    ]
    model_of(tmp_path / "m.onnx", nodes, constants, ("z", "y"))
    ours, theirs, _ = answers(tmp_path / "m.onnx")
    for name in ("z", "y"):
        np.testing.assert_allclose(ours[name], theirs[name], 1e-4, 1e-4)
