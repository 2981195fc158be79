"""What a model computes of its sizes stays sizes: the program that is exported holds at every one of them."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

from transload.converters.onnx_graph.graph import read_model
from transload.converters.onnx_to_torch.generate_module import generate
from transload.models.signature import Bounds

from .conftest import close, numbers

SIZES = (1, 2, 3, 5, 8)  # equal ones, too


def ints(*values):
    return np.array(values, np.int64)


def node(op_type, inputs, outputs, **attributes):
    return helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)


def holds(bench, nodes, outputs, *, constants=None, rest=(6,), sizes=SIZES):
    """The program of a model of x (a, b, *rest), exported once, against ONNX Runtime wherever a and b are of `sizes`.
    The text of its module."""
    example = numbers(4, 7, *rest)
    path = bench.model(nodes, {"x": example}, outputs.split(), constants=constants, dynamic=(0, 1))
    module = bench.module(path, {"x": example})
    shapes = (dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC),)
    with torch.no_grad():
        program = torch.export.export(module, (torch.from_numpy(example),), dynamic_shapes=shapes, strict=False)
    answers = program.module()
    for first, second in product(sizes, sizes):
        x = numbers(first, second, *rest)
        want = bench.answers(path, {"x": x})
        close(module(torch.from_numpy(x)), want)
        close(answers(torch.from_numpy(x)), want)
    return (bench.folder / "model.py").read_text()


def of_shape(bench, nodes, constants, **options):
    """As `holds`, of the sizes called `target`: one statement, which puts them into the answer."""
    text = holds(bench, [node("Shape", "x", "shape"), *nodes], "target", constants=constants, **options)
    assert '"""0 weights, 1 statements."""' in text, "a tensor of sizes on the way is data for torch.export"
    return text


def test_a_shape_that_tensorflow_computes(bench):
    """0 in a reshape keeps a size, which the lowering writes as a choice, and tf2onnx as a sum of products."""
    nodes = [
        node("Shape", "x", "long"),
        node("Cast", "long", "shape", to=TensorProto.INT32),
        node("Slice", "shape one two first", "row"),
        node("Squeeze", "row first", "length"),
        node("Equal", "length nothing", "empty"),
        node("Not", "empty", "any"),
        node("Cast", "empty", "if_empty", to=TensorProto.INT32),
        node("Cast", "any", "if_any", to=TensorProto.INT32),
        node("Mul", "length if_any", "kept"),
        node("Mul", "four if_empty", "other"),
        node("Add", "kept other", "chosen"),
        node("Unsqueeze", "chosen first", "column"),
        node("Concat", "minus column three", "ints", axis=0),
        node("Cast", "ints", "target", to=TensorProto.INT64),
        node("Reshape", "x target", "y"),
        node("MatMul", "y w", "out"),
    ]
    held = {
        "one": ints(1), "two": ints(2), "first": ints(0), "nothing": np.array(0, np.int32),
        "four": np.array(4, np.int32), "minus": np.array([-1], np.int32), "three": np.array([6], np.int32),
        "w": numbers(6, 5),
    }  # fmt: skip
    text = holds(bench, nodes, "out", constants=held)
    assert "size_tensor(" not in text
    assert "item()" not in text


ARITHMETIC = {
    "Add": ints(3), "Sub": ints(0, 1, 2), "Mul": ints(2, 3, 1), "Div": ints(2), "Mod": ints(3, 4, 5),
    "Max": ints(2, 9, 4), "Min": ints(4, 2, 9),
}  # fmt: skip


@pytest.mark.parametrize("op_type", ARITHMETIC)
def test_arithmetic(bench, op_type):
    of_shape(bench, [node(op_type, "shape other", "target")], {"other": ARITHMETIC[op_type]})


def test_a_quotient_of_what_may_be_negative_is_cut_towards_zero(bench):
    nodes = [node("Shape", "x", "shape"), node("Sub", "shape ten", "less"), node("Div", "less three", "out")]
    holds(bench, nodes, "out", constants={"ten": ints(4, 7, 9), "three": ints(3)})


def test_a_multiple_is_divided_whatever_its_sign(bench):
    """(size - 3) // 2, as torch's exporters write it: a quotient without a rest is a size again."""
    nodes = [
        node("Sub", "shape three", "less"),
        node("Mod", "less two", "rest"),
        node("Sub", "less rest", "even"),
        node("Div", "even two", "target"),
    ]
    of_shape(bench, nodes, {"two": ints(2), "three": ints(3)})


