"""The module as a person finds it: text, weights, and how it is loaded."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from transload.converters.onnx_to_torch.helper_source import functions, text_of
from transload.converters.to_pytorch.pt2_from_onnx import load_module, pt2_from_onnx
from transload.models.artifact import read_artifact, write_artifact
from transload.models.errors import Refused
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature, TensorSpec

from .conftest import close, numbers

FORWARD = """
    def forward(self, image: Tensor) -> Tensor:
        batch = image.shape[0]
        # module stem
        stem_conv = F.conv2d(image, self.stem_weight, self.stem_bias, stride=2, padding=1)
        stem_relu = torch.relu(stem_conv)
        # module head
        flat = stem_relu.reshape(batch, 80)
        logits = F.linear(flat, self.head_weight)
        return logits
"""


def classifier(folder):
    """An artifact: a convolution, a reshape by the batch, a product."""
    nodes = [
        helper.make_node("Conv", ["image", "stem.weight", "stem.bias"], ["/stem/Conv_output_0"], "/stem/Conv",
                         kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["/stem/Conv_output_0"], ["/stem/Relu_output_0"], "/stem/Relu"),
        helper.make_node("Shape", ["image"], ["shape"], "/head/Shape"),
        helper.make_node("Gather", ["shape", "zero"], ["size"], "/head/Gather"),
        helper.make_node("Unsqueeze", ["size", "axes"], ["sizes"], "/head/Unsqueeze"),
        helper.make_node("Concat", ["sizes", "rest"], ["target"], "/head/Concat", axis=0),
        helper.make_node("Reshape", ["/stem/Relu_output_0", "target"], ["flat"], "/head/Reshape"),
        helper.make_node("Gemm", ["flat", "head.weight"], ["logits"], "/head/Gemm", transB=1),
    ]  # fmt: skip
    held = {
        "stem.weight": numbers(5, 3, 3, 3), "stem.bias": numbers(5), "head.weight": numbers(7, 80),
        "zero": np.array(0), "axes": np.array([0]), "rest": np.array([80]),
    }  # fmt: skip
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", 7])],
        [onnx.numpy_helper.from_array(each, name) for name, each in held.items()],
    )  # fmt: skip
    folder.mkdir()
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "model.onnx")
    signature = Signature(
        (TensorSpec("image", "float32", ("batch", 3, 8, 8)),), (TensorSpec("logits", "float32", ("batch", 7)),)
    )
    return write_artifact(folder, Target(Format.ONNX), signature)


@pytest.fixture
def made(tmp_path):
    """The artifact that the step makes of it."""
    (tmp_path / "out").mkdir()
    classifier(tmp_path / "onnx")
    pt2_from_onnx(Job({"source": tmp_path / "onnx"}, tmp_path / "out"))
    return tmp_path / "out"


def test_forward_is_a_clear_line_for_each_operator(made):
    assert FORWARD in (made / "model.py").read_text()


def test_the_artifact_holds_the_program_the_module_and_its_weights(made):
    files = ["artifact.json", "model.pt2", "model.py", "weights.safetensors"]
    assert sorted(each.name for each in made.iterdir()) == files


def test_a_weight_may_be_called_as_something_of_pytorchs_modules(bench):
    x = numbers(2, 3)
    for name in ("training", "forward", "_parameters", "weight"):
        node = helper.make_node("MatMul", ["x", name], ["y"])
        path = bench.model([node], {"x": x}, ["y"], constants={name: numbers(3, 4)}, dynamic=(0,))
        bench.same(path, {"x": x}, dynamic=(0,))


def test_weights_have_the_names_of_the_onnx_file(made):
    assert sorted(load_module(made).state_dict()) == ["head_weight", "stem_bias", "stem_weight"]
    assert all(each.requires_grad for each in load_module(made).parameters())


def test_the_module_loads_without_transload(made):
    code = "import sys; sys.path.insert(0, '.'); from model import load; load(); sys.exit('transload' in sys.modules)"
    subprocess.run([sys.executable, "-P", "-c", code], cwd=made, check=True, timeout=120)
    assert "import transload" not in (made / "model.py").read_text()


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_the_exported_program_is_that_of_the_module_at_every_batch(made, batch):
    image = torch.from_numpy(numbers(batch, 3, 8, 8))
    with torch.no_grad():
        want = load_module(made)(image)
    assert want.shape == (batch, 7)
    close(torch.export.load(made / "model.pt2").module()(image), [want.numpy()])


def test_the_artifact_keeps_the_signature(made):
    artifact = read_artifact(made)
    assert artifact.target == Target(Format.PT2)
    assert [str(each) for each in artifact.signature.inputs] == ["image=float32[batch,3,8,8]"]


def test_a_program_answers_at_a_size_at_which_torch_export_guards_it_for_nothing(tmp_path):
    nodes = [
        helper.make_node("Slice", ["x", "zero", "one", "one"], ["first"]),
        helper.make_node("Slice", ["x", "zero", "last", "one"], ["before"]),
        helper.make_node("Concat", ["first", "before"], ["y"], axis=1),
    ]
    pt2_from_onnx(Job({"source": steps(nodes, tmp_path / "onnx")}, made := tmp_path / "out"))
    for time in (2, 3, 5):
        x = torch.from_numpy(numbers(3, time, 4))
        close(torch.export.load(made / "model.pt2").module()(x), [torch.cat([x[:, :1], x[:, :-1]], 1).numpy()])


def steps(nodes, folder):
    """An artifact of x (batch, time, 4) to y."""
    shape: list[str | int] = ["batch", "time", 4]
    held = {"zero": np.array([0]), "one": np.array([1]), "last": np.array([-1])}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)],
        [onnx.numpy_helper.from_array(each, name) for name, each in held.items()],
    )  # fmt: skip
    folder.mkdir()
    folder.with_name("out").mkdir()
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "model.onnx")
    specs = (TensorSpec("x", "float32", tuple(shape)),), (TensorSpec("y", "float32", tuple(shape)),)
    write_artifact(folder, Target(Format.ONNX), Signature(*specs))
    return folder


def test_a_record_with_other_names_is_refused(tmp_path):
    artifact = classifier(tmp_path / "onnx")
    other = Signature(artifact.signature.inputs, (TensorSpec("scores", "float32", ("batch", 7)),))
    write_artifact(tmp_path / "onnx", artifact.target, other)
    with pytest.raises(Refused, match="outputs are logits, its record says scores"):
        pt2_from_onnx(Job({"source": tmp_path / "onnx"}, tmp_path))


def test_a_weight_that_two_names_share_is_held_once(bench):
    x, w = numbers(2, 3), numbers(3, 3)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["b"])]
    path = bench.model(nodes, {"x": x}, ["b"], constants={"w": w})
    assert list(bench.written(path, {"x": x}).weights) == ["w"]


def test_what_is_known_is_folded(bench):
    x = numbers(2, 3)
    nodes = [helper.make_node("Transpose", ["w"], ["t"]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    path = bench.model(nodes, {"x": x}, ["y"], constants={"w": numbers(4, 3)})
    made = bench.written(path, {"x": x})
    assert [each.shape for each in made.weights.values()] == [(3, 4)]
    assert "transpose" not in made.text


def test_every_helper_stands_alone_as_text():
    for name in functions():
        compile(text_of([name]), name, "exec")
        assert f"def {name}(" in text_of([name])


def test_what_a_module_makes_lies_where_its_inputs_do(bench):
    fed = {"x": numbers(3, 5, 4), "lengths": np.array([2, 5, 1])}
    nodes = [
        helper.make_node("ReverseSequence", ["x", "lengths"], ["turned"], batch_axis=0, time_axis=1),
        helper.make_node("OneHot", ["lengths", "depth", "ends"], ["hot"]),
        helper.make_node("Pad", ["x", "widths"], ["wide"], mode="reflect"),
        helper.make_node("EyeLike", ["hot"], ["eye"]),
    ]
    held = {"depth": np.array(6), "ends": numbers(2), "widths": np.array([0, 1, 0, 0, 1, 0])}
    module = bench.module(bench.model(nodes, fed, ["turned", "hot", "wide", "eye"], constants=held), fed)
    made = module.to("meta")(*(torch.from_numpy(each).to("meta") for each in fed.values()))
    assert {each.device.type for each in made} == {"meta"}
