"""What cannot be carried is refused by name, and never overlooked."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from transload.models.errors import Refused

from .conftest import numbers


def refused(bench, node, *arrays, constants=None, dynamic=(), opset=20):
    fed = {f"x{at}": each for at, each in enumerate(arrays)}
    path = bench.model([node], fed, list(node.output), constants=constants, dynamic=dynamic, opset=opset)
    with pytest.raises(Refused) as caught:
        bench.written(path, fed)
    return str(caught.value)


def test_an_attribute_that_nobody_reads(bench):
    node = helper.make_node("Relu", ["x0"], ["y"], "the node", alpha=0.1)
    assert "Relu node 'the node': its attribute alpha is not carried" in refused(bench, node, numbers(2))


def test_an_input_that_nobody_reads(bench):
    node = helper.make_node("Relu", ["x0", "x1"], ["y"])
    assert "its optional input 1 is not carried" in refused(bench, node, numbers(2), numbers(3))


def test_an_operator_that_nobody_knows(bench):
    text = refused(bench, helper.make_node("Weird", ["x0"], ["y"], domain="own"), numbers(2))
    assert "not among those that become PyTorch" in text


def test_a_branch_that_is_known_is_taken(bench):
    x = numbers(2, 3)
    inner = [
        helper.make_graph([helper.make_node(kind, ["x"], ["z"])], "g", [], [helper.make_empty_tensor_value_info("z")])
        for kind in ("Relu", "Neg")
    ]
    node = helper.make_node("If", ["yes"], ["y"], then_branch=inner[0], else_branch=inner[1])
    path = bench.model([node], {"x": x}, ["y"], constants={"yes": np.array(False)})
    bench.same(path, {"x": x})


def test_a_dtype_that_pytorch_does_not_compute_in(bench):
    text = refused(bench, helper.make_node("Add", ["x0", "x0"], ["y"]), numbers(2, dtype="uint16"))
    assert "its input 0 is uint16" in text


def test_a_model_in_training_mode(bench):
    node = helper.make_node("BatchNormalization", ["x0", "x1", "x1", "x1", "x1"], ["y"], training_mode=1)
    assert "it is in training mode" in refused(bench, node, numbers(2, 3, 4), numbers(3))


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_pads_that_auto_pad_rules_out(bench, op_type):
    node = helper.make_node(op_type, ["x0", "x1"], ["y"], auto_pad="VALID", pads=[1, 1])
    assert "it has both auto_pad and pads" in refused(bench, node, numbers(2, 3, 5), numbers(3, 3, 2))


def test_a_wording_that_nobody_has_read(bench):
    node = helper.make_node("BitShift", ["x0", "x0"], ["y"], direction="LEFT")
    assert "as opset 28 words it" in refused(bench, node, numbers(2, dtype="uint8"), opset=28)


def test_an_axis_whose_size_the_model_makes_a_constant(bench):
    x, fixed = numbers(7, 3), numbers(7, 3)
    node = helper.make_node("Einsum", ["x0", "k"], ["y"], equation="ab,ab->a")
    text = refused(bench, node, x, constants={"k": fixed}, dynamic=(0,))
    assert "cannot be dynamic" in text


def test_half_of_the_transform_of_a_complex_signal(bench):
    node = helper.make_node("STFT", ["x0", "step", "", "length"], ["y"])
    constants = {"step": np.array(4), "length": np.array(8)}
    text = refused(bench, node, numbers(2, 32, 2), constants=constants)
    assert "half of the transform of a complex signal does not tell the other" in text


def test_frames_whose_length_is_known_only_when_it_runs(bench):
    node = helper.make_node("STFT", ["x0", "step"], ["y"])
    text = refused(bench, node, numbers(2, 32, 1), constants={"step": np.array(4)}, dynamic=(1,))
    assert "the length of its frames is known only when the module runs" in text


def test_a_cast_to_text(bench):
    assert "it casts to" in refused(bench, helper.make_node("Cast", ["x0"], ["y"], to=TensorProto.INT4), numbers(2))
