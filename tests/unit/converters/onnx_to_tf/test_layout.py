"""Transposes are placed and cancelled by rule; shapes that are known stay known."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from transload.converters.onnx_to_tf.lower_model import lower


def built(tmp_path, nodes, shape, outputs=("y",), constants=()):
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in dict(constants).items()],
    )  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return lower(path)


def operators(lowered):
    return [each.type for each in lowered.module.serve.graph.get_operations()]


def ort(tmp_path, x):
    import onnxruntime

    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


def weight(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def node(op_type, inputs, outputs, **attributes):
    return helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)


def check(tmp_path, lowered, shape):
    import tensorflow as tf

    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    got = lowered.module.serve(tf.constant(x))
    for name, want in zip(lowered.outputs, ort(tmp_path, x), strict=True):
        assert got[name].shape == want.shape
        np.testing.assert_allclose(got[name].numpy(), want, 1e-4, 1e-4)


@pytest.mark.parametrize("channels", [4, 6])
def test_a_tower_of_convolutions_is_transposed_at_its_ends_only(tmp_path, channels):
    weights = {"a": weight(channels, 6, 3, 3), "b": weight(channels, channels, 3, 3), "s": weight(channels, 1, 1)}
    nodes = [
        node("Conv", "x a", "1", pads=[1] * 4), node("Relu", "1", "2"), node("Conv", "2 b", "3", pads=[1] * 4),
        node("Mul", "3 s", "4"), node("Add", "4 2", "5"), node("Concat", "5 2", "6", axis=1),
        node("MaxPool", "6", "y", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
    ]  # fmt: skip
    lowered = built(tmp_path, nodes, ("N", 6, 6, 6), constants=weights)
    assert operators(lowered).count("Transpose") == 2
    check(tmp_path, lowered, (2, 6, 6, 6))


def test_a_vector_from_a_tower_needs_no_transpose(tmp_path):
    weights = {"a": weight(4, 4, 3, 3), "w": weight(4, 5)}
    nodes = [
        node("Conv", "x a", "1"),
        node("GlobalAveragePool", "1", "2"),
        node("Flatten", "2", "3"),
        node("Gemm", "3 w", "y"),
    ]
    lowered = built(tmp_path, nodes, ("N", 4, 4, 4), constants=weights)
    assert operators(lowered).count("Transpose") == 1
    check(tmp_path, lowered, (5, 4, 4, 4))


@pytest.mark.parametrize("sizes", [(4, 4, 4), (3, 8, 6)])
def test_patches_become_tokens_without_a_transpose(tmp_path, sizes):
    channels, high, wide = sizes
    weights = {"a": weight(7, channels, 2, 2), "s": np.array([0, 7, -1])}
    nodes = [
        node("Conv", "x a", "1", strides=[2, 2]), node("Reshape", "1 s", "2"),
        node("Transpose", "2", "y", perm=[0, 2, 1]),
    ]  # fmt: skip
    lowered = built(tmp_path, nodes, ("N", *sizes), constants=weights)
    assert operators(lowered).count("Transpose") == 1
    assert lowered.module.serve.structured_outputs["y"].shape.as_list() == [None, high * wide // 4, 7]
    check(tmp_path, lowered, (2, *sizes))


def test_channels_that_come_last_and_go_back_cancel(tmp_path):
    weights = {"a": weight(4, 4, 1, 1), "w": weight(4, 4)}
    nodes = [
        node("Conv", "x a", "1"), node("Transpose", "1", "2", perm=[0, 2, 3, 1]), node("MatMul", "2 w", "3"),
        node("Transpose", "3", "4", perm=[0, 3, 1, 2]), node("Add", "4 1", "y"),
    ]  # fmt: skip
    lowered = built(tmp_path, nodes, ("N", 4, 4, 4), constants=weights)
    assert operators(lowered).count("Transpose") == 2
    check(tmp_path, lowered, (2, 4, 4, 4))


@pytest.mark.parametrize("axes", [[2], [3], [1], [0], [0, 1], [1, 3], [2, 3], [0, 2]])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("sizes", [(4, 4, 4), (3, 5, 6)])
def test_reductions_of_channels_last_keep_their_order(tmp_path, axes, keep, sizes):
    weights = {"a": weight(7 if len(set(sizes)) > 1 else 4, sizes[0], 1, 1), "axes": np.array(axes)}
    nodes = [node("Conv", "x a", "1"), node("ReduceSum", "1 axes", "y", keepdims=keep)]
    check(tmp_path, built(tmp_path, nodes, ("N", *sizes), constants=weights), (2, *sizes))


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_splits_gathers_and_slices_of_channels_last(tmp_path, axis):
    weights = {
        "a": weight(4, 4, 1, 1),
        "at": np.array([1, 0]),
        "b": np.array([1]),
        "e": np.array([3]),
        "x_": np.array([axis]),
    }
    nodes = [
        node("Conv", "x a", "1"), node("Slice", "1 b e x_", "2"), node("Gather", "2 at", "y", axis=axis),
        node("Softmax", "1", "z", axis=axis),
    ]  # fmt: skip
    lowered = built(tmp_path, nodes, ("N", 4, 4, 4), outputs=("y", "z"), constants=weights)
    check(tmp_path, lowered, (4, 4, 4, 4))


def test_the_arithmetic_of_shapes_stays_known(tmp_path):
    """x.view(x.shape[0], -1, 2) + expand, as the older exporter writes them: no size but the batch is computed."""
    weights = {"0": np.array(0), "a": np.array([0]), "-1": np.array([-1]), "2": np.array([2]), "c": weight(1, 1, 2)}
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s 0", "n", axis=0), node("Unsqueeze", "n a", "n1"),
        node("Concat", "n1 -1 2", "t", axis=0), node("Reshape", "x t", "1"),
        node("Concat", "n1 -1 -1", "wanted", axis=0), node("Shape", "wanted", "r"),
        node("ConstantOfShape", "r", "ones", value=numpy_helper.from_array(np.array([1]))),
        node("Mul", "ones -1", "minus"), node("Equal", "wanted minus", "free"),
        node("Where", "free ones wanted", "target"),
        node("Expand", "c target", "2_"), node("Concat", "1 2_", "y", axis=1),
    ]  # fmt: skip
    lowered = built(tmp_path, nodes, ("N", 3, 4), constants=weights)
    assert lowered.module.serve.structured_outputs["y"].shape.as_list() == [None, 7, 2]
    for batch in (1, 2, 5):
        check(tmp_path, lowered, (batch, 3, 4))


def test_constants_are_computed_while_lowering(tmp_path):
    weights = {"a": weight(40, 30), "s": np.array([30, 40])}
    nodes = [
        node("Transpose", "a", "t", perm=[1, 0]),
        node("Exp", "t", "e"),
        node("Reshape", "e s", "w"),
        node("MatMul", "x w", "y"),
    ]
    lowered = built(tmp_path, nodes, ("N", 30), constants=weights)
    assert not {"Exp", "Transpose"} & set(operators(lowered))
    assert [each.shape.as_list() for each in lowered.module.weights] == [[30, 40]]
    check(tmp_path, lowered, (2, 30))


def test_weights_are_variables_and_shared_ones_are_held_once(tmp_path):
    nodes = [node("MatMul", "x a", "1"), node("MatMul", "1 a", "y")]
    lowered = built(tmp_path, nodes, ("N", 9), constants={"a": weight(9, 9)})
    assert [each.name for each in lowered.module.weights] == ["w0_a:0"]
    check(tmp_path, lowered, (2, 9))


def test_the_same_model_gives_the_same_graph(tmp_path):
    nodes = [node("Conv", "x a", "1"), node("Relu", "1", "2"), node("Softmax", "2", "y")]
    graphs = [
        built(tmp_path, nodes, ("N", 3, 4, 5), constants={"a": weight(7, 3, 1, 1)}).module.serve.graph.as_graph_def()
        for _ in range(2)
    ]
    named = [[(each.op, list(each.input)) for each in graph.node] for graph in graphs]
    assert named[0] == named[1]


@pytest.mark.parametrize("taken", [True, False])
def test_a_computed_condition_chooses_its_branch_when_the_model_runs(tmp_path, taken):
    import tensorflow as tf

    def branch(name, op_type):
        out = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op_type, ["x"], ["z"])], name, [], [out])

    nodes = [
        node("ReduceSum", "x", "sum", keepdims=0), node("Greater", "sum zero", "c"),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("t", "Exp"), else_branch=branch("e", "Neg")),
    ]  # fmt: skip
    lowered = built(tmp_path, nodes, ("N", 3), constants={"zero": np.float32(0).reshape(())})
    x = np.full((2, 3), 1 if taken else -1, np.float32)
    np.testing.assert_allclose(lowered.module.serve(tf.constant(x))["y"].numpy(), np.exp(x) if taken else -x, rtol=1e-6)


@pytest.mark.parametrize("form", ["(x a) h", "(x h) a", "x (a h)"])
def test_a_spelled_out_gelu_becomes_one_operator(tmp_path, form):
    first, second = {"(x a) h": ("x a", "m h"), "(x h) a": ("x h", "m a"), "x (a h)": ("a h", "x m")}[form]
    weights = {"r": np.float32(2**0.5).reshape(()), "1_": np.float32(1).reshape(()), "h": np.float32(0.5).reshape(())}
    nodes = [
        node("Div", "x r", "d"), node("Erf", "d", "e"), node("Add", "e 1_", "a"),
        node("Mul", first, "m"), node("Mul", second, "y"),
    ]  # fmt: skip
    lowered = built(tmp_path, nodes, ("N", 9), constants=weights)
    assert lowered.operators == 1
    check(tmp_path, lowered, (2, 9))


def test_a_subgraph_that_only_resembles_a_gelu_stays(tmp_path):
    weights = {"r": np.float32(1.5).reshape(()), "1_": np.float32(1).reshape(()), "h": np.float32(0.5).reshape(())}
    nodes = [
        node("Div", "x r", "d"), node("Erf", "d", "e"), node("Add", "e 1_", "a"),
        node("Mul", "x a", "m"), node("Mul", "m h", "y"),
    ]  # fmt: skip
    lowered = built(tmp_path, nodes, ("N", 9), constants=weights)
    assert lowered.operators == 5
    check(tmp_path, lowered, (2, 9))


def test_the_table_of_operators_needs_no_tensorflow():
    code = (
        "import sys; from transload.converters.onnx_to_tf import lowerings; "
        "assert len(lowerings.entries()) > 100; sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
