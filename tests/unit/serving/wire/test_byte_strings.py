"""Strings in every form on the wire: raw, typed, in TensorProto and in both kinds of JSON."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from transload.models.errors import BadRequest
from transload.models.signature import Array, TensorSpec
from transload.serving.server.repository.channel_messages import MessageLayout
from transload.serving.wire import byte_strings
from transload.serving.wire.byte_strings import json_string, raw_bytes, read_strings, size_of, string_array, with_texts
from transload.serving.wire.oip_json import join_body, read_outputs, write_tensors
from transload.serving.wire.oip_messages import messages
from transload.serving.wire.oip_tensors import add_tensor, parse_request, read_tensors
from transload.serving.wire.tensor_proto import TooLarge, decode, encode
from transload.serving.wire.tfserving_json import to_array, write_rows
from transload.serving.wire.tfserving_messages import stock

MOST = 1 << 20


@st.composite
def string_arrays(draw: Any) -> Array:
    shape = draw(array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    count = int(np.prod(shape))
    return string_array(draw(st.lists(st.binary(max_size=9), min_size=count, max_size=count)), shape)


def same(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tolist() == other.tolist()


@given(string_arrays())
def test_strings_come_back_as_they_went(array: Array) -> None:
    """Zeros at the end among them, which numpy's own arrays of bytes lose."""
    data = raw_bytes(array)
    strings, end = read_strings(b"ab" + data + b"rest", array.shape, 2)
    assert same(strings, array)
    assert end == 2 + len(data)
    tensor = stock().TensorProto()
    encode(array, tensor)
    assert same(decode(tensor, "x"), array)
    request = messages().ModelInferRequest()
    add_tensor("x", array, request.inputs, request.raw_input_contents)
    parsed, raw = parse_request(request.SerializeToString())
    assert same(read_tensors(parsed.inputs, raw, MOST)["x"], array)
    request.ClearField("raw_input_contents")
    request.inputs[0].contents.bytes_contents.extend(array.ravel().tolist())
    parsed, raw = parse_request(request.SerializeToString())
    assert same(read_tensors(parsed.inputs, raw, MOST)["x"], array)
    rows, parts = write_tensors({"x": array}, {"x"})
    body, length = join_body({"outputs": rows}, [], parts)
    assert same(read_outputs(body, str(length), MOST)["x"], array)


@given(string_arrays(), st.integers(0, 3))
def test_strings_lie_between_other_arrays_of_a_message(array: Array, count: int) -> None:
    axes = tuple(f"a{at}" for at in range(array.ndim))
    layout = MessageLayout((TensorSpec("n", "int64", ("k",)), TensorSpec("s", "object", axes),
                            TensorSpec("t", "object", axes), TensorSpec("m", "float32", ("k",))))  # fmt: skip
    numbers = np.arange(count)
    arrays = [numbers, array, array, numbers.astype(np.float32)]
    back = layout.unpack(bytearray(b"".join(layout.pack(arrays))))
    assert [one.tolist() for one in back] == [one.tolist() for one in arrays]


@given(string_arrays(), st.binary(max_size=40))
def test_bytes_that_are_no_strings_are_refused(array: Array, other: bytes) -> None:
    data = raw_bytes(array)
    for broken in (data[:-1], other):
        if broken != data and len(broken) < len(data):
            with pytest.raises(ValueError, match=r"fewer bytes|end within"):
                read_strings(broken, array.shape)
    for shape in ((1 << 40,), (1 << 40, 1 << 40), (-1,)):
        with pytest.raises(ValueError, match="fewer bytes"):
            read_strings(other, shape)


