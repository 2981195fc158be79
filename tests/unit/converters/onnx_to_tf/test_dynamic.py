"""Operands that the model computes, and several dynamic axes at once: in both dialects, at sizes that differ and at
sizes that are equal."""

import numpy as np
import pytest

HEAD = '<ir_version: 10, opset_import: ["" : 20]>'


def floats(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def ints(*numbers):
    return np.array(numbers, np.int64)


SIZES = [(2, 7), (1, 5), (4, 4), (3, 12), (8, 8)]  # batch and sequence


def test_heads_are_split_and_joined_at_any_batch_and_length(bench):
    text = (
        HEAD
        + """ g (float[b, t, 12] x) => (float[b, t, 12] y) <
        int64[1] zero = {0}, int64[1] one = {1}, int64[2] heads = {3, 4}, int64[1] rest = {-1}> {
        s = Shape(x)
        b = Gather <axis = 0> (s, zero)
        t = Gather <axis = 0> (s, one)
        split = Concat <axis = 0> (b, t, heads)
        h = Reshape(x, split)
        q = Transpose <perm = [0, 2, 1, 3]> (h)
        k = Transpose <perm = [0, 2, 3, 1]> (h)
        a = MatMul(q, k)
        p = Softmax(a)
        v = MatMul(p, q)
        back = Transpose <perm = [0, 2, 1, 3]> (v)
        joined = Concat <axis = 0> (b, t, rest)
        y = Reshape(back, joined)
    }"""
    )
    bench.model_agrees(text, *({"x": floats(b, t, 12)} for b, t in SIZES))


def test_a_causal_mask_is_made_of_a_shape_and_expanded(bench):
    text = (
        HEAD
        + """ g (float[b, t, t] x) => (float[b, 1, t, t] y) <
        int64 zero = {0}, int64 one = {1}, int64[1] first = {0}, int64[1] second = {1}, int64[1] ones = {1},
        int64[2] last = {-2, -1}, float low = {-100}> {
        s = Shape(x)
        t = Gather(s, one)
        b1 = Gather(s, first)
        t1 = Gather(s, second)
        line = Range(zero, t, one)
        row = Unsqueeze(line, first)
        column = Unsqueeze(line, second)
        seen = LessOrEqual(row, column)
        shape = Concat <axis = 0> (b1, ones, t1, t1)
        wide = Expand(seen, shape)
        x4 = Unsqueeze(x, second)
        y = Where(wide, x4, low)
    }"""
    )
    bench.model_agrees(text, *({"x": floats(b, t, t)} for b, t in SIZES))


def test_an_image_of_any_height_and_width_keeps_its_size(bench):
    text = (
        HEAD
        + """ g (float[b, 3, h, w] x) => (float[b, 3, h, w] y, int64[1] n) <int64[1] rest = {-1}> {
        s = Shape(x)
        f = Flatten <axis = 2> (x)
        r = Relu(f)
        y = Reshape(r, s)
        z = ReduceProd <keepdims = 0> (s)
        n = Reshape(z, rest)
    }"""
    )
    bench.model_agrees(text, *({"x": floats(2, 3, h, w)} for h, w in [(4, 6), (3, 3), (5, 2)]))


def test_channels_stay_known_where_another_axis_is_padded_by_a_computed_number(bench):
    text = (
        HEAD
        + """ g (float[b, 3, h, w] x, int64[1] more) => (float[b, 2, p, q] y) <
        int64[1] three = {3}, int64[1] two = {2}, int64[4] before = {0, 0, 0, 0}, int64[2] after = {0, 0},
        float[2, 3, 1, 1] kernel = {1, 2, 3, -1, 0, 1}> {
        s = Shape(x)
        w = Gather(s, three)
        odd = Mod(w, two)
        pads = Concat <axis = 0> (before, after, more, odd)
        wide = Pad <mode = "edge"> (x, pads)
        y = Conv(wide, kernel)
    }"""
    )
    bench.model_agrees(text, *({"x": floats(2, 3, h, w), "more": ints(m)} for h, w, m in [(4, 5, 1), (3, 2, 0)]))


def test_pads_reordered_by_pairs_stay_known_where_they_are_numbers(bench):
    text = (
        HEAD
        + """ g (float[b, 3, h, w] x, int32[1] more) => (float[b, 2, p, q] y) <
        int32[1] none = {0}, int32[4] others = {0, 0, 0, 0}, int64[2] pairs = {-1, 2}, int64[1] flat = {-1},
        int64[1] first = {-1}, int64[1] past = {-9}, int64[1] axis = {0}, int64[1] back = {-1},
        float[2, 3, 1, 1] kernel = {1, 2, 3, -1, 0, 1}> {
        given = Concat <axis = 0> (none, more, more, none, others)
        matrix = Reshape(given, pairs)
        reversed = Slice(matrix, first, past, axis, back)
        turned = Transpose <perm = [1, 0]> (reversed)
        vector = Reshape(turned, flat)
        pads = Cast <to = 7> (vector)
        wide = Pad(x, pads)
        y = Conv(wide, kernel)
    }"""
    )
    more = [np.array([each], np.int32) for each in (2, 0)]
    bench.model_agrees(text, *({"x": floats(2, 3, h, w), "more": m} for h, w, m in [(4, 5, more[0]), (3, 2, more[1])]))


def test_channels_cut_by_numbers_stay_known_beside_an_axis_cut_by_a_computed_number(bench):
    text = (
        HEAD
        + """ g (float[b, 5, h, w] x, int64[1] end) => (float[b, 2, p, w] y) <
        int64[1] one = {1}, int64[1] four = {4}, int64[2] starts = {1, 0}, int64[2] axes = {1, 2},
        float[2, 3, 1, 1] kernel = {1, 2, 3, -1, 0, 1}> {
        ends = Concat <axis = 0> (four, end)
        part = Slice(x, starts, ends, axes)
        y = Conv(part, kernel)
    }"""
    )
    bench.model_agrees(text, *({"x": floats(2, 5, h, 3), "end": ints(e)} for h, e in [(4, 3), (5, 9), (5, -1)]))


COMPUTED = {
    "Reshape": ("Reshape(x, s)", {"s": [ints(6, 4), ints(-1, 2), ints(2, -1), ints(0, 12), ints(0, -1)]}),
    "Reshape, zero is zero": ("Reshape <allowzero = 0> (x, s)", {"s": [ints(0, 0, 4), ints(0, -1, 4), ints(3, 2, 4)]}),
    "Expand": ("Expand(x, s)", {"s": [ints(1, 1, 1), ints(2, 3, 4)]}),
    "Tile": ("Tile(x, s)", {"s": [ints(1, 2, 1), ints(3, 1, 2)]}),
    "Squeeze": ("Squeeze(u, s)", {"s": [ints(0), ints(-2)]}),
    "Unsqueeze": ("Unsqueeze(x, s)", {"s": [ints(0, 2), ints(-1, 1), ints(4, 3)]}),
    "Slice": ("Slice(x, s, e, a, k)", {
        "s": [ints(1, 0), ints(-1, 2), ints(-9, 0)], "e": [ints(9, -1), ints(-(2**63), 0), ints(2**63 - 1, 1)],
        "a": [ints(1, 2), ints(2, -2), ints(0, 1)], "k": [ints(1, 2), ints(-2, -1), ints(1, 1)]}),
    "Slice of known axes": ("Slice(x, s, e)", {"s": [ints(1), ints(-9)], "e": [ints(2**63 - 1), ints(-1)]}),
    "ReduceSum": ("ReduceSum(x, s)", {"s": [ints(0, 2), ints(-1, 1)]}),
    "ReduceMax without the axes": ("ReduceMax <keepdims = 0> (x, s)", {"s": [ints(0, 2), ints(-1, 1)]}),
    "ReduceLogSumExp": ("ReduceLogSumExp(x, s)", {"s": [ints(1), ints(-1)]}),
    "CumSum": ("CumSum(x, c)", {"c": [np.array(0, "i8"), np.array(-1, "i8")]}),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED)
def test_operands_may_be_computed(bench, name):
    node, operands = COMPUTED[name]
    declared = "".join(
        f", int64[{','.join(map(str, values[0].shape))}] {key}" if values[0].shape else f", int64 {key}"
        for key, values in operands.items()
    )
    rank = "" if "Squeeze(u" in node else "x = Identity(u)"
    shape = "1, b, 1, 4" if "Squeeze(u" in node else "b, t, 4"
    given = floats(1, 2, 1, 4) if "Squeeze(u" in node else floats(2, 3, 4)
    text = f"{HEAD} g (float[{shape}] u{declared}) => (float[] y) {{ {rank} y = {node} }}".replace(
        "float[] y", "float y"
    )
    rows = [dict(zip(operands, row, strict=True)) for row in zip(*operands.values(), strict=True)]
    bench.model_agrees(text, *({"u": given, **row} for row in rows), atol=1e-4)


@pytest.mark.parametrize("length", ["t", "4"])
def test_a_slice_that_ends_where_the_axis_begins_is_empty(bench, length):
    text = (
        HEAD
        + f""" g (float[b, {length}, 3] x) => (float[b, u, 3] y)
        <int64[1] axis = {{1}}, int64[1] zero = {{0}}, int64[1] last = {{-2}}> {{
        none = Slice(x, zero, zero, axis)
        nor = Slice(x, last, zero, axis)
        y = Concat <axis = 1> (none, x, nor) }}"""
    )
    bench.model_agrees(text, {"x": floats(2, 4, 3)}, {"x": floats(1, 4, 3)})


def test_a_split_of_computed_sizes(bench):
    text = HEAD + " g (float[b, t] x, int64[2] s) => (float[b, p] y, float[b, q] z) { y, z = Split <axis = 1> (x, s) }"
    bench.model_agrees(text, *({"x": floats(3, 6), "s": ints(*s)} for s in [(2, 4), (5, 1), (3, 3)]))


def test_the_last_of_a_counted_split_may_be_smaller_at_any_length(bench):
    text = (
        HEAD
        + """ g (float[b, t] x) => (float[b, p] y, float[b, q] z, float[b, r] w) {
        y, z, w = Split <axis = 1, num_outputs = 3> (x) }"""
    )
    bench.model_agrees(text, *({"x": floats(2, t)} for t in (7, 9, 3, 5)))


def test_axes_of_one_name_are_one_size(bench):
    import onnx.parser

    from transload.converters.onnx_to_tf.lower_model import lower

    text = (
        HEAD
        + """ g (float[b, 3] x, float[b, 3] y) => (float[b, 3] z) {
        s = Shape(x)
        z = Expand(y, s)
    }"""
    )
    bench.model_agrees(text, *({"x": floats(b, 3), "y": floats(b, 3) + 1} for b in (1, 2, 3)))
    onnx.save(onnx.parser.parse_model(text), bench.folder / "named.onnx")
    kinds = [each.type for each in lower(bench.folder / "named.onnx").module.serve.graph.get_operations()]
    assert "BroadcastTo" not in kinds  # nothing is expanded, and so nothing is asked
    onnx.save(onnx.parser.parse_model(text.replace("float[b, 3] y", "float[c, 3] y")), bench.folder / "others.onnx")
    kinds = [each.type for each in lower(bench.folder / "others.onnx").module.serve.graph.get_operations()]
    assert "BroadcastTo" in kinds


def test_sizes_cancel_once_each():
    """Two axes of one name against one: only one of them cancels."""
    import tensorflow as tf

    from transload.converters.onnx_to_tf.operators.tensor.shape import _resolve_gap
    from transload.converters.onnx_to_tf.values import computed

    with tf.Graph().as_default():
        value = computed(tf.compat.v1.placeholder(tf.float32, [None, 12]))
        size = value.size(0)
        assert _resolve_gap(value, [size, -1]) == [size, 12]
        assert _resolve_gap(value, [size, size, -1])[-1] == -1


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_tensors_without_elements(bench, shape):
    text = (
        HEAD
        + """ g (float[b, t] x) => (float[b, 1] a, float[t] m, float[n] f, float[b, t] c) <
        int64[1] one = {1}, int64[1] zero = {0}, int64[1] rest = {-1}> {
        a = ReduceSum(x, one)
        m = ReduceProd <keepdims = 0> (x, zero)
        f = Reshape(x, rest)
        c = Concat <axis = 0> (x, x)
    }"""
    )
    bench.model_agrees(text, {"x": floats(*shape)}, tflite=False)


def test_arithmetic_of_sizes_and_large_numbers_has_64_bits(bench):
    text = (
        HEAD
        + """ g (float[b, 3] x) => (int64[1] product, int64[1] total) <
        int64[1] factor = {1000000000}, int64[1] more = {2147483646}> {
        s = Shape <start = 0, end = 1> (x)
        product = Mul(s, factor)
        total = Add(s, more)
    }"""
    )
    bench.model_agrees(text, {"x": floats(1, 3)}, {"x": floats(5, 3)})


TAKEN = {
    "Slice": "y = Slice(c, one, two)",
    "Gather": "y = Gather(c, one)",
    "Reshape": "y = Reshape(c, two)",
    "Cast": "y = Cast <to = 7> (c)",
    "Where": "y = Where(no, s, z)",
}


@pytest.mark.parametrize("name", TAKEN)
def test_numbers_beside_sizes_keep_their_64_bits(bench, name):
    text = (
        HEAD
        + """ g (float[b, 3] x, int64[1] z) => (int64[k] y) <int64[1] one = {1}, int64[1] two = {2}, bool[1] no = {0}> {
        s = Shape <start = 0, end = 1> (x)
        c = Concat <axis = 0> (s, z)
        """
        + TAKEN[name]
        + "}"
    )
    bench.model_agrees(text, {"x": floats(2, 3), "z": ints(5_000_000_000)})
