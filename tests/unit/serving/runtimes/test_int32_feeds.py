"""A runtime that computes int64 in int32 refuses what int32 does not hold, at every call."""

from __future__ import annotations

import numpy as np
import pytest

from transload.models.errors import BadRequest
from transload.models.signature import Array, TensorSpec
from transload.serving.runtimes.int32_feeds import Int32FeedCheck

SPECS = (TensorSpec("ids", "int64", ("batch",)), TensorSpec("x", "float32", ("batch",)))
X: Array = np.array([1e30], np.float32)


@pytest.mark.parametrize("largest", [2**31 - 1, -(2**31), 0])
def test_what_int32_holds_is_taken(largest: int) -> None:
    check = Int32FeedCheck("openvino", SPECS)
    assert check({"x": X, "ids": np.array([largest])})[0][0] == largest


@pytest.mark.parametrize("larger", [2**31, -(2**31) - 1])
def test_a_larger_integer_is_refused_also_where_the_shapes_are_those_of_the_last_call(larger: int) -> None:
    check = Int32FeedCheck("openvino", SPECS)
    check({"ids": np.array([1]), "x": X})
    with pytest.raises(BadRequest) as caught:
        check({"ids": np.array([larger]), "x": X})
    assert str(caught.value) == (
        "openvino computes integers in int32, and ids holds larger ones\n"
        "  fix: send integers within int32, or use the runtime onnxruntime"
    )


def test_an_empty_batch_holds_no_integer() -> None:
    feeds: dict[str, Array] = {"ids": np.zeros(0, np.int64), "x": np.zeros(0, np.float32)}
    assert len(Int32FeedCheck("openvino", SPECS)(feeds)[0]) == 0
