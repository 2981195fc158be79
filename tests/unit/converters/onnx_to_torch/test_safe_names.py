"""Nothing that a file says becomes code."""

import ast

import pytest
from onnx import helper

from transload.converters.onnx_to_torch.safe_names import IdentifierPool, comment, number
from transload.models.errors import Refused

from .conftest import numbers

HOSTILE = [
    "x); import os #", '"""\nimport os\n"""', "x\nimport os", "'+__import__('os').abort()+'", "\\", "self", "class",
    "torch", "forward", "state_dict", "éé", "", "1", "__init__", "x" * 5000, "\u202eabc", "a\x00b",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_name_is_an_identifier_that_means_nothing_yet(text):
    names = IdentifierPool()
    first, second = names.fresh(text), names.fresh(text)
    assert first.isidentifier()
    assert first.isascii()
    assert first != second
    assert first not in ("self", "class", "torch", "import", "print")
    assert len(first) < 80


def test_names_that_differ_only_in_signs_stay_apart():
    names = IdentifierPool()
    assert names.fresh("a.b") == "a_b"
    assert names.fresh("a_b") == "a_b_2"


def test_what_tools_put_around_a_name_is_left_out_and_a_long_one_begins_with_a_word():
    names = IdentifierPool()
    assert names.fresh("StatefulPartitionedCall/StatefulPartitionedCall_1/dense/MatMul:0") == "dense_mat_mul"
    assert names.fresh("transload.inner.dense/Relu:0") == "dense_relu"
    assert names.fresh("StatefulPartitionedCall/dense/BiasAdd/ReadVariableOp") == "dense_bias_add"
    assert names.fresh("/".join(["first", *["encoder"] * 7, "last"])) == "_".join([*["encoder"] * 6, "last"])


@pytest.mark.parametrize("text", HOSTILE)
def test_a_comment_is_one_printable_line(text):
    made = comment(text)
    assert "\n" not in made
    assert made.isascii()
    assert len(made) <= 90


@pytest.mark.parametrize(
    ("value", "dtype", "code"),
    [
        (0.10000000149011612, "float32", "0.1"), (0.1, "float64", "0.1"), (1e-5, "float32", "1e-05"),
        (float("inf"), "float32", "math.inf"), (float("-inf"), "float16", "-math.inf"),
        (float("nan"), "float64", "math.nan"),
    ],
)  # fmt: skip
def test_a_number_is_its_shortest_text(value, dtype, code):
    assert number(value, dtype) == code


def statements(text):
    """What a module does besides defining functions and its class, and every name that it imports."""
    tree = ast.parse(text)
    imported = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
    }
    return {type(node).__name__ for node in tree.body}, imported


@pytest.mark.parametrize("name", [each for each in HOSTILE if each and "\x00" not in each])
def test_names_in_a_file_cannot_become_code(bench, name):
    x, w = numbers(2, 3), numbers(3, 4)
    outside = name if name.isprintable() and len(name) < 1000 else "x"  # others are refused for inputs and outputs
    nodes = [
        helper.make_node("MatMul", [f"{outside}in", name], [f"{name}mid"], name=name, doc_string=name),
        helper.make_node("Relu", [f"{name}mid"], [f"{outside}out"], name=f"/{name}/x"),
    ]
    entry = nodes[1].metadata_props.add()
    entry.key, entry.value = "pkg.torch.onnx.stack_trace", f'File "{name}", line 3'
    path = bench.model(nodes, {f"{outside}in": x}, [f"{outside}out"], constants={name: w}, dynamic=(0,))
    made = bench.written(path, {f"{outside}in": x})
    kinds, imported = statements(made.text)
    assert kinds <= {"Expr", "ImportFrom", "Import", "ClassDef", "FunctionDef"}
    assert imported <= {"annotations", "Path", "torch", "load_file", "Tensor", "nn", "torch.nn.functional", "math"}
    assert made.text.isascii()
    bench.same(path, {f"{outside}in": x}, dynamic=(0,))


@pytest.mark.parametrize("text", HOSTILE[:4])
@pytest.mark.parametrize(
    ("op_type", "attribute"),
    [("Einsum", "equation"), ("Resize", "mode"), ("GridSample", "padding_mode"), ("DepthToSpace", "mode"),
     ("Conv", "auto_pad"), ("Gelu", "approximate"), ("LSTM", "direction"), ("ScatterND", "reduction")],
)  # fmt: skip
def test_text_in_an_attribute_cannot_become_code(bench, op_type, attribute, text):
    x = numbers(1, 4, 4, 4)
    node = helper.make_node(op_type, ["x", "x", "x"][: 1 if op_type in ("DepthToSpace", "Gelu") else 3], ["y"])
    node.attribute.append(helper.make_attribute(attribute, text))
    path = bench.model([node], {"x": x}, ["y"])
    with pytest.raises(Refused):
        bench.written(path, {"x": x})


def test_activations_of_a_recurrent_layer_are_words(bench):
    x, w, r = numbers(3, 2, 4), numbers(1, 5, 4), numbers(1, 5, 5)
    node = helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=5, activations=["t) or __import__('os') #"])
    path = bench.model([node], {"x": x}, ["y"], constants={"w": w, "r": r})
    with pytest.raises(Refused, match="no activation is called"):
        bench.written(path, {"x": x})
