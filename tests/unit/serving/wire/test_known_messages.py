"""A message that the cache reads equals the one that the parser reads, for generated messages and for broken ones."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError

from transload.models.errors import TransloadError
from transload.models.signature import Array
from transload.serving.wire import known_messages, oip_messages
from transload.serving.wire.known_messages import KnownMessages, infer_places, predict_places
from transload.serving.wire.oip_tensors import add_tensor, parse_request, read_tensors
from transload.serving.wire.tensor_proto import decode_all, encode, parse
from transload.serving.wire.tfserving_messages import stock

DTYPES = ["float32", "int64", "bool", "float16", "uint8"]


def random_arrays(random: Random) -> dict[str, Array]:
    values = np.random.default_rng(random.randint(0, 99))
    shapes = [(), (0,), (1, 3), (2,), (40, 4)]
    return {
        name: values.integers(0, 2, random.choice(shapes)).astype(random.choice(DTYPES))
        for name in random.sample(["x", "y", "a long name of a tensor"], random.randint(0, 3))
    }


def predict_request(random: Random) -> bytes:
    request = stock().PredictRequest()
    request.model_spec.name = random.choice(["m", "n"])
    request.output_filter.extend(random.choice([[], ["y"]]))
    for name, array in random_arrays(random).items():
        if random.random() < 0.1 and array.dtype == np.float32:
            request.inputs[name].dtype = 1
            request.inputs[name].float_val.extend(array.ravel().tolist())
        else:
            encode(array, request.inputs[name])
    data: bytes = request.SerializeToString()
    return data


def infer_request(random: Random) -> bytes:
    request = oip_messages.messages().ModelInferRequest(model_name="m", id=random.choice(["", "7"]))
    for name, array in random_arrays(random).items():
        add_tensor(name, array, request.inputs, request.raw_input_contents)
    data: bytes = request.SerializeToString()
    return data


def read_predict(data: bytes) -> tuple[Any, dict[str, Array]]:
    request = parse(data, "PredictRequest")
    arrays = decode_all(request.inputs)
    request.ClearField("inputs")
    return request, arrays


def read_infer(data: bytes) -> tuple[Any, dict[str, Array]]:
    request, raw = parse_request(data)
    arrays = read_tensors(request.inputs, raw, 1 << 20)
    for field in ("inputs", "raw_input_contents"):
        request.ClearField(field)
    return request, arrays


def changed(random: Random, data: bytes) -> bytes:
    """Return a message with some other bytes, or twice: protobuf then merges both."""
    if random.random() < 0.1:
        return data + data
    mutable = bytearray(data)
    for _ in range(random.choice([0, 1, 1, 2])):
        if mutable:
            mutable[random.randrange(len(mutable))] = random.choice([0, 1, 2, 10, random.randrange(256)])
    return bytes(mutable)


@pytest.mark.parametrize(
    ("make", "read", "find_places"),
    [(predict_request, read_predict, predict_places), (infer_request, read_infer, infer_places)],
    ids=["predict", "infer"],
)
def test_a_message_that_is_known_says_what_parsing_it_says(
    make: Callable[[Random], bytes],
    read: Callable[[bytes], tuple[Any, dict[str, Array]]],
    find_places: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known_messages, "_TURN", 1)
    known: KnownMessages[Any] = KnownMessages(find_places)
    random = Random(7)  # noqa: S311
    hits = 0
    for _ in range(300):
        data = make(random)
        for message in [data, *(changed(random, data) for _ in range(20))]:
            found = known.read(message)
            try:
                request, arrays = read(message)
            except (TransloadError, DecodeError):
                assert found is None, message
                continue
            if found is None:
                known.add(message, request, arrays)
                continue
            hits += 1
            assert found[0] == request
            assert found[1].keys() == arrays.keys()
            for name, array in arrays.items():
                assert found[1][name].dtype == array.dtype
                assert found[1][name].shape == array.shape
                assert found[1][name].tobytes() == array.tobytes()
                assert found[1][name].flags.aligned
    assert hits > 1000


def test_known_messages_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_messages, "_TURN", 1)
    known: KnownMessages[Any] = KnownMessages(infer_places)
    for at in range(200):
        request = oip_messages.messages().ModelInferRequest(model_name="m", id=f"{at}")
        add_tensor("x", np.zeros(2, np.float32), request.inputs, request.raw_input_contents)
        data = request.SerializeToString()
        known.add(data, *read_infer(data))
    assert 0 < len(known._known) <= 64
    request = oip_messages.messages().ModelInferRequest(model_name="m" * 5000)
    data = request.SerializeToString()
    known.add(data, *read_infer(data))
    assert known.read(data) is None


def field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def varint(number: int, value: bytes) -> bytes:
    return bytes([number << 3, *(byte | 0x80 for byte in value[1:]), 0])


TENSOR = b"\x08\x01" + field(2, field(2, b"\x08\x01"))  # float32, of one element


@pytest.mark.parametrize(
    "request_of",
    [
        lambda value: (
            field(2, field(1, b"x") + field(2, TENSOR + field(4, value))) + field(2, field(1, b"x") + field(2, TENSOR))
        ),
        lambda value: field(2, field(1, b"x") + field(2, TENSOR + field(4, value) + b"\xa2\x00\x04" + bytes(4))),
        lambda value: field(2, field(1, b"x") + field(2, TENSOR + field(5, bytes(4)) + varint(4, value))),
        lambda value: field(2, field(1, b"y") + field(1, b"x") + field(2, TENSOR + field(4, value))),
        lambda value: field(2, field(1, b"x") + field(2, TENSOR + field(4, value)) + field(2, TENSOR)),
    ],
    ids=["input-twice", "long-tag", "no-bytes", "key-twice", "value-twice"],
)
def test_messages_that_only_protobuf_understands_are_left_to_it(
    request_of: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_messages, "_TURN", 1)
    known: KnownMessages[Any] = KnownMessages(predict_places)
    known.add(request_of(bytes(4)), *read_predict(request_of(bytes(4))))
    message = request_of(np.float32(1).tobytes())
    found = known.read(message)
    assert found is None or found == read_predict(message)
