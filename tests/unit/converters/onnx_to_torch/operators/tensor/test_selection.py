"""What is chosen of a tensor, whose sizes only the data tell."""

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from transload.converters.onnx_to_torch.module_writer import torch_tensor

from ...conftest import close, numbers

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'

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


def agrees(bench, text, *calls):
    """The program of a model's module answers every call as ONNX Runtime; it is written with the first."""
    path = bench.folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + text), path)
    inputs = onnx.load(path).graph.input
    feeds = [dict(zip([each.name for each in inputs], call, strict=True)) for call in calls]
    dims = [[dim.dim_param for dim in each.type.tensor_type.shape.dim] for each in inputs]
    shapes = tuple({at: torch.export.Dim.DYNAMIC for at, name in enumerate(each) if name} for each in dims)
    module, first = bench.module(path, feeds[0]), tuple(map(torch_tensor, calls[0]))
    with torch.no_grad():
        program = torch.export.export(module, first, dynamic_shapes=shapes, strict=False).module()
    for call, fed in zip(calls, feeds, strict=True):
        close(program(*map(torch_tensor, call)), bench.answers(path, fed))


def test_a_shape_of_which_the_data_tell_one_axis_keeps_the_others(bench):
    """Else what is made so could not be added to what has these sizes."""
    text = """
    g (float[A, B] x, int64[1] k) => (float[A, B] y) {
        last = Constant<value_ints=[-1]>()
        sizes = Shape(x)
        shape = Concat<axis=0>(sizes, k)
        column = Unsqueeze(x, last)
        wide = Expand(column, shape)
        sum = ReduceSum<keepdims=0>(wide, last)
        y = Add(sum, x)
    }
    """
    agrees(bench, text, *[[numbers(rows, 3), np.array([rows])] for rows in (5, 1, 7)])


def boxes(pictures, count, seed=0):
    """Corners of boxes that overlap, the first picture's in another order; two of the last one's are one."""
    rng = np.random.default_rng(seed)
    low, size = rng.random((pictures, count, 2)) * 4, rng.random((pictures, count, 2)) * 3
    made = np.concatenate([low, low + size], -1).astype(np.float32)
    made[0] = made[0][:, [2, 3, 0, 1]]
    made[-1, 0] = made[-1, 1]
    return made


def scores(pictures, classes, count):
    """With equal ones."""
    return np.random.default_rng(count).integers(0, 8, (pictures, classes, count)).astype(np.float32) / 8


@pytest.mark.parametrize(
    ("most", "share", "least", "centred"),
    [
        ("Constant<value_int=4>()", "share", "least", 0),
        pytest.param("Constant<value_ints=[100]>()", "share", "", 1, marks=pytest.mark.slow),
        pytest.param("Constant<value_int=2>()", "", "", 0, marks=pytest.mark.slow),
        pytest.param("Identity(k)", "share", "", 0, marks=pytest.mark.slow),
    ],
    ids=["all said", "centred", "no overlap", "as an input says"],
)
def test_boxes_that_overlap_none_before_them(bench, most, share, least, centred):
    text = f"""
    g (float[N, B, 4] boxes, float[N, C, B] scores, int64 k) => (int64[R, 3] rows) {{
        most = {most}
        share = Constant<value_float=0.3>()
        least = Constant<value_float=0.25>()
        rows = NonMaxSuppression<center_point_box={centred}>(boxes, scores, most, {share}, {least})
    }}
    """.replace(", , )", ")").replace(", )", ")")
    agrees(bench, text, *[[boxes(n, b), scores(n, c, b), np.array(3)] for n, c, b in ((2, 3, 7), (3, 1, 5), (1, 2, 9))])


def test_no_boxes_are_asked_for(bench):
    bench.agrees("NonMaxSuppression", boxes(2, 7), scores(2, 3, 7), constants={3: np.float32(0.5)}, free=(0,))


@pytest.mark.parametrize(
    ("opset", "options"),
    [
        (16, {"sampling_ratio": 2}),
        (16, {"sampling_ratio": 3, "mode": "max", "coordinate_transformation_mode": "output_half_pixel"}),
        pytest.param(11, {"sampling_ratio": 1}, marks=pytest.mark.slow),
    ],
)
def test_regions_are_aligned(bench, opset, options):
    rng = np.random.default_rng(0)
    start = rng.uniform(-4, 14, (9, 2))  # some beyond the picture
    regions = np.concatenate([start, start + rng.uniform(0, 14, (9, 2))], 1).astype(np.float32)
    images = rng.integers(0, 2, 9)
    sizes = {"output_height": 3, "output_width": 2, "spatial_scale": 0.5}
    bench.agrees("RoiAlign", numbers(2, 4, 7, 6), regions, images, opset=opset, free=(0,), **sizes, **options)
