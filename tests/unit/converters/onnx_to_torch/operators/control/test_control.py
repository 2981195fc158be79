"""If, Loop and Scan: eager and exported, at other sizes and along other branches than those they were written with."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch

from transload.converters.onnx_to_torch.module_writer import torch_tensor
from transload.models.errors import Refused

from ...conftest import close

slow = pytest.mark.slow
HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def written(bench, model):
    path = bench.folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + model) if isinstance(model, str) else model, path)
    return path


def agrees(bench, model, *calls):
    """The program of the module answers every call as ONNX Runtime; so does the module the first, with which they are
    written: of others it costs a second each, as PyTorch compiles its loops anew."""
    path = written(bench, model)
    dims = [[each.dim_param for each in given.type.tensor_type.shape.dim] for given in onnx.load(path).graph.input]
    names = [each.name for each in onnx.load(path).graph.input]
    module = bench.module(path, dict(zip(names, calls[0], strict=True)))
    tensors = [tuple(map(torch_tensor, call)) for call in calls]
    shapes = tuple({at: torch.export.Dim.DYNAMIC for at, name in enumerate(each) if name} for each in dims)
    with torch.no_grad():
        program = torch.export.export(module, tensors[0], dynamic_shapes=shapes, strict=False)
    torch.export.save(program, bench.folder / "m.pt2")
    loaded = torch.export.load(bench.folder / "m.pt2").module()
    wanted = [bench.answers(path, dict(zip(names, call, strict=True))) for call in calls]
    for given, want in zip(tensors, wanted, strict=True):
        close(loaded(*given), want)
    close(module(*tensors[0]), wanted[0])


IF = """
g (float[N, 5] x) => (float[A, B] y, float[] z) {
    total = ReduceSum<keepdims=0>(x)
    zero = Constant<value_float=0.0>()
    positive = Greater(total, zero)
    sizes = Shape(x)
    y, z = If(positive) <
        then_branch = t () => (float[A, B] a, float[] b) {
            two = Constant<value_float=2.0>()
            a = Mul(x, two)
            b = ReduceMax<keepdims=0>(x)
        },
        else_branch = e () => (float[C, D] c, float[] d) {
            c = BRANCH
            d = Identity(total)
        }
    >
}
"""


@pytest.mark.parametrize(
    "branch",
    [
        "Transpose<perm=[1, 0]>(x)",
        pytest.param("Neg(x)", marks=slow),
        pytest.param("Expand(total, sizes)", marks=slow),
        pytest.param("Constant<value=float[1,2] {1., 2.}>()", marks=slow),
    ],
)
def test_one_of_two_branches(bench, branch):
    x = numbers(3, 5)
    agrees(bench, IF.replace("BRANCH", branch), [x - 5], [x + 5], [numbers(5, 5) - 5], [numbers(2, 5) + 5])


def test_what_follows_a_branch_takes_whatever_size_it_gave(bench):
    x = numbers(4, 5)
    text = IF.replace("BRANCH", "Neg(x)").replace("=> (float[A, B] y,", "=> (float[] s, float[A, B] y,").rstrip()[:-1]
    agrees(bench, text + "s = ReduceSum<keepdims=0>(y)\n}", [x], [x + 5], [numbers(2, 5) - 5])


LOOP = """
g (float[N, T, 5] x) => (float[N, 5] last, float[S, N, 5] all) {
    sizes = Shape(x)
    one = Constant<value_int=1>()
    trips = COUNT
    yes = Constant<value=bool {1}>()
    start = ReduceSum<keepdims=0>(x, axes)
    last, all = Loop(trips, WHEN, start) <
        body = b (int64 i, bool go, float[N, 5] h) => (bool on, float[N, 5] next, float[N, 5] out) {
            row = Gather<axis=1>(x, i)
            sum = Add(row, h)
            next = Tanh(sum)
            out = Neg(next)
            on = ON
        }
    >
}
"""


def loop(count="Gather<axis=0>(sizes, one)", when="yes", on="Identity(go)"):
    axes = "axes = Constant<value_ints=[1]>()\n    start"
    return LOOP.replace("COUNT", count).replace("WHEN", when).replace("ON", on).replace("start =", f"{axes} =", 1)


@pytest.mark.parametrize(
    ("count", "when"),
    [
        ("Gather<axis=0>(sizes, one)", "yes"),
        pytest.param("Gather<axis=0>(sizes, one)", "", marks=slow),
        ("Constant<value_int=3>()", "yes"),
        pytest.param("Constant<value_int=20>()", "yes", marks=slow),
    ],
)
def test_a_loop_of_so_many_steps(bench, count, when):
    calls = [[numbers(2, 21, 5)], [numbers(4, 22, 5)], [numbers(5, 25, 5)]]
    agrees(bench, loop(count, when), *calls)


def test_a_loop_that_data_ends(bench):
    """After the first step whose sum is above 0.5: of what the steps made there are as many rows as ran."""
    on = "ReduceMax<keepdims=0>(next)\n half = Constant<value_float=0.9>()\n on = Less(top, half)"
    text = loop(on=on).replace("on = ReduceMax", "top = ReduceMax")
    x = numbers(2, 7, 5) * 0.1
    late = x.copy()
    late[:, 4] += 9
    agrees(bench, text, [x], [late], [numbers(3, 4, 5)])


@slow
def test_a_loop_as_often_as_an_input_says(bench):
    text = loop("Identity(k)").replace("g (float", "g (int64 k, float")
    x = numbers(2, 7, 5)
    agrees(bench, text, [np.array(4), x], [np.array(7), x], [np.array(1), x])


def test_what_a_step_hands_on_as_it_is_stays_around_the_loop(bench):
    """So sizes stay sizes, and weights weights."""
    text = """
