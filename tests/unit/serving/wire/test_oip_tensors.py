"""Tensors of the Open Inference Protocol over gRPC: every dtype both ways, and refusals before memory is spent."""

from __future__ import annotations

import importlib.util
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transload.models.errors import BadRequest
from transload.models.signature import DTYPES, Array
from transload.serving.wire import oip_messages
from transload.serving.wire.oip_tensors import BY_DTYPE, add_tensor, parse_request, read_tensors
from transload.serving.wire.tensor_proto import TooLarge

_spec = importlib.util.spec_from_file_location("recorded_oip", Path(__file__).with_name("recorded_oip.py"))
assert _spec is not None
assert _spec.loader is not None
recorded: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorded)

MOST = 1 << 26
FIELDS = {
    "bool": "bool_contents", "int8": "int_contents", "int16": "int_contents", "int32": "int_contents",
    "int64": "int64_contents", "uint8": "uint_contents", "uint16": "uint_contents", "uint32": "uint_contents",
    "uint64": "uint64_contents", "float32": "fp32_contents", "float64": "fp64_contents",
}  # fmt: skip


def extremes(dtype: str) -> Array:
    if dtype == "bool":
        return np.array([[True, False, True]])
    limits = np.finfo(dtype) if "float" in dtype else np.iinfo(dtype)
    return np.array([[limits.min, 0, 1], [limits.max, 5, 127]], dtype)


def read(request: Any) -> dict[str, Array]:
    parsed, raw = parse_request(request.SerializeToString())
    return read_tensors(parsed.inputs, raw, MOST)


def typed(dtype: str, values: Array, shape: list[int] | None = None) -> Any:
    request = oip_messages.messages().ModelInferRequest()
    tensor = request.inputs.add(name="x", datatype=BY_DTYPE[dtype].name, shape=values.shape if shape is None else shape)
    getattr(tensor.contents, FIELDS[dtype]).extend(values.reshape(-1).tolist())
    return request


@pytest.mark.parametrize("dtype", DTYPES)
def test_raw_contents_come_back(dtype: str) -> None:
    request = oip_messages.messages().ModelInferRequest()
    add_tensor("x", extremes(dtype), request.inputs, request.raw_input_contents)
    add_tensor("none", np.empty((0, 3), dtype), request.inputs, request.raw_input_contents)
    arrays = read(request)
    np.testing.assert_array_equal(arrays["x"], extremes(dtype), strict=True)
    np.testing.assert_array_equal(arrays["none"], np.empty((0, 3), dtype), strict=True)


@pytest.mark.parametrize("dtype", FIELDS)
def test_typed_contents_come_back(dtype: str) -> None:
    values = np.concatenate([extremes(dtype).reshape(-1), (np.arange(2_000) % 100).astype(dtype)])
    np.testing.assert_array_equal(read(typed(dtype, values))["x"], values, strict=True)


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_integers_come_back(values: list[int]) -> None:
    array = np.array(values, np.int64)
    np.testing.assert_array_equal(read(typed("int64", array))["x"], array)


def test_values_are_read_over_the_border_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transload.serving.wire.oip_tensors._VARINTS", 11)
    values = np.array([1, 300, 70_000, 2, 1 << 40, 5, -1, 127, 128] * 3, np.int64)
    np.testing.assert_array_equal(read(typed("int64", values))["x"], values)


def test_values_that_come_one_by_one_or_in_chunks() -> None:
    request = oip_messages.messages().ModelInferRequest()
    request.inputs.add(name="x", datatype="FP32", shape=[4])
    data = request.SerializeToString()
    one, two = np.float32(1).tobytes(), np.array([3, 4], np.float32).tobytes()
    contents = b"\x35" + one + b"\x35" + one + b"\x32\x08" + two
    tensor = data[2:] + b"\x2a" + bytes([len(contents)]) + contents
    parsed, _ = parse_request(b"\x2a" + bytes([len(tensor)]) + tensor)
    np.testing.assert_array_equal(read_tensors(parsed.inputs, (), MOST)["x"], [1, 1, 3, 4])


@pytest.mark.parametrize("client", recorded.GRPC)
def test_requests_of_other_clients(client: str) -> None:
    request, raw = parse_request(recorded.GRPC[client])
    assert (request.model_name, request.id) == ("m", "7")
    arrays = read_tensors(request.inputs, raw, MOST)
    np.testing.assert_array_equal(arrays["b"], np.array([[1, 2]], np.float32), strict=True)
    np.testing.assert_array_equal(arrays["a"], np.array([10]), strict=True)


def tensor(datatype: str, shape: list[int], raw: bytes | None = None, **contents: list[Any]) -> Callable[[], Any]:
    def make() -> Any:
        request = oip_messages.messages().ModelInferRequest()
        row = request.inputs.add(name="x", datatype=datatype, shape=shape)
        for field, values in contents.items():
            getattr(row.contents, field).extend(values)
        if raw is not None:
            request.raw_input_contents.append(raw)
        return request

    return make


def twice() -> Any:
    request = tensor("FP32", [1], b"0000")()
    request.inputs.add(name="x", datatype="FP32", shape=[1])
    request.raw_input_contents.append(b"0000")
    return request


def one_too_few() -> Any:
    request = tensor("FP32", [1], b"0000")()
    request.inputs.add(name="y", datatype="FP32", shape=[1])
    return request


