"""The Open Inference Protocol over HTTP: numbers in JSON and bytes behind it, both ways, and what is refused."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from transload.models.errors import BadRequest
from transload.models.signature import DTYPES, Array
from transload.serving.wire.oip_json import InferRequest, join_body, read_outputs, read_request, write_tensors
from transload.serving.wire.tensor_proto import TooLarge

_spec = importlib.util.spec_from_file_location("recorded_oip", Path(__file__).with_name("recorded_oip.py"))
assert _spec is not None
assert _spec.loader is not None
recorded: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorded)

MOST = 1 << 26


def read(inputs: object, binary: bytes = b"", more: Mapping[str, object] | None = None) -> InferRequest:
    text = orjson.dumps({"inputs": inputs, **(more or {})})
    return read_request(text + binary, str(len(text)) if binary else None, MOST)


def row(**fields: object) -> dict[str, object]:
    return {"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 4], **fields}


@pytest.mark.parametrize("client", recorded.HTTP)
def test_requests_of_other_clients(client: str) -> None:
    body, header_length = recorded.HTTP[client]
    request = read_request(body, header_length, MOST)
    np.testing.assert_array_equal(request.feeds["b"], np.array([[1, 2]], np.float32), strict=True)
    np.testing.assert_array_equal(request.feeds["a"], np.array([10]), strict=True)
    wanted: dict[str, tuple[str, dict[str, bool], bool]] = {
        "tritonclient mixed": ("7", {"sum": True, "kept": False}, False),
        "tritonclient binary": ("", {}, True),
        "tritonclient json": ("", {"sum": False}, False),
        "kserve binary": ("7", {}, False),
    }
    assert (request.id, request.outputs, request.binary) == wanted[client]


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_outputs_come_back(dtype: str, *, binary: bool) -> None:
    values = np.array([[0, 1, 1]], dtype) if dtype == "bool" else np.array([[0, 1, 100]], dtype)
    arrays: dict[str, Array] = {"y": values, "none": np.empty((0, 2), dtype), "turned": np.asfortranarray(values).T}
    rows, parts = write_tensors(arrays, list(arrays) if binary else ())
    body, length = join_body({"outputs": rows}, () if binary else list(arrays.values()), parts)
    assert (length is None) is not binary
    answers = read_outputs(body, None if length is None else str(length), MOST)
    assert list(answers) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(answers[name], array, strict=True)


def test_numbers_that_are_not_finite_come_through() -> None:
    values = np.array([np.nan, np.inf, -np.inf], np.float32)
    rows, parts = write_tensors({"y": values}, ())
    body, _ = join_body({"outputs": rows}, [values], parts)
    np.testing.assert_array_equal(read_outputs(body, None, MOST)["y"], values)


def test_lists_are_flat_or_nested_as_the_shape_is() -> None:
    for data in ([1, 2, 3, 4], [[1, 2], [3, 4]]):
        np.testing.assert_array_equal(read([row(data=data)]).feeds["x"], np.array([[1, 2], [3, 4]], np.float32))


def test_the_request_s_parameter_is_the_default_of_its_outputs() -> None:
    outputs = [{"name": "a"}, {"name": "b", "parameters": {"binary_data": False}}]
    request = read([row()], more={"outputs": outputs, "parameters": {"binary_data_output": True}})
    assert request.outputs == {"a": True, "b": False}


NESTED = "tensor 'x': its lists are not nested as its shape [2, 2] is"
REFUSED: dict[str, tuple[Any, bytes, str]] = {
    "inputs": ({}, b"", "the JSON has no list of inputs"),
    "no name": ([{"datatype": "FP32"}], b"", "a tensor is a JSON object with a name"),
    "no object": ([1], b"", "a tensor is a JSON object with a name"),
    "datatype": ([row(datatype=3)], b"", "tensor 'x' has no datatype"),
    "shape": ([row(shape=[2.5])], b"", "tensor 'x': its shape is no list of integers"),
    "no data": (
        [{"name": "x", "datatype": "FP32", "shape": [1]}], b"", "tensor 'x' has neither data nor binary_data_size"
    ),
    "count": ([row(data=[1, 2, 3])], b"", "tensor 'x': 4 values are expected, got 3"),
    "ragged": ([row(data=[[1, 2, 3], [4]])], b"", NESTED),
    "flat in nested": ([row(data=[[1, 2], 3, 4])], b"", NESTED),
    "rows": ([row(data=[[1, 2]])], b"", NESTED),
    "deep": ([row(data=[[[1], [2]], [[3], [4]]])], b"", "tensor 'x': FP32 is not read from a list"),
    "string": ([row(data=["1", 2, None, 4])], b"", "tensor 'x': FP32 is not read from a string, null"),
    "bool": ([row(data=[True, 2, 3, 4])], b"", "tensor 'x': FP32 is not read from true or false"),
    "fraction": (
        [row(datatype="INT64", data=[1.0, 2, 3, 4])], b"", "tensor 'x': INT64 is not read from a number with a fraction"
    ),
    "range": ([row(datatype="INT8", data=[1, 2, 3, 400])], b"", "tensor 'x': one of its values is not within INT8"),
    "overflow": ([row(data=[1, 2, 3, 1e300])], b"", "tensor 'x': one of its values is not within FP32"),
    "twice": ([row(), row()], b"", "tensor 'x' comes twice"),
    "both": (
        [row(parameters={"binary_data_size": 16})], b"0" * 16,
        "tensor 'x' has data and binary_data_size: send one of them",
    ),
    "rest": ([row()], b"0", "1 bytes of the body belong to no tensor"),
    "parameters": ([row(parameters=[])], b"", "parameters are a JSON object"),
    "memory": ([row(parameters={"shared_memory_region": "r"})], b"", "tensor 'x': shared memory is not served"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    inputs, binary, words = REFUSED[case]
    with pytest.raises(BadRequest) as caught:
        read(inputs, binary)
    assert caught.value.what == words


@pytest.mark.parametrize("size", [15, 17, "16", True, 1 << 70, None])
def test_a_size_that_does_not_fit(size: object) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [2, 2], "parameters": {"binary_data_size": size}}
    text = orjson.dumps({"inputs": [tensor]}) if size != 1 << 70 else (
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[2,2],"parameters":{"binary_data_size":%d}}]}' % (1 << 70)
    )  # fmt: skip
    with pytest.raises(BadRequest, match=r"binary_data_size"):
        read_request(text + b"0" * 16, str(len(text)), MOST)


@pytest.mark.parametrize("length", ["-1", "x", "", "99999", "1" * 5_000, "²"])
def test_a_header_length_that_does_not_fit(length: str) -> None:
    with pytest.raises(BadRequest, match=r"^Inference-Header-Content-Length is '.{0,63}', and the body has 2 bytes"):
        read_request(b"{}", length, MOST)


def test_a_shape_beyond_the_limit() -> None:
    with pytest.raises(TooLarge, match="is more than 67108864 bytes"):
        read([row(shape=[4_000_000, 1, 8, 8], data=[1])])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"id": 3}, "the id of a request is a string"),
        ({"outputs": 3}, "the JSON has no list of outputs"),
        ({"outputs": [{"name": "y"}, {"name": "y"}]}, "output 'y' is requested twice"),
        ({"outputs": [{"name": "y", "parameters": {"binary_data": 1}}]}, "the parameter binary_data is true or false"),
        (
            {"outputs": [{"name": "y", "parameters": {"classification": 2}}]},
            "output 'y': classification is not served",
        ),
    ],
)
def test_requests_that_are_refused(more: dict[str, object], words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read([row()], more=more)
    assert caught.value.what == words
