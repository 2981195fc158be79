"""Functions that a model defines itself."""

import numpy as np
import onnx
import pytest
from onnx import helper, parser

from transload.converters.onnx_to_tf.lower_model import lower
from transload.models.errors import BadRequest, Refused

X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)

NESTED = """
<ir_version: 10, opset_import: ["" : 20, "my" : 1]>
g (float[N,3] x) => (float[N,3] y) <float[1] t = {2.0}> {
  a = my.outer <slope = 0.3> (x)
  b = Mul (a, t)
  y = my.outer (b)
}
<domain: "my", opset_import: ["" : 20, "my" : 1, "other" : 1]>
outer <slope: float = 0.1> (x) => (y) {
  t = my.inner <a: float = @slope> (x)
  y = other.shifted (t, x)
}
<domain: "my", opset_import: ["" : 18]>
inner <a> (x) => (y) {
  s = ReduceSum <keepdims = 0> (x)
  zero = Constant <value_float = 0.0> ()
  c = Greater (s, zero)
  y = If (c) <then_branch = g1 () => (float[N,3] t) { t = LeakyRelu <alpha: float = @a> (x) },
              else_branch = g2 () => (float[N,3] t2) { t2 = Neg (x) }>
}
<domain: "other", opset_import: ["" : 20]>
shifted <by: float = 0.5> (t, x) => (y) {
  by = Constant <value_float: float = @by> ()
  a = Add (t, x)
  y = Add (a, by)
}
"""


def saved(tmp_path, text):
    model = text if isinstance(text, onnx.ModelProto) else parser.parse_model(text)
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def answer(path, *arrays):
    import tensorflow as tf

    return lower(path).module.serve(*map(tf.constant, arrays))["y"].numpy()


def inner(x, slope):
    return np.where(x < 0, slope * x, x) if x.sum() > 0 else -x


@pytest.mark.parametrize("x", [X, -X, X[:1]])
def test_functions_call_functions_with_their_own_names_attributes_defaults_and_opsets(tmp_path, x):
    """The outer one's default goes on to the inner one; inside of it names are its own, `t` as well."""
    outer = [x]
    for slope in (0.3, 0.1):
        outer.append(inner(outer[-1], slope) + outer[-1] + np.float32(0.5))
        if slope == 0.3:
            outer[-1] = outer[-1] * 2
    np.testing.assert_allclose(answer(saved(tmp_path, NESTED), x), outer[-1], rtol=1e-6)


def test_an_input_missing_in_a_call_is_missing_inside(tmp_path):
    text = """
    <ir_version: 10, opset_import: ["" : 20, "my" : 1]>
    g (float[N,3] x) => (float[N,3] y) { y = my.bounded (x, , x) }
    <domain: "my", opset_import: ["" : 20]>
    bounded <low> (x, low, high, more) => (y, rest) {
      y = Clip (x, low)
      rest = Unheard (x, more)
      c = Constant <value: tensor = @low> ()
    }
    """
    np.testing.assert_array_equal(answer(saved(tmp_path, text), X), X)


def test_a_function_of_the_model_goes_before_an_operator_of_its_name(tmp_path):
    text = """
    <ir_version: 10, opset_import: ["" : 20, "my" : 1]>
    g (float[N,3] x) => (float[N,3] y) { y = my.Gelu (x) }
    <domain: "my", opset_import: ["" : 20]>
    Gelu (x) => (y) { y = Neg (x) }
    """
    np.testing.assert_array_equal(answer(saved(tmp_path, text), X), -X)


def test_overloads_are_told_apart(tmp_path):
    text = """
    <ir_version: 10, opset_import: ["" : 20, "my" : 1]>
    g (float[N,3] x) => (float[N,3] y) { a = my.f:one (x)  y = my.f:two (a) }
    <domain: "my", overload: "one", opset_import: ["" : 20]>
    f (x) => (y) { y = Neg (x) }
    <domain: "my", overload: "two", opset_import: ["" : 20]>
    f (x) => (y) { y = Exp (x) }
    """
    np.testing.assert_allclose(answer(saved(tmp_path, text), X), np.exp(-X), rtol=1e-6)


def test_a_refusal_inside_of_a_function_tells_where_the_call_comes_from(tmp_path):
    model = parser.parse_model(NESTED.replace("Neg (x)", "Celestial (x)"))
    for key, value in (
        ("pkg.torch.onnx.name_scopes", "['', 'layers.0', 'call']"),
        ("pkg.torch.onnx.stack_trace", 'File "net.py", line 12, in forward'),
    ):
        model.graph.node[0].metadata_props.add(key=key, value=value)
    with pytest.raises(Refused, match=r"Celestial node 't2' \(module layers.0, net.py:12\): the operator"):
        lower(saved(tmp_path, model))


def test_a_node_of_a_function_keeps_its_own_origin(tmp_path):
    model = parser.parse_model(NESTED.replace("Add (t, x)", "Celestial (t, x)"))
    for node, module in ((model.graph.node[0], "net"), (model.functions[2].node[1], "net.deep")):
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=f"['{module}', 'call']")
    with pytest.raises(Refused, match=r"\(module net.deep\): the operator"):
        lower(saved(tmp_path, model))


def test_a_function_that_calls_itself_is_refused(tmp_path):
    text = NESTED.replace("a = Add (t, x)", "a = my.outer (t)")
    with pytest.raises(Refused, match="the function calls itself"):
        lower(saved(tmp_path, text))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("my.outer <tilt = 0.3> (x)", "the function has no attribute tilt"),
        ("my.outer (x, x)", "the call has more inputs or outputs than the function"),
    ],
)
def test_a_call_with_more_than_the_function_takes_is_refused(tmp_path, call, words):
    with pytest.raises(Refused, match=words):
        lower(saved(tmp_path, NESTED.replace("my.outer <slope = 0.3> (x)", call)))


@pytest.mark.parametrize("inside", [False, True], ids=["constant", "branch"])
def test_tensors_inside_of_nodes_may_be_kept_outside_of_the_file(tmp_path, monkeypatch, inside):
    """And are read from the model's folder, wherever the process stands."""
    numbers = np.arange(3, dtype=np.float32)
    (tmp_path / "weights.bin").write_bytes(numbers.tobytes())
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[3], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    node = helper.make_node("Constant", [], ["w"], value=tensor)
    if inside:
        kinds = [helper.make_tensor_value_info("w", 1, [3])]
        branches = {
            "then_branch": helper.make_graph([], "a", [], kinds, [tensor]),
            "else_branch": helper.make_graph([node], "b", [], kinds),
        }
        node = helper.make_node("If", ["c"], ["w"], **branches)
    text = "g (float[N,3] x, bool c) => (float[N,3] y) { y = Add (x, w) }"
    model = helper.make_model(parser.parse_graph(text), opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    model.graph.node.insert(0, node)
    path = saved(tmp_path, model)
    monkeypatch.chdir("/")
    for condition in (True, False):
        np.testing.assert_array_equal(answer(path, X, condition), X + numbers)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(BadRequest, match="the weights of w cannot be read"):
        lower(path)
