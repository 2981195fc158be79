"""ONNX to SavedModel: names, order, layout and the dynamic batch are the model's own."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from transload.converters.to_saved_model.saved_model_from_onnx import saved_model_from_onnx
from transload.models.artifact import read_artifact, write_artifact
from transload.models.errors import Refused
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature, TensorSpec


def source(folder: Path, names: tuple[str, str], outputs: tuple[str, str], recorded: Signature | None = None) -> Path:
    """A model of two inputs: a 4 (batch, 3, 5, 4) image through a convolution, and a vector."""
    folder.mkdir()
    kernel = np.random.default_rng(0).standard_normal((7, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", [names[0], "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], [outputs[0]]),
        helper.make_node("Mul", [names[1], "two"], [outputs[1]]),
    ]
    signature = Signature(
        (TensorSpec(names[0], "float32", ("batch", 3, 5, 4)), TensorSpec(names[1], "float32", ("batch", 6))),
        (TensorSpec(outputs[0], "float32", ("batch", 7, 5, 4)), TensorSpec(outputs[1], "float32", ("batch", 6))),
    )

    def values(specs: tuple[TensorSpec, ...]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(spec.name, TensorProto.FLOAT, spec.shape) for spec in specs]

    constants = [numpy_helper.from_array(kernel, "w"), numpy_helper.from_array(np.array(2, np.float32), "two")]
    graph = helper.make_graph(nodes, "g", values(signature.inputs), values(signature.outputs), constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, folder / "model.onnx")
    write_artifact(folder, Target(Format.ONNX), recorded or signature)
    return folder


def converted(tmp_path: Path, folder: Path) -> Path:
    out = tmp_path / "out"
    out.mkdir()
    facts = saved_model_from_onnx(Job({"source": folder}, out))
    assert facts == {"operators": 3, "opset": 20, "weights": 1}
    return out


NAMES = [
    (("image", "vector"), ("seen", "doubled")),
    (("z", "a"), ("y", "b")),
    (("x.1", "in/put:0"), ("out.1", "scope/y:0")),
    (("batch", "serving_default"), ("x", "y")),
    (("input_1", "input_0"), ("a b", "0")),
    (("X", "x"), ("y", "Y")),
    (("input_1", "a.b"), ("y", "z")),
]


@pytest.mark.parametrize(("inputs", "outputs"), NAMES)
def test_names_are_kept_whatever_they_are(tmp_path: Path, inputs: tuple[str, str], outputs: tuple[str, str]) -> None:
    import onnxruntime
    import tensorflow as tf

    folder = source(tmp_path / "source", inputs, outputs)
    out = converted(tmp_path, folder)
    artifact = read_artifact(out)
    assert artifact.signature == read_artifact(folder).signature
    served = tf.saved_model.load(str(artifact.path)).signatures["serving_default"]
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    for batch in (1, 2, 5):
        feeds = {
            spec.name: rng.standard_normal((batch, *map(int, spec.shape[1:]))).astype(np.float32)
            for spec in artifact.signature.inputs
        }
        want = session.run(list(outputs), feeds)
        got = served(**{name: tf.constant(array) for name, array in feeds.items()})
        for name, expected in zip(outputs, want, strict=True):
            np.testing.assert_allclose(got[name].numpy(), expected, 1e-5, 1e-5)


# Python cannot call a signature that has an input called self; a server can.
@pytest.mark.parametrize(("inputs", "outputs"), [*NAMES, (("self", "x"), ("y", "self"))])
def test_servers_read_the_same_signature(tmp_path: Path, inputs: tuple[str, str], outputs: tuple[str, str]) -> None:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    out = converted(tmp_path, source(tmp_path / "source", inputs, outputs))
    (graph,) = SavedModel.FromString((out / "saved_model" / "saved_model.pb").read_bytes()).meta_graphs
    served = graph.signature_def["serving_default"]
    assert set(served.inputs) == set(inputs)
    assert set(served.outputs) == set(outputs)
    assert [dim.size for dim in served.inputs[inputs[0]].tensor_shape.dim] == [-1, 3, 5, 4]
    assert [dim.size for dim in served.outputs[outputs[0]].tensor_shape.dim] == [-1, 7, 5, 4]


def test_weights_lie_in_variables_and_no_python_is_needed(tmp_path: Path) -> None:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    out = converted(tmp_path, source(tmp_path / "source", ("a", "b"), ("c", "d")))
    (graph,) = SavedModel.FromString((out / "saved_model" / "saved_model.pb").read_bytes()).meta_graphs
    nodes = [*graph.graph_def.node, *(node for each in graph.graph_def.library.function for node in each.node_def)]
    constants = [node for node in nodes if node.op == "Const" and len(node.attr["value"].tensor.tensor_content) > 256]
    assert not constants
    assert not {node.op for node in nodes} & {"PyFunc", "EagerPyFunc", "XlaCallModule", "PyFuncStateless"}


def test_a_record_that_promises_other_names_is_refused(tmp_path: Path) -> None:
    wrong = Signature(
        (TensorSpec("b", "float32", (1,)), TensorSpec("a", "float32", (1,))), (TensorSpec("c", "float32", (1,)),)
    )
    folder = source(tmp_path / "source", ("a", "b"), ("c", "d"), wrong)
    with pytest.raises(Refused, match="the ONNX model's inputs are a, b, its record says b, a"):
        converted(tmp_path, folder)