@pytest.mark.parametrize("fmod", [0, 1])
def test_a_remainder_of_what_may_be_negative_has_the_right_sign(bench, fmod):
    nodes = [node("Shape", "x", "shape"), node("Sub", "shape ten", "less"), node("Mod", "less three", "out", fmod=fmod)]
    holds(bench, nodes, "out", constants={"ten": ints(4, 7, 9), "three": ints(3)})


def test_a_signs_and_a_distance(bench):
    nodes = [node("Neg", "shape", "less"), node("Add", "less four", "apart"), node("Abs", "apart", "target")]
    of_shape(bench, nodes, {"four": ints(4)})


@pytest.mark.parametrize("op_type", ["ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("keep", [0, 1])
def test_reductions(bench, op_type, keep):
    nodes = [
        node("Gather", "shape places", "grid"),  # (2, 3)
        node(op_type, "grid axes", "rows", keepdims=keep),
        node("Reshape", "rows flat", "target"),
    ]
    held = {"places": np.array([[0, 1, 0], [1, 1, 2]]), "axes": ints(1), "flat": ints(2)}
    of_shape(bench, nodes, held, rest=(2,), sizes=(1, 3))


MOVES = {
    "Gather": [node("Gather", "shape places", "target")],
    "GatherElements": [node("GatherElements", "shape places", "target")],
    "GatherND": [node("Unsqueeze", "places one", "rows"), node("GatherND", "shape rows", "target")],
    "Slice": [node("Slice", "shape last before zero back", "target")],
    "Concat": [node("Concat", "shape places shape", "target", axis=0)],
    "Split": [node("Split", "shape lengths", "a b"), node("Concat", "b a", "target", axis=0)],
    "Transpose": [
        node("Concat", "shape shape", "six", axis=0),
        node("Reshape", "six matrix", "rows"),
        node("Transpose", "rows", "columns"),
        node("Flatten", "columns", "flat", axis=0),
        node("Squeeze", "flat zero", "target"),
    ],
    "Tile": [node("Tile", "shape two", "target")],
    "Expand": [
        node("Gather", "shape first", "size"),
        node("Expand", "size matrix", "rows"),
        node("Reshape", "rows flat", "target"),
    ],
}


@pytest.mark.parametrize("name", MOVES)
def test_moves(bench, name):
    held = {
        "places": ints(1, -1, 0), "one": ints(1), "last": ints(-1), "before": ints(-9), "zero": ints(0),
        "back": ints(-2), "lengths": ints(1, 2), "matrix": ints(2, 3), "two": ints(2), "flat": ints(-1),
        "first": np.array(0),
    }  # fmt: skip
    of_shape(bench, MOVES[name], held, rest=(2,), sizes=(1, 2, 3))


@pytest.mark.parametrize("dtype", ["FLOAT", "DOUBLE", "INT32"])
def test_sizes_that_are_compared_and_chosen_in_another_dtype(bench, dtype):
    to = getattr(TensorProto, dtype)
    nodes = [
        node("Cast", "shape", "cast", to=to),
        node("Less", "cast limit", "small"),
        node("GreaterOrEqual", "cast floor", "there"),
        node("And", "small there", "both"),
        node("Not", "both", "neither"),
        node("Or", "both neither", "either"),
        node("Where", "either cast limit", "chosen"),
        node("Max", "chosen floor", "bounded"),
        node("Cast", "bounded", "target", to=TensorProto.INT64),
    ]
    kind = helper.tensor_dtype_to_np_dtype(to)
    of_shape(bench, nodes, {"limit": np.array(4, kind), "floor": np.array(-1000000000, kind)})


@pytest.mark.parametrize("size", [1, 3])
def test_a_choice_between_sizes_by_a_size_is_kept(bench, size):
    nodes = [
        node("Equal", "shape asked", "is"),
        node("Add", "shape three", "more"),
        node("Where", "is seven more", "target"),
    ]
    text = of_shape(bench, nodes, {"asked": ints(size), "three": ints(3), "seven": ints(7)})
    assert "either(" in text


def test_a_choice_by_numbers_is_kept(bench):
    nodes = [
        node("LessOrEqual", "shape three", "few"),
        node("Cast", "few", "number", to=TensorProto.INT64),
        node("Mul", "number shape", "product"),
        node("Add", "product one", "target"),
    ]
    of_shape(bench, nodes, {"three": ints(3), "one": ints(1)})


def test_a_choice_that_is_the_same_either_way_is_none(bench):
    """As TensorFlow writes broadcasting: where a size is 1, the other one's."""
    nodes = [node("Equal", "shape one", "is"), node("Where", "is one shape", "target")]
    assert "either(" not in of_shape(bench, nodes, {"one": ints(1)})


def test_bounds_decide(bench):
    nodes = [
        node("Shape", "x", "shape"),
        node("Less", "shape ten", "small"),
        node("Where", "small one shape", "target"),
        node("ConstantOfShape", "target", "out"),
    ]
    x = numbers(4, 7)
    path = bench.model(nodes, {"x": x}, ["out"], constants={"ten": ints(10), "one": ints(1)}, dynamic=(0, 1))
    bounds = {"x_0": Bounds(1, 9), "x_1": Bounds(5)}
    text = generate(read_model(path), [torch.from_numpy(x)], bounds).text
    assert "torch.full((1, either(x_1 < 10, 1, x_1)), 0.0" in text
    assert "torch.full((either(" in generate(read_model(path), [torch.from_numpy(x)]).text


def test_sums_of_large_floats_are_rounded_as_the_model_rounds_them(bench):
    nodes = [
        node("Shape", "x", "shape"),
        node("Cast", "shape", "cast", to=TensorProto.FLOAT),
        node("Add", "cast large", "sum"),
        node("Cast", "sum", "out", to=TensorProto.INT64),
    ]
    holds(bench, nodes, "out", constants={"large": np.array(1e9 + 64, np.float32)})


def test_sizes_are_tensors_of_every_shape_and_dtype_where_one_is_asked_for(bench):
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape places", "grid"),
        node("Less", "grid four", "few"),
        node("Cast", "grid", "floats", to=TensorProto.FLOAT),
        node("Sqrt", "floats", "roots"),
        node("Identity", "grid", "same"),
    ]
    held = {"places": np.array([[0, 1], [1, 0], [2, 2]]), "four": ints(4)}
    holds(bench, nodes, "same few roots", constants=held)


def test_a_place_that_a_size_names_is_no_constant(bench):
    """The last step, as a recurrent network is read."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape second", "length"),
        node("Sub", "length one", "last"),
        node("Gather", "x last", "out", axis=1),
    ]
    holds(bench, nodes, "out", constants={"second": np.array(1), "one": np.array(1)})


def test_an_axis_of_several_inputs_has_one_size(bench):
    """Whether one input's batch is the other's need not be asked."""
    nodes = [
        node("Shape", "a", "one"),
        node("Shape", "b", "other"),
        node("Equal", "one other", "alike"),
        node("Where", "alike one seven", "out"),
    ]
    x = numbers(4, 6)
    path = bench.model(nodes, {"a": x, "b": x}, ["out"], constants={"seven": ints(7)}, dynamic=(0,))
    model = read_model(path)
    specs = tuple(replace(spec, shape=("batch", 6)) for spec in model.inputs)
    assert "either(" not in generate(replace(model, inputs=specs), [torch.from_numpy(x)] * 2).text
