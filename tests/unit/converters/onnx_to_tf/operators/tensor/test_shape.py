"""Shapes, slices, pads, and constants."""

import numpy as np
import pytest


def ints(*numbers):
    return np.array(numbers, np.int64)


CASES = {
    "Transpose, all reversed": lambda s, case: case("Transpose", {"x": s("NCHW")}),
    "Transpose": lambda s, case: case("Transpose", {"x": s("NCHW")}, attributes={"perm": [2, 0, 3, 1]}),
    "Transpose to last": lambda s, case: case("Transpose", {"x": s("NCHW")}, attributes={"perm": [0, 2, 3, 1]}),
    "Transpose from last": lambda s, case: case("Transpose", {"x": s("NCHW")}, attributes={"perm": [0, 3, 1, 2]}),
    "Transpose of rank 3": lambda s, case: case("Transpose", {"x": s("NCH")}, attributes={"perm": [0, 2, 1]}),
    "Reshape": lambda s, case: case("Reshape", {"x": s("NCHW")}, {"s": ints(0, s.C * s.H, -1)}),
    "Reshape merging space": lambda s, case: case("Reshape", {"x": s("NCHW")}, {"s": ints(0, 0, -1)}),
    "Reshape batch": lambda s, case: case("Reshape", {"x": s("NCH")}, {"s": ints(-1, s.H)}),
    "Flatten": lambda s, case: case("Flatten", {"x": s("NCHW")}),
    "Flatten 0": lambda s, case: case("Flatten", {"x": s("NCHW")}, attributes={"axis": 0}),
    "Flatten 3": lambda s, case: case("Flatten", {"x": s("NCHW")}, attributes={"axis": 3}),
    "Flatten -1": lambda s, case: case("Flatten", {"x": s("NCHW")}, attributes={"axis": -1}),
    "Squeeze": lambda s, case: case("Squeeze", {"x": ("N", 1, s.H, 1)}, {"a": ints(1, -1)}),
    "Unsqueeze": lambda s, case: case("Unsqueeze", {"x": s("NCH")}, {"a": ints(1, -1)}),
    "Expand": lambda s, case: case("Expand", {"x": ("N", 1, s.H)}, {"s": ints(1, s.C, 1)}),
    "Expand to a higher rank": lambda s, case: case("Expand", {"x": ("N", s.H)}, {"s": ints(s.C, 1, 1)}),
    "Tile": lambda s, case: case("Tile", {"x": s("NCH")}, {"r": ints(2, 1, 3)}),
    "Concat": lambda s, case: case("Concat", {"a": s("NCH"), "b": s("NCH")}, attributes={"axis": 1}),
    "Concat, last": lambda s, case: case("Concat", {"a": s("NCHW"), "b": s("NCHD")}, attributes={"axis": -1}),
    "Shape": lambda s, case: case("Shape", {"x": s("NCHW")}),
    "Shape, part": lambda s, case: case("Shape", {"x": s("NCHW")}, attributes={"start": -3, "end": 99}),
    "Size": lambda s, case: case("Size", {"x": s("NCHW")}),
    "Split by sizes": lambda s, case: case(
        "Split", {"x": s("NCH")}, {"p": ints(1, s.C - 1)}, {"axis": 1}, outputs=2, opset=17
    ),
    "Split evenly": lambda s, case: case("Split", {"x": s("NCH")}, attributes={"axis": 1}, outputs=2, opset=17),
    "Split by count": lambda s, case: case(
        "Split", {"x": ("N", 7, s.H)}, attributes={"axis": 1, "num_outputs": 3}, outputs=3
    ),
    "DepthToSpace DCR": lambda s, case: case("DepthToSpace", {"x": ("N", 12, s.H, s.W)}, attributes={"blocksize": 2}),
    "DepthToSpace CRD": lambda s, case: case(
        "DepthToSpace", {"x": ("N", 12, s.H, s.W)}, attributes={"blocksize": 2, "mode": "CRD"}
    ),
    "SpaceToDepth": lambda s, case: case("SpaceToDepth", {"x": ("N", s.C, 6, 4)}, attributes={"blocksize": 2}),
    "Slice": lambda s, case: case("Slice", {"x": s("NCHW")}, {"b": ints(1, 0), "e": ints(99, -1), "a": ints(2, -1)}),
    "Slice by steps": lambda s, case: case(
        "Slice", {"x": s("NCHW")}, {"b": ints(-1, 0), "e": ints(-99, 99), "a": ints(2, 3), "s": ints(-2, 2)}
    ),
    "Slice from before the start": lambda s, case: case(
        "Slice", {"x": s("NCHW")}, {"b": ints(-99), "e": ints(-1), "a": ints(1), "s": ints(1)}
    ),
    "Slice the batch": lambda s, case: case("Slice", {"x": s("NCH")}, {"b": ints(0), "e": ints(1), "a": ints(0)}),
    "Slice the batch backwards": lambda s, case: case(
        "Slice", {"x": s("NCH")}, {"b": ints(-1), "e": ints(-(2**63)), "a": ints(0), "s": ints(-1)}
    ),
    "ConstantOfShape": lambda s, case: case("ConstantOfShape", {}, {"s": ints(2, 3)}),
    "Trilu": lambda s, case: case("Trilu", {"x": s("NHW")}, {"k": np.array(1, "i8")}),
    "Trilu lower": lambda s, case: case("Trilu", {"x": s("NHW")}, attributes={"upper": 0}),
    "EyeLike": lambda s, case: case("EyeLike", {"x": s("NC")}, attributes={"k": 1}),
    "Pad": lambda s, case: case("Pad", {"x": s("NCHW")}, {"p": ints(0, 1, 0, 2, 0, 0, 3, 1)}),
    "Pad with a number": lambda s, case: case(
        "Pad", {"x": s("NCHW")}, {"p": ints(1, 2, 0, 3), "v": np.float32(7).reshape(()), "a": ints(-1, 1)}
    ),
    "Pad reflect": lambda s, case: case(
        "Pad", {"x": s("NCHW")}, {"p": ints(0, 0, 1, 2, 0, 0, 2, 1)}, {"mode": "reflect"}
    ),
    "Pad edge": lambda s, case: case("Pad", {"x": s("NCHW")}, {"p": ints(0, 1, 1, 2, 0, 2, 2, 0)}, {"mode": "edge"}),
    "Pad that cuts": lambda s, case: case("Pad", {"x": s("NCHW")}, {"p": ints(0, 0, -1, 1, 0, 0, 2, -2)}),
}


@pytest.mark.parametrize("name", CASES)
def test_shapes(bench, case, name):
    bench.agrees_both_ways(lambda s: CASES[name](s, case))


def test_bounds_of_a_slice_are_cut_as_the_specification_words_it():
    from transload.converters.onnx_to_tf.operators.tensor.slicing import bounds

    for length in (1, 4):
        for step in (1, 2, -1, -2):
            for start in range(-6, 7):
                for end in range(-6, 7):
                    first, last = bounds(start, end, step, length)
                    assert list(range(length))[first:last:step] == reference_slice(start, end, step, length)


def reference_slice(start, end, step, length):
    """As the reference implementation and numpy have it, but for a start before the first element and a negative
    step, which the specification cuts to 0."""
    begin = start + length if start < 0 else start
    begin = min(max(begin, 0), length - 1) if step < 0 else begin
    stop = None if step < 0 and end < -length else end
    return list(range(length))[max(begin, 0) if step > 0 else begin : stop : step]
