"""Patterns: what exporters spell out becomes one operator again, and a subgraph that only resembles one stays."""

import numpy as np
import pytest

HEAD = """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 5] x) => (float[N, 5] y)
<float root = {ROOT}, float one = {ONE}, float half = {HALF}>"""
SPELLED = {
    "divided": "d = Div(x, root) e = Erf(d) s = Add(e, one) m = Mul(x, s) y = Mul(m, half)",
    "halved first": "d = Div(x, root) e = Erf(d) s = Add(one, e) h = Mul(half, x) y = Mul(h, s)",
}


def model(nodes, root=2**0.5, one=1.0, half=0.5):
    text = HEAD.replace("ROOT", repr(root)).replace("ONE", repr(one)).replace("HALF", repr(half))
    return text + " { " + nodes.replace(") ", ") \n") + " }"


def operators(text):
    import onnx.parser

    from transload.converters.onnx_graph.graph import graph_of
    from transload.converters.onnx_graph.patterns import fused

    parsed = onnx.parser.parse_model(text)
    return [node.op_type for node in fused(graph_of(parsed.graph, {"": 17})).nodes]


@pytest.mark.parametrize("name", SPELLED)
def test_a_spelled_out_gelu_becomes_one_operator_with_equal_outputs(bench, name):
    assert operators(model(SPELLED[name])) == ["Gelu"]
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    bench.model_agrees(model(SPELLED[name]), {"x": x}, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("change", [{"root": 1.5}, {"one": 2.0}, {"half": 0.25}])
def test_a_subgraph_that_only_resembles_a_gelu_stays(bench, change):
    text = model(SPELLED["divided"], **change)
    assert "Gelu" not in operators(text)
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    bench.model_agrees(text, {"x": x}, tflite=False, rtol=1e-5, atol=1e-6)


def test_a_gelu_of_another_value_stays(bench):
    nodes = "d = Div(x, root) e = Erf(d) s = Add(e, one) n = Neg(x) m = Mul(n, s) y = Mul(m, half)"
    assert "Gelu" not in operators(model(nodes))


def test_a_half_that_adds_axes_stays(bench):
    """The product has the rank of the constant."""
    text = (
        model(SPELLED["divided"])
        .replace("float half", "float[1, 1, 1] half")
        .replace("float[N, 5] y", "float[M, N, 5] y")
    )
    assert "Gelu" not in operators(text)
    bench.model_agrees(text, {"x": np.ones((3, 5), np.float32)}, tflite=False)
