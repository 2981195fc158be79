"""TF Serving's JSON: what is read, what is refused in which words, and numbers that are not finite."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from transload.models.errors import BadRequest
from transload.models.signature import DTYPES, Array, TensorSpec
from transload.serving.wire import tfserving_json
from transload.serving.wire.tensor_proto import TooLarge
from transload.serving.wire.tfserving_json import dumps, dumps_arrays, loads, to_array, write_rows


def spec(dtype: str, rank: int = 1) -> TensorSpec:
    return TensorSpec("x", dtype, ("batch", *range(2, 1 + rank)))


@given(
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: arrays(np.dtype(dtype), array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4))
    )
)
def test_an_array_comes_back_as_it_went(array: Array) -> None:
    back = to_array(loads(dumps({"x": array}, [array]))["x"], spec(array.dtype.name))
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(back, array)


def test_numbers_that_are_not_finite_are_written_and_read_as_tf_serving_does() -> None:
    array = np.array([np.nan, np.inf, -np.inf, 0.5], np.float32)
    assert dumps({"x": array}, [array]) == b'{"x":[NaN,Infinity,-Infinity,0.5]}'
    assert repr(loads(b'{"x": [NaN, Inf, -Inf, Infinity, -Infinity], "Inf": "Inf"}')) == (
        "{'x': [nan, inf, -inf, inf, -inf], 'Inf': 'Inf'}"
    )


REFUSED: list[tuple[Any, str, str]] = [
    ([1.0, "a"], "float32", 'JSON Value: "a" Type: String is not of expected type: float'),
    ([1.5], "int32", "JSON Value: 1.5 Type: Number is not of expected type: int32"),
    ([1.0], "int64", "JSON Value: 1.0 Type: Number is not of expected type: int64"),
    ([True, 1], "bool", "JSON Value: 1 Type: Number is not of expected type: bool"),
    ([True], "float32", "JSON Value: true Type: True is not of expected type: float"),
    ([None], "float32", "JSON Value: null Type: Null is not of expected type: float"),
    ([300], "uint8", "JSON Value: 300 Type: Number is not of expected type: uint8"),
    ([-1], "uint64", "JSON Value: -1 Type: Number is not of expected type: uint64"),
    ([{"b64": "aaaa"}], "float32", 'JSON Value: {"b64": "aaaa"} Type: Object is not of expected type: float'),
    ([1 << 24], "float32", "Cannot convert JSON value: 16777216 to float without loss of precision."),
    ([1e39], "float32", "Cannot convert JSON value: 1e+39 to float without loss of precision."),
    ([[1], [2, 3]], "int32", "Encountered list at unexpected size: 2 at level: 1 expected size: 1"),
    ([[1], 2], "int32", "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2"),
    ([1, [2]], "int32", "Encountered list at unexpected level: 1 expected < 1"),
]


@pytest.mark.parametrize(("value", "dtype", "words"), REFUSED)
def test_what_is_no_tensor_is_refused_in_tf_servings_words(value: Any, dtype: str, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        to_array(value, spec(dtype))
    assert caught.value.what == words


ROWS: list[tuple[Any, str]] = [
    ([[1], [2, 3]], "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: "
     "Expecting tensor size: 1 but got: 2"),
    ([[[1, 2]], [[1], [2]]], "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: "
     "Expecting shape [1,2] but got: [2,1]"),
    ([1, "a"], "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: "
     'JSON Value: "a" Type: String is not of expected type: int32'),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "words"), ROWS)
def test_rows_that_differ_are_refused_with_the_row(rows: Any, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        to_array(rows, spec("int32"), len(rows))
    assert caught.value.what == words


def test_an_empty_list_has_the_inner_sizes_of_the_signature() -> None:
    assert to_array([], TensorSpec("x", "float32", ("batch", 2, 3))).shape == (0, 2, 3)
    assert to_array([], TensorSpec("x", "float32", ("batch", "time"))).shape == (0,)  # the session refuses it


MALFORMED = [
    (b"", "JSON Parse error: The document is empty"),
    (b"{", "JSON Parse error: "),
    (b'{"instances": [1,]}', "JSON Parse error: "),
    (b"\xff", "JSON Parse error: "),
    (b"[" * 100_000, "JSON Parse error: "),
    (b'["\\ud800"]', "JSON Parse error: "),  # half of a character, which can be written in no answer
    (b'[NaN, "\\ud800"]', "JSON Parse error: "),
    (b"[NaN, 1" + b"0" * 400 + b"]", "JSON Parse error: "),
    (b"[-NaN]", "JSON Parse error: "),
]


@pytest.mark.parametrize(("body", "words"), MALFORMED, ids=range(len(MALFORMED)))
def test_what_is_no_json_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        loads(body)
    assert caught.value.what.startswith(words)


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=12),
    st.sampled_from(DTYPES),
)
def test_any_value_is_an_array_of_that_dtype_or_refused(value: Any, dtype: str) -> None:
    with contextlib.suppress(BadRequest):
        assert to_array(json.loads(json.dumps(value)), spec(dtype)).dtype.name == dtype


def test_long_text_takes_no_memory_for_its_neighbours() -> None:
    """numpy would give each of them the room of the longest: 22 GB."""
    for value in (["x" * 300_000] + [""] * 20_000, [[1.0], ["x" * 300_000, *[""] * 20_000]]):
        tracemalloc.start()
        with pytest.raises(BadRequest):
            to_array(value, TensorSpec("x", "float32", ("batch",)))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 16 << 20


@pytest.mark.parametrize("unit", [b"[],", b"{},", b'"",'])
def test_a_document_that_takes_many_times_its_bytes_is_refused(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfserving_json, "_MOST_MARKS", 200)
    assert len(loads(b"[" + unit * 99 + b"0]")) == 100
    assert len(loads(b"[" + b"1.25," * 500 + b"0]")) == 501
    with pytest.raises(TooLarge, match="a JSON document has at most 200 lists, objects and quotation marks"):
        loads(b"[" + unit * 200 + b"0]")


def test_words_beside_numbers_are_read_in_documents_of_some_length_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfserving_json, "_MOST_WIDE_BYTES", 20)
    assert len(loads(b"[NaN,NaN,NaN,NaN]")) == 4
    with pytest.raises(BadRequest, match="JSON Parse error"):
        loads(b"[NaN,NaN,NaN,NaN,NaN]")


@pytest.mark.parametrize("shape", [(70_000,), (3, 50_000), (2, 1, 40_000), (40_000, 2), (50, 40, 30), (1,)])
@pytest.mark.parametrize("special", [None, np.nan, -np.inf])
def test_a_long_array_is_written_as_a_short_one(shape: tuple[int, ...], special: float | None) -> None:
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    if special is not None:
        array.reshape(-1)[-1] = special
    for value in (array, array.T, np.asfortranarray(array), array > 0, array.astype(np.float16)):
        document = json.loads(dumps_arrays({"a": value, "b": {"null": None}}, [value]))
        assert document["b"] == {"null": None}
        np.testing.assert_array_equal(np.array(document["a"], value.dtype), value)


@pytest.mark.parametrize("count", [0, 1, 3, 9000])
def test_rows_of_several_arrays_are_written(count: int) -> None:
    a, b = np.arange(2 * count, dtype=np.float32).reshape(count, 2), np.arange(count)
    rows = json.loads(write_rows([a, b], lambda part: [[*row] for row in zip(*part, strict=True)]))
    assert rows == [[row, at] for row, at in zip(a.tolist(), b.tolist(), strict=True)]