def test_more_strings_than_a_tensor_may_have_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = stock().TensorProto(dtype=7, tensor_shape={"dim": [{"size": 1 << 22}]}, string_val=[b"x" * 100])
    with pytest.raises(TooLarge, match="is not filled up"):
        decode(tensor, "x")
    request = messages().ModelInferRequest()
    request.inputs.add(name="x", datatype="BYTES", shape=[(1 << 22) + 1])
    with pytest.raises(TooLarge, match="at most 4194304 strings"):
        read_tensors(request.inputs, [b""], 1 << 40)
    monkeypatch.setattr("transload.serving.wire.tensor_proto.MOST_STRINGS", 2)
    with pytest.raises(TooLarge, match="at most 2 strings"):
        decode(stock().TensorProto(dtype=7, string_val=[b""] * 3), "x")


def test_what_is_left_out_of_a_tensor_is_its_last_string_or_none() -> None:
    shape = {"dim": [{"size": 3}]}
    for values, filled in (([], [b""] * 3), ([b"a"], [b"a"] * 3), ([b"a", b"b"], [b"a", b"b", b"b"])):
        tensor = stock().TensorProto(dtype=7, tensor_shape=shape, string_val=values)
        assert decode(tensor, "x").tolist() == filled


SPEC = TensorSpec("s", "object", ("batch", 2))


def test_json_has_strings_as_text_and_as_base64() -> None:
    rows = [["ä", {"b64": "AP8="}], [{"b64": "AP8"}, ""]]
    assert to_array(rows, SPEC, 2).tolist() == [["ä".encode(), b"\0\xff"], [b"\0\xff", b""]]
    assert to_array([], SPEC).shape == (0, 2)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1, "JSON Value: 1 Type: Number is not of expected type: string"),
        (True, "JSON Value: true Type: True is not of expected type: string"),
        (None, "JSON Value: null Type: Null is not of expected type: string"),
        ({"b64": "*"}, "Unable to base64 decode"),
        ({"b64": 1}, 'JSON Value: {"b64": 1} not formatted correctly for base64 data'),
        ({"b64": "", "x": 1}, 'JSON Value: {"b64": "", "x": 1} not formatted correctly for base64 data'),
    ],
)
def test_other_json_is_refused_in_tf_servings_words(value: Any, words: str) -> None:
    with pytest.raises(BadRequest) as refused:
        to_array([[value, "a"]], SPEC)
    assert refused.value.what == words


@given(st.binary(max_size=9), st.sampled_from(["x", "x_bytes"]))
def test_a_string_is_text_where_it_can_be(value: bytes, name: str) -> None:
    arrays = {name: string_array([value], (1,)), "n": np.zeros(1)}
    ((text,), number) = with_texts(arrays).values()
    assert number is arrays["n"]
    assert json_string(json.loads(json.dumps(text))) == value
    is_base64 = isinstance(text, dict)
    assert is_base64 == (name == "x_bytes" or value.decode(errors="replace").encode() != value)
    assert not is_base64 or base64.b64decode(text["b64"]) == value
    assert with_texts({"n": arrays["n"]})["n"] is arrays["n"]


def test_the_size_of_strings_is_that_of_their_letters() -> None:
    """A long answer is written by a thread, in pieces, however few its strings are."""
    array = string_array([b"a" * 1000, b"\xff" * 900], (2,))
    assert size_of(array) == 1900 + 16
    assert size_of(with_texts({"x": array})["x"]) == 1000 + 1200 + 16
    assert size_of(np.zeros(3)) == 24
    texts = string_array([b"a" * 40_000] * 3, (3,))
    for columns in ([texts], [texts, np.arange(3)]):
        arrays = [*with_texts({str(at): column for at, column in enumerate(columns)}).values()]
        rows = write_rows(arrays, lambda part: [*zip(*part, strict=True)])
        assert len(json.loads(rows)) == 3


def test_bytes_that_are_no_text_are_asked_for_as_bytes() -> None:
    array = byte_strings.string_array([b"\xff"], (1,))
    with pytest.raises(BadRequest, match="output 'x' is no text in UTF-8: ask for it as bytes, by binary_data"):
        write_tensors({"x": array}, ())
    rows, _ = write_tensors({"x": string_array(["ä".encode()], (1,))}, ())
    assert rows == [{"name": "x", "datatype": "BYTES", "shape": (1,), "data": ["ä"]}]
