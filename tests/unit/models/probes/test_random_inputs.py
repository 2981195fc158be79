"""Random inputs fit the signature, vary, and follow their seed."""

from __future__ import annotations

import numpy as np

from transload.models.probes.masks import blank_inputs, stress_inputs
from transload.models.probes.random_inputs import sample_inputs, sample_tensors
from transload.models.probes.stress_values import free_integers
from transload.models.signature import Signature, TensorSpec, parse_input


def test_sample_inputs_vary_fit_the_signature_and_follow_the_seed() -> None:
    signature = Signature(
        (
            TensorSpec("image", "float32", ("batch", 3, 4)),
            TensorSpec("tokens", "int64", ("batch", "time")),
            TensorSpec("mask", "bool", ("batch", "time")),
            TensorSpec("half", "float16", (50,)),
        ),
        (parse_input("y=float32[batch]"),),
    )
    inputs = sample_inputs(signature, 2, seed=5)
    assert {name: (value.dtype.name, value.ndim) for name, value in inputs.items()} == {
        "image": ("float32", 3), "tokens": ("int64", 2), "mask": ("bool", 2), "half": ("float16", 1),
    }  # fmt: skip
    assert inputs["image"].shape == (2, 3, 4)
    assert inputs["tokens"].shape == inputs["mask"].shape
    assert inputs["tokens"].shape[1] not in (2, 3, 4)
    assert inputs["tokens"].min() >= 0
    assert len(np.unique(inputs["image"])) == inputs["image"].size
    assert abs(float(inputs["half"].mean())) > 0.1  # not symmetric about zero
    again, other = sample_inputs(signature, 2, seed=5), sample_inputs(signature, 2, seed=6)
    np.testing.assert_array_equal(inputs["image"], again["image"])
    assert not np.array_equal(inputs["image"], other["image"])


def test_declared_values_are_drawn_with_both_ends_in_the_first_sample() -> None:
    words = ("ids=int64[batch,5] in 3..30521", "x=float32[batch,4] in -1..1", "lengths=int32[batch] in 2..9")
    specs = tuple(map(parse_input, words))
    inputs = sample_tensors(specs, {"batch": 50})
    for spec in specs:
        array = inputs[spec.name]
        assert array.dtype == spec.dtype
        assert spec.values is not None
        assert (array.ravel()[0], array.ravel()[1]) == (spec.values.high, spec.values.low)
        assert (array.min(), array.max()) == (spec.values.low, spec.values.high)
        assert len(np.unique(array)) > 7
    assert sample_tensors([parse_input("t=int64[] in 4..9")], {})["t"].tolist() == 9
    assert free_integers(specs) == ()
    assert (blank_inputs(specs), stress_inputs(specs)) == (specs[1:2], ())
    assert blank_inputs([parse_input("x=float32[batch] in 1..2")]) == ()
