"""Losses of a classification."""

from typing import Any

import numpy as np
import pytest


def classes(most, ignored=None):
    def made(rng, shape):
        numbers = rng.integers(0, most, shape)
        if ignored is not None:
            numbers.reshape(-1)[::3] = ignored
        return numbers

    return made


def weight(count):
    return np.random.default_rng(7).uniform(0.5, 2, count).astype(np.float32)


CASES: dict[str, tuple[str, str, bool, dict[str, Any]]] = {
    "plain": ("NC", "N", False, {}),
    "by weights": ("NCHW", "NHW", True, {}),
    "each": ("NCH", "NH", True, {"reduction": "none"}),
    "summed, some ignored that are no class": ("NCH", "NH", True, {"reduction": "sum", "ignore_index": -7}),
    "averaged, some ignored": ("NCH", "NH", False, {"ignore_index": 1}),
}


@pytest.mark.parametrize("op_type", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
@pytest.mark.parametrize("name", CASES)
def test_a_loss_reads_the_logarithm_at_the_class_of_the_target(bench, case, op_type, name):
    scores, targets, weighted, attributes = CASES[name]
    ignored = attributes.get("ignore_index")

    def made(s):
        given = {"x": s(scores), "t": (s(targets), classes(s.C, ignored))}
        outputs = 2 if op_type.startswith("Softmax") else 1
        return case(op_type, given, {"w": weight(s.C)} if weighted else {}, attributes, outputs=outputs, opset=13)

    bench.agrees_both_ways(made)


def test_a_loss_of_many_axes_has_kernels_in_tflite(bench, case):
    given = {"x": ("N", 3, 2, 2, 2, 2, 2), "t": (("N", 2, 2, 2, 2, 2), classes(3))}
    bench.agrees_in_tflite(case("SoftmaxCrossEntropyLoss", given, {"w": weight(3)}, outputs=2, opset=13))
