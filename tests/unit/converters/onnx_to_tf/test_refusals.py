"""Unsupported nodes are refused by name, and nothing that a node says can be overlooked."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from transload.converters.onnx_to_tf import lowerings, operator_context
from transload.converters.onnx_to_tf.lower_model import lower
from transload.models.errors import BadRequest, Refused


def relu_with(op_type="Relu", **attributes):
    node = helper.make_node(op_type, ["x"], ["y"], name="act", **attributes)
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'layers', 'layers.0', 'relu']")
    node.metadata_props.add(
        key="pkg.torch.onnx.stack_trace", value='File "/home/someone/net.py", line 12, in forward\n    return relu(x)'
    )
    return node


def written(tmp_path, *nodes, opset=20, initializers=(), shape=("N", 3)):
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        initializers,
    )  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


def test_an_unread_attribute_is_refused_by_name_and_origin(tmp_path):
    with pytest.raises(Refused) as caught:
        lower(written(tmp_path, relu_with(sharpness=2.0)))
    assert caught.value.what == ("Relu node 'act' (module layers.0, net.py:12): its attribute sharpness is not carried")


def test_without_the_check_an_unread_attribute_is_ignored_silently(tmp_path, monkeypatch):
    monkeypatch.setattr(operator_context.OperatorContext, "check_all_read", lambda _self, _answers: None)
    assert lower(written(tmp_path, relu_with(sharpness=2.0))).outputs == ("y",)


def test_an_unread_input_is_refused(tmp_path):
    node = helper.make_node("Relu", ["x", "x"], ["y"], name="act")
    with pytest.raises(Refused, match="its optional input 1 is not carried"):
        lower(written(tmp_path, node))


def test_a_missing_output_is_refused(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["z", "y"], name="act")]
    with pytest.raises(Refused, match="its optional output 1 is not carried"):
        lower(written(tmp_path, *nodes))


def test_an_operator_that_is_not_known_is_refused(tmp_path):
    with pytest.raises(Refused, match=r"Celestial node 'act' .*: the operator, as opset 20 words it, is not among"):
        lower(written(tmp_path, relu_with("Celestial")))


def test_an_unknown_wording_is_refused(tmp_path, monkeypatch):
    (entry,) = lowerings.entries()["", "Relu"]
    old = replace(entry, until=13)
    monkeypatch.setitem(lowerings.entries(), ("", "Relu"), [old])
    assert lower(written(tmp_path, relu_with(), opset=13)).opset == 13
    with pytest.raises(Refused, match="as opset 14 words it"):
        lower(written(tmp_path, relu_with(), opset=14))


def test_a_dtype_that_the_operator_does_not_take_is_refused(tmp_path):
    cast = helper.make_node("Cast", ["x"], ["i"], to=TensorProto.UINT8)
    node = helper.make_node("Softplus", ["i"], ["y"], name="act")
    with pytest.raises(Refused, match="its input 0 is uint8, and only bfloat16, float16, float32, float64 can be"):
        lower(written(tmp_path, cast, node))


def test_nodes_that_no_output_needs_are_not_checked(tmp_path):
    odd = helper.make_node("Celestial", ["x"], ["unused"])
    assert lower(written(tmp_path, odd, relu_with())).operators == 1


def test_a_model_in_training_mode_is_refused(tmp_path):
    vectors = [numpy_helper.from_array(np.ones(3, np.float32), name) for name in "sbmv"]
    node = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"], name="bn", training_mode=1)
    with pytest.raises(Refused, match=r"exported in training mode\n  fix: call eval\(\)"):
        lower(written(tmp_path, node, initializers=vectors))


@pytest.mark.parametrize("content", [b"", b"not a model at all", b"\x08\x0a"])
def test_a_file_that_is_no_model_is_a_bad_request(tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(BadRequest, match="is not an ONNX model"):
        lower(path)


def test_a_model_that_is_cut_short_is_a_bad_request(tmp_path):
    path = written(tmp_path, relu_with())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadRequest, match="is not an ONNX model"):
        lower(path)


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname"])
def test_weights_outside_of_the_models_folder_are_not_read(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    outside = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value=location)
    outside.external_data.add(key="length", value="12")
    path = written(folder, helper.make_node("Add", ["x", "w"], ["y"]), initializers=[outside])
    with pytest.raises(BadRequest, match="the weights of w cannot be read"):
        lower(path)


def test_every_lowering_names_the_dtypes_of_each_type_variable():
    """Of every wording that it is registered for: else a dtype could pass unasked."""
    for (domain, op_type), entries in lowerings.entries().items():
        for schema in onnx.defs.get_all_schemas_with_history():
            if (schema.domain, schema.name) != (domain, op_type):
                continue
            entry = lowerings.find(domain, op_type, schema.since_version)
            variables = {each.type_param_str for each in schema.type_constraints}
            asked = {each.type_str for each in schema.inputs} & variables
            assert entry is None or asked <= set(entry.dtypes), (op_type, schema.since_version)
            assert entries


def test_sparse_constants_of_a_graph_are_refused_by_name(tmp_path):
    import onnx
    import onnx.parser
    from onnx import helper, numpy_helper

    from transload.converters.onnx_graph.graph import read_model
    from transload.models.errors import Refused

    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[3] x) => (float[3] y) {y = Add(x, w)}'
    )
    values, places = np.array([2], np.float32), np.array([1], np.int64)
    made = helper.make_sparse_tensor(numpy_helper.from_array(values, "w"), numpy_helper.from_array(places), [3])
    model.graph.sparse_initializer.append(made)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(Refused, match="w is a sparse_initializer"):
        read_model(tmp_path / "m.onnx")
