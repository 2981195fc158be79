"""What TFLite has no kernel for is written in what it has, and gives the same answers."""

import pytest


@pytest.mark.parametrize("op_type", ["Erf"])
def test_an_operator_without_a_kernel_in_tflite_has_an_equivalent(bench, case, op_type):
    bench.agrees_in_tflite(case(op_type, {"x": ("N", 3, 7)}))


def test_an_operator_that_only_the_specification_writes_is_lowered_by_its_body(bench, case):
    import numpy as np

    made = case("AffineGrid", {"t": ("N", 2, 3)}, {"size": np.array([2, 3, 4, 5])}, {"align_corners": 1})
    assert [tuple(each.shape) for each in bench.lowered(made).module.serve.structured_outputs.values()] == [
        (2, 4, 5, 2)
    ]
