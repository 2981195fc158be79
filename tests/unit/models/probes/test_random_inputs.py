"""Random inputs fit the signature, vary, and follow their seed."""

from __future__ import annotations

import numpy as np

from transload.models.probes.random_inputs import sample_inputs
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
