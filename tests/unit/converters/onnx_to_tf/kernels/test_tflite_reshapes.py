"""Transposes with a reshape between them: TensorFlow's TFLite converter drops them where only the sizes look alike."""

from __future__ import annotations

import numpy as np
import pytest

BETWEEN = {
    "Reshape": "b = Reshape(a, c3)",
    "two Reshapes": "m = Reshape(a, c2) b = Reshape(m, c3)",
    "Squeeze": "b = Squeeze(a, zero)",
    "Relu and Reshape": "m = Relu(a) b = Reshape(m, c3)",
    "Add and Reshape": "m = Add(a, number) b = Reshape(m, c3)",
}


@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.parametrize(("height", "width", "channels"), [(4, 4, 4), (4, 6, 4), (4, 6, 5)])
def test_a_leading_one_leaves_between_two_transposes(bench, name, height, width, channels):
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[1, {height}, {width}, {channels}] x) => (float[{channels}, {width}, {height}] y)
        <int64[3] c3 = {{{channels}, {height}, {width}}}, int64[2] c2 = {{{channels}, {height * width}}},
         int64[1] zero = {{0}}, float number = {{0.5}}> {{
        a = Transpose <perm = [0, 3, 1, 2]> (x)
        {BETWEEN[name]}
        y = Transpose <perm = [0, 2, 1]> (b)
    }}"""
    bench.model_agrees(
        text, {"x": np.random.default_rng(3).standard_normal((1, height, width, channels)).astype(np.float32)}
    )


ALIKE = {  # what makes `b` of `a`
    "the same shape": "b = Reshape(a, same)",
    "an axis of size 1 that goes again": "m = Unsqueeze(a, two) b = Squeeze(m, two)",
    "other sizes": "s = Shape(a) r = Gather(s, turned) b = Reshape(a, r)",
    "a leading one that goes": "m = Unsqueeze(a, zero) n = Relu(m) b = Squeeze(n, zero)",
}


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("axes", ["n, 4, 4", "n, 4, m", "n, c, m", "4, c, 4"])
def test_a_reshape_of_sizes_that_are_not_known_leaves_between_two_transposes(bench, name, axes):
    text = f"""<ir_version: 10, opset_import: ["" : 20]> g (float[{axes}] x) => (float[p, q, r] y)
        <int64[3] same = {"{-1, 4, 4}" if axes == "n, 4, 4" else "{0, 0, 0}"}, int64[3] turned = {{2, 0, 1}},
         int64[1] two = {{2}}, int64[1] zero = {{0}}> {{
        a = Transpose <perm = [0, 2, 1]> (x) {ALIKE[name]} y = Transpose <perm = [0, 2, 1]> (b)
    }}"""
    rng = np.random.default_rng(3)
    sizes = [axis.strip() for axis in axes.split(",")]
    made = [{"n": 4, "c": 4, "m": 4}, {"n": 2, "c": 3, "m": 5}]
    feeds = [[int(each) if each.isdigit() else by[each] for each in sizes] for by in made]
    bench.model_agrees(text, *({"x": rng.standard_normal(shape).astype(np.float32)} for shape in feeds))