NAMES = "BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, FP32, FP64, BYTES"
REFUSED = {
    "string": (
        tensor("BYTES", [1], b"\1\0\0\0"),
        "its bytes end within a string",
    ),
    "datatype": (tensor("FLOAT", [1], b"0000"), f"the datatype 'FLOAT' is not known; use one of {NAMES}"),
    "short": (tensor("FP32", [2], b"0000"), "8 bytes are expected, got 4"),
    "long": (tensor("FP32", [], b"00000000"), "4 bytes are expected, got 8"),
    "nothing": (tensor("FP32", [2]), "2 values are expected, got 0"),
    "few": (tensor("FP32", [2], fp32_contents=[1]), "2 values are expected, got 1"),
    "many": (tensor("INT32", [2], int_contents=[1, 2, 3]), "2 values are expected, got more"),
    "field": (tensor("INT32", [1], fp32_contents=[1]), "INT32 comes in int_contents, not in fp32_contents"),
    "half": (tensor("FP16", [1], fp32_contents=[1]), "FP16 comes in raw_input_contents only"),
    "range": (tensor("INT8", [1], int_contents=[200]), "one of its values is not within INT8"),
    "negative": (tensor("FP32", [-1], b""), "its shape [-1] has a negative size"),
    "rank": (tensor("FP32", [1] * 65, b"0000"), "its shape has 65 axes, and at most 64 are read"),
    "bool": (tensor("BOOL", [1], b"\2"), "a byte of BOOL is 0 or 1"),
    "both": (tensor("FP32", [1], b"0000", fp32_contents=[1]), "tensor 'x' comes raw and typed: send one of them"),
    "twice": (twice, "tensor 'x' comes twice"),
    "too few": (one_too_few, "there are 2 tensors and 1 raw contents: send one for each, or none"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    make, words = REFUSED[case]
    with pytest.raises(BadRequest) as caught:
        read(make())
    assert caught.value.what.removeprefix("tensor 'x': ") == words


@pytest.mark.parametrize("shape", [[4_000_000, 1, 8, 8], [1 << 62, 1 << 62], [0, 1 << 40, 1 << 40], [MOST]])
def test_a_shape_beyond_the_limit_takes_no_memory(shape: list[int]) -> None:
    for make in (tensor("FP32", shape, b"0000"), tensor("FP32", shape, fp32_contents=[1])):
        request = make()
        tracemalloc.start()
        try:
            with pytest.raises(TooLarge, match=r"is more than 67108864 bytes"):
                read(request)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()


def test_the_limit_is_that_of_all_tensors() -> None:
    request = oip_messages.messages().ModelInferRequest()
    for name in "xy":
        add_tensor(name, np.zeros(100, np.float32), request.inputs, request.raw_input_contents)
    parsed, raw = parse_request(request.SerializeToString())
    assert len(read_tensors(parsed.inputs, raw, 800)) == 2
    with pytest.raises(TooLarge, match="tensor 'y'"):
        read_tensors(parsed.inputs, raw, 799)


EMPTY_FIELDS = {"inputs": b"\x2a\x00", "outputs": b"\x32\x00", "raw contents": b"\x3a\x00", "parameters": b"\x22\x00"}


@pytest.mark.parametrize("field", EMPTY_FIELDS)
def test_countless_empty_fields_are_refused_before_they_are_parsed(field: str) -> None:
    with pytest.raises(TooLarge, match=r"the request has more than 65536 (bytes beside its tensors|fields)"):
        parse_request(EMPTY_FIELDS[field] * 100_000)


def test_countless_single_values_are_refused() -> None:
    contents = b"\x35\x00\x00\x80\x3f" * 100_000
    request = oip_messages.unread().ModelInferRequest()
    request.inputs.add(name="x", datatype="FP32", shape=[100_000], contents=contents)
    with pytest.raises(TooLarge, match="or values that are not packed"):
        read(request)


def test_a_large_request_of_tensors_is_parsed() -> None:
    image = np.ones((1, 224, 224, 3), np.float32)
    np.testing.assert_array_equal(read(typed("float32", image))["x"], image)
    request = oip_messages.messages().ModelInferRequest()
    for at in range(500):
        add_tensor(str(at), np.full(200, at, np.float32), request.inputs, request.raw_input_contents)
    request.id = "7"
    assert {int(name): array.tolist() for name, array in read(request).items()} == {at: [at] * 200 for at in range(500)}
    assert parse_request(request.SerializeToString())[0].id == "7"


NOISE = np.random.default_rng(0).bytes(70_000)  # long messages are read by another way; Hypothesis draws them slowly
LONG_RAW = b"\x3a\xf0\xa2\x04" + NOISE


@given(st.binary(max_size=200), st.sampled_from([b"", NOISE, LONG_RAW]), st.binary(max_size=50))
@settings(max_examples=300, deadline=None)
def test_garbage_is_refused_or_read(head: bytes, middle: bytes, tail: bytes) -> None:
    with suppress(BadRequest):
        request, raw = parse_request(head + middle + tail)
        read_tensors(request.inputs, raw, MOST)


@given(st.binary(max_size=60), st.sampled_from(list(BY_DTYPE)), st.lists(st.integers(-1, 40), max_size=3))
@settings(max_examples=300, deadline=None)
def test_garbage_in_typed_contents_is_refused_or_read(contents: bytes, dtype: str, shape: list[int]) -> None:
    request = oip_messages.unread().ModelInferRequest()
    request.inputs.add(name="x", datatype=BY_DTYPE[dtype].name, shape=shape, contents=contents)
    with suppress(BadRequest):
        assert read(request)["x"].shape == tuple(shape)


def test_the_descriptor_is_one_file_of_the_service() -> None:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto.FromString(oip_messages.service_file())
    (service,) = file.service
    assert f"{file.package}.{service.name}" == "inference.GRPCInferenceService"
    assert [method.name for method in service.method] == list(oip_messages.METHODS)
