"""TensorProto and numpy: every dtype, every form, and the pool that reads packed floats as bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from transload.models.errors import BadRequest
from transload.models.signature import DTYPES, STRINGS, Array
from transload.serving.wire.tensor_proto import BY_DTYPE, decode, decode_all, encode, parse
from transload.serving.wire.tfserving_messages import packed, stock

ANY_ARRAY = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays(np.dtype(dtype), array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
)


def tensor_of(dtype: str, shape: tuple[int, ...], values: list[Any]) -> Any:
    """A TensorProto in the form with typed values."""
    tensor = stock().TensorProto(dtype=BY_DTYPE[dtype].number)
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    getattr(tensor, BY_DTYPE[dtype].field).extend(values)
    return tensor


def as_values(array: Array) -> list[Any]:
    return list((array.view(np.uint16) if array.dtype == np.float16 else array).ravel().tolist())


def request_with(tensor: Any) -> bytes:
    request = stock().PredictRequest()
    request.inputs["x"].CopyFrom(tensor)
    return bytes(request.SerializeToString())


def test_every_dtype_has_a_kind() -> None:
    assert set(BY_DTYPE) == {*DTYPES, STRINGS}


@given(ANY_ARRAY)
def test_an_array_comes_back_as_it_went(array: Array) -> None:
    tensor = stock().TensorProto()
    encode(array, tensor)
    back = decode(tensor, "x")
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == array.tobytes()


@given(ANY_ARRAY)
def test_typed_values_come_in_as_they_are_through_both_pools(array: Array) -> None:
    if array.dtype.kind == "f" and np.isnan(array).any():
        array = np.nan_to_num(array)  # the bits of a NaN may change in a Python float
    data = request_with(tensor_of(array.dtype.name, array.shape, as_values(array)))
    for message in (stock().PredictRequest.FromString(data), parse(data, "PredictRequest")):
        back = decode_all(message.inputs)["x"]
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["values", "packed pool"])
def test_few_values_are_filled_up_with_the_last(dtype: str, form: str) -> None:
    bits = 0x3C00 if dtype == "float16" else 1  # 1.0
    data = request_with(tensor_of(dtype, (2, 3), [0, bits]))
    message = stock().PredictRequest.FromString(data) if form == "values" else parse(data, "PredictRequest")
    np.testing.assert_array_equal(decode_all(message.inputs)["x"], np.array([[0, 1, 1], [1, 1, 1]], dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_values_are_zeros(dtype: str) -> None:
    data = request_with(tensor_of(dtype, (2, 3), []))
    np.testing.assert_array_equal(decode_all(parse(data, "PredictRequest").inputs)["x"], np.zeros((2, 3), dtype))


def wire(tensor: Any, tail: bytes) -> bytes:
    """A PredictRequest whose tensor has `tail` appended, by hand: what a library would not write."""

    def field(number: int, body: bytes) -> bytes:
        size, out = len(body), b""
        while size >= 0x80:
            out, size = out + bytes([size & 0x7F | 0x80]), size >> 7
        return bytes([number << 3 | 2]) + out + bytes([size]) + body

    return field(2, field(1, b"x") + field(2, tensor.SerializeToString() + tail))


@pytest.mark.parametrize(("dtype", "key", "width"), [("float32", 5, "<f4"), ("float64", 6, "<f8")])
def test_values_sent_one_by_one_or_in_chunks_are_read_right(dtype: str, key: int, width: str) -> None:
    """A packed pool alone would lose the first and keep only the last chunk of the second."""
    values = np.arange(1, 7, dtype=width)
    bare = tensor_of(dtype, (2, 3), [])
    unpacked_key = bytes([key << 3 | (5 if width == "<f4" else 1)])
    packed_key = bytes([key << 3 | 2])
    one_by_one = b"".join(unpacked_key + value.tobytes() for value in values)
    chunks = b"".join(packed_key + bytes([part.nbytes]) + part.tobytes() for part in (values[:2], values[2:]))
    mixed = packed_key + bytes([values[:5].nbytes]) + values[:5].tobytes() + unpacked_key + values[5:].tobytes()
    for tail in (one_by_one, chunks, mixed):
        got = decode_all(parse(wire(bare, tail), "PredictRequest").inputs)["x"]
        np.testing.assert_array_equal(got, values.reshape(2, 3))


def test_the_packed_pool_is_what_reads_a_whole_float_val() -> None:
    """Else the figure in the documentation would be another one."""
    data = request_with(tensor_of("float32", (4,), [1, 2, 3, 4]))
    assert type(parse(data, "PredictRequest")) is packed().PredictRequest
    assert type(parse(request_with(tensor_of("float32", (4,), [1, 2])), "PredictRequest")) is stock().PredictRequest


BROKEN = [
    (lambda: tensor_of("int32", (2,), [1, 2, 3]), "x: it has 3 values for 2 elements"),
    (lambda: tensor_of("int8", (1,), [300]), "x: Python integer 300 out of bounds for int8"),
    (lambda: stock().TensorProto(dtype=8), "x: dtype number 8 is not carried"),
    (
        lambda: tensor_of("float32", (1 << 40,), [1]),
        "x: it has 1 values for 1099511627776 elements, and is not filled up beyond 67108864 bytes",
    ),
    (
        lambda: stock().TensorProto(dtype=1, tensor_content=b"123", tensor_shape={"dim": [{"size": 1}]}),
        "x: 3 bytes are not [1] of float",
    ),
    (lambda: stock().TensorProto(dtype=1, tensor_shape={"unknown_rank": True}), "x: its shape is not known"),
    (lambda: stock().TensorProto(dtype=1, tensor_shape={"dim": [{"size": -1}]}), "x: its shape is not known"),
]


@pytest.mark.parametrize(("make", "why"), BROKEN)
def test_a_tensor_that_does_not_add_up_is_refused(make: Any, why: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode(make(), "x")
    assert str(caught.value) == f"tensor parsing error: {why}\n  fix: make the tensor with tf.make_tensor_proto"


@given(st.binary(max_size=60))
def test_no_bytes_do_anything_but_parse_or_be_refused(data: bytes) -> None:
    from google.protobuf.message import DecodeError

    try:
        for name, tensor in parse(data, "PredictRequest").inputs.items():
            if math.prod(dim.size for dim in tensor.tensor_shape.dim) < 1 << 20:
                decode(tensor, name)
    except (DecodeError, BadRequest):
        pass
