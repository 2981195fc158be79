"""Operators that are lowered by the body that the specification gives them."""

import numpy as np
import pytest
from onnx import helper

CASES = {
    "an attribute left to its default": lambda case: case(
        "HammingWindow", {"n": ((), lambda rng, shape: np.array(7))}, opset=17
    ),
    "a body that depends on the types": lambda case: case(
        "MeanVarianceNormalization", {"x": ("N", 3, 4, 5)}, attributes={"axes": [0, 2]}, opset=13
    ),
    "an input left out in the middle, and steps": lambda case: case(
        "LinearAttention", {"q": ("N", 4, 6), "k": ("N", 4, 6), "v": ("N", 4, 4), "g": ("N", 4, 2)}, {},
        {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "gated"}, order=["q", "k", "v", "", "g"],
        outputs=2, opset=27,
    ),
    "an output left out": lambda case: case(
        "LinearAttention", {"q": ("N", 4, 6), "k": ("N", 4, 3), "v": ("N", 4, 2)}, {},
        {"q_num_heads": 2, "kv_num_heads": 1, "update_rule": "linear"}, outputs=["", "state"], opset=27,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_body_is_bound_to_its_call(bench, case, name):
    bench.agrees_with_reference(CASES[name](case), atol=1e-5)


def test_a_refusal_inside_a_body_names_the_call(bench, case):
    from transload.models.errors import Refused

    made = case("AffineGrid", {"t": ("N", 2, 3)}, {"size": np.array([2, 3, 4, 5])}, {"other": 1})
    with pytest.raises(Refused, match="the AffineGrid"):
        bench.lowered(made)


@pytest.mark.parametrize(
    ("inputs", "attributes", "words"),
    [
        (["n"], {"stretched": 1}, "the operator has no attribute stretched"),
        (["n", "n"], {}, "the call has more inputs or outputs than the operator"),
    ],
)
def test_an_input_that_the_body_does_not_have_is_refused(inputs, attributes, words):
    from transload.converters.onnx_graph.function_bodies import body_of
    from transload.converters.onnx_graph.graph import Node, NodeOrigin
    from transload.models.errors import Refused

    given = {name: helper.make_attribute(name, value) for name, value in attributes.items()}
    node = Node("HannWindow", "", 17, "window", tuple(inputs), ("y",), given, NodeOrigin(), {"": 21})
    with pytest.raises(Refused, match=f"HannWindow node 'window': {words}"):
        body_of(node, [None] * len(inputs))


def test_an_operator_without_a_body_is_refused_by_name(bench, case):
    from transload.models.errors import Refused

    made = case("NoSuchThing", {"x": ("N", 3)}, {}, {"domain": "com.microsoft"})
    with pytest.raises(Refused, match="NoSuchThing"):
        bench.lowered(made)
