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
