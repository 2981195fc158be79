"""What is chosen of a tensor, whose sizes only the data tell."""

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from onnx_to_torch_bench import close, numbers

FEW = np.array([[3, 1, 3, 2, 1], [2, 5, 3, 3, 0], [3, 1, 3, 2, 1]])


@pytest.mark.parametrize("axis", [None, 0, -1], ids=["all", "rows", "columns"])
@pytest.mark.parametrize("in_order", [False, True], ids=["sorted", "as they come"])
def test_distinct_elements_and_slices(bench, axis, in_order):
    options = {"sorted": int(not in_order), **({} if axis is None else {"axis": axis})}
    for x in (FEW, FEW.astype(np.float32) - 2.5, *([] if in_order else [FEW > 2])):
        bench.agrees("Unique", x, outputs=4, **options)
    bench.agrees("Unique", FEW, outputs=1, **options)


def test_sums_over_the_groups_that_the_data_name(bench):
    """As TFLite's sums over segments come out: what was found has a size that only the data tell."""
    nodes = [
        helper.make_node("Unique", ["key"], ["kinds", "", "group", "counts"], sorted=0),
        helper.make_node("Shape", ["kinds"], ["count"]),
        helper.make_node("Shape", ["rows"], ["sizes"]),
        helper.make_node("Slice", ["sizes", "one", "two"], ["width"]),
        helper.make_node("Concat", ["count", "width"], ["shape"], axis=0),
        helper.make_node("ConstantOfShape", ["shape"], ["none"]),
        helper.make_node("Unsqueeze", ["group", "one"], ["places"]),
        helper.make_node("ScatterND", ["none", "places", "rows"], ["sums"], reduction="add"),
    ]
    fed = {"key": np.array([7, 2, 7, 7, 4]), "rows": numbers(5, 3)}
    held = {"one": np.array([1]), "two": np.array([2])}
    path = bench.model(nodes, fed, ["kinds", "sums", "counts"], constants=held, dynamic=(0, 1))
    bench.same(path, fed, dynamic=(0, 1))


def test_a_shape_of_which_the_data_tell_one_axis_keeps_the_others(bench):
    """Else what is made so could not be added to what has these sizes."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Concat", ["sizes", "k"], ["shape"], axis=0),
        helper.make_node("Unsqueeze", ["x", "last"], ["column"]),
        helper.make_node("Expand", ["column", "shape"], ["wide"]),
        helper.make_node("ReduceSum", ["wide", "last"], ["sum"], keepdims=0),
        helper.make_node("Add", ["sum", "x"], ["y"]),
    ]
    fed = {"x": numbers(5, 3), "k": np.array([4])}
    path = bench.model(nodes, fed, ["y"], constants={"last": np.array([-1])}, dynamic=())
    model = onnx.load(path)
    for at in range(2):
        model.graph.input[0].type.tensor_type.shape.dim[at].dim_param = f"x_{at}"
    onnx.save(model, path)
    module = bench.module(path, fed)
    tensors = tuple(map(torch.from_numpy, fed.values()))
    dynamic = torch.export.Dim.DYNAMIC
    with torch.no_grad():
        program = torch.export.export(module, tensors, dynamic_shapes=({0: dynamic, 1: dynamic}, {}), strict=False)
    for rows in (5, 1, 7):
        again = {"x": numbers(rows, 3), "k": np.array([rows])}
        close(program.module()(*map(torch.from_numpy, again.values())), bench.answers(path, again))