g (float[N, T, 5] x) => (float[N, Q] y, int64[1] kept) {
    sizes = Shape(x)
    one = Constant<value_ints=[1]>()
    length = Gather<axis=0>(sizes, one)
    scalar = Squeeze(length)
    flat = Constant<value_ints=[0, -1]>()
    start = Reshape(x, flat)
    y, kept = Loop(scalar, , start, length) <
        body = b (int64 i, bool go, float[N, Q] h, int64[1] n) => (bool on, float[N, Q] next, int64[1] m) {
            on = Identity(go)
            m = Identity(n)
            f = CastLike(n, h)
            scaled = Div(h, f)
            next = Sin(scaled)
        }
    >
}
"""
    agrees(bench, text, [numbers(2, 7, 5)], [numbers(3, 4, 5)])


SCAN = """
g (float[N, T, 5] x, float[N, 5] start) => (float[N, 5] last, float[P, Q, R] all) {
    last, all = Scan(start, x) <
        num_scan_inputs = 1, scan_input_axes = [1],
        body = b (float[N, 5] h, float[N, 5] row) => (float[N, 5] next, float[N, 5] out) {
            sum = Add(h, row)
            next = Tanh(sum)
            out = Neg(next)
        }
    >
}
"""


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({}, marks=slow),
        {"scan_output_axes": [-2], "scan_output_directions": [1]},
        pytest.param({"scan_input_directions": [1]}, marks=slow),
    ],
)
def test_a_scan_along_an_axis(bench, attributes):
    model = onnx.parser.parse_model(HEAD + SCAN)
    model.graph.node[0].attribute.extend(onnx.helper.make_attribute(name, each) for name, each in attributes.items())
    agrees(bench, model, [numbers(2, 7, 5), numbers(2, 5)], [numbers(4, 3, 5), numbers(4, 5)])


def test_a_state_that_grows_is_refused(bench):
    text = """
g (float[N, 5] x, int64 k) => (float[M, 5] y) {
    y = Loop(k, , x) <
        body = b (int64 i, bool go, float[A, 5] h) => (bool on, float[B, 5] next) {
            on = Identity(go)
            next = Concat<axis=0>(h, x)
        }
    >
}
"""
    path = written(bench, text)
    with pytest.raises(Refused, match=r"what it carries at place 0 is .* and PyTorch's loop keeps shapes and dtypes"):
        bench.written(path, {"x": numbers(3, 5), "k": np.array(2)})


PARTS = """
g (float[N, 6] x, float[N, 3] z, int64 n) => (float[N, 3] y) {
    a, b = Split<axis=1, num_outputs=2>(x)
    y = Loop(n, , z) <body = step (int64 at, bool go, float[N, 3] v) => (bool go, float[N, 3] w) { BODY }>
}
"""
ONE = "sum = Add(v, a) w = Mul(sum, b)"
WITHIN = f"w = Loop(n, , v) <body = more (int64 i, bool on, float[N, 3] v2) => (bool on, float[N, 3] w2) {{{ONE}}}>"


@pytest.mark.parametrize("body", [ONE, WITHIN.replace("w = Mul", "w2 = Mul").replace("Add(v,", "Add(v2,")])
def test_a_loop_may_read_several_parts_of_one_tensor_around_it(bench, body):
    calls = [(numbers(2, 6), numbers(2, 3), np.array(2)), (numbers(3, 6, seed=1), numbers(3, 3), np.array(1))]
    agrees(bench, PARTS.replace("BODY", body), *calls)


def test_branches_may_read_several_parts_of_one_tensor_around_them(bench):
    model = """
g (float[N, 6] x) => (float[N, 3] y) {
    a, b = Split<axis=1, num_outputs=2>(x)
    zero = Constant<value_float=0.0>()
    total = ReduceSum<keepdims=0>(x)
    positive = Greater(total, zero)
    y = If(positive) <then_branch = t () => (float[N, 3] c) { c = Sub(a, b) },
                      else_branch = e () => (float[N, 3] d) { d = Sub(b, a) }>
}
"""
    agrees(bench, model, (numbers(2, 6),), (-np.abs(numbers(3, 6)),), (np.abs(numbers(4, 6)),))
    text = bench.written(bench.folder / "model.onnx", {"x": numbers(2, 6)}).text
    assert "return (plain_copy(c),)\n\n        def otherwise" in text
