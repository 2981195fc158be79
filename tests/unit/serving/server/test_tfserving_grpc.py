"""TF Serving's gRPC API: what is answered, and every refusal by code and by its whole text."""

from __future__ import annotations

import gc
import http.client
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from transload.models.errors import BadRequest
from transload.serving.server.repository import served_version
from transload.serving.server.repository.model_repository import hold_session
from transload.serving.server.serving_error import ServingError
from transload.serving.server.tfserving_grpc import GrpcServer
from transload.serving.wire.tensor_proto import decode_all, encode
from transload.serving.wire.tfserving_messages import stock

PREDICTION, MODEL = "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"


class Client:
    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        ask = self._channel.unary_unary
        messages = stock()
        self.predict_bytes = ask(f"/{PREDICTION}/Predict", None, messages.PredictResponse.FromString)
        self._metadata = ask(f"/{PREDICTION}/GetModelMetadata", None, messages.GetModelMetadataResponse.FromString)
        self._status = ask(f"/{MODEL}/GetModelStatus", None, messages.GetModelStatusResponse.FromString)

    def predict(self, request: Any) -> Any:
        return self.predict_bytes(request.SerializeToString(), timeout=60)

    def metadata(self, request: Any) -> Any:
        return self._metadata(request.SerializeToString(), timeout=60)

    def status(self, request: Any) -> Any:
        return self._status.with_call(request.SerializeToString(), timeout=60)

    def close(self) -> None:
        self._channel.close()


@pytest.fixture
def client(two: Any) -> Iterator[Client]:
    found = Client(two.addresses["grpc"])
    yield found
    found.close()


def request(**changed: Any) -> Any:
    made = stock().PredictRequest()
    made.model_spec.name = "m"
    feeds = {"b": np.array([[1, 2], [3, 4]], np.float32), "a": np.array([10, 20], np.int64), **changed}
    for name, value in feeds.items():
        if value is not None:
            encode(value, made.inputs[name])
    return made


def test_predict_answers_with_the_model_that_answered(client: Client) -> None:
    reply = client.predict(request())
    got = decode_all(reply.outputs)
    np.testing.assert_array_equal(got["sum"], np.array([[11, 12], [23, 24]], np.float32))
    np.testing.assert_array_equal(got["kept"], np.array([10, 20], np.int64))
    spec = reply.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("m", 1, "serving_default")


def test_the_output_filter_chooses(client: Client) -> None:
    asked = request()
    asked.output_filter.append("kept")
    assert list(client.predict(asked).outputs) == ["kept"]


def test_version_1_and_the_default_signature_can_be_named(client: Client) -> None:
    asked = request()
    asked.model_spec.version.value = 1
    asked.model_spec.signature_name = "serving_default"
    assert len(client.predict(asked).outputs) == 2


def changed(act: Callable[[Any], object]) -> Any:
    made = request()
    act(made)
    return made


REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "no model spec": (lambda: stock().PredictRequest(), "INVALID_ARGUMENT", "Missing ModelSpec"),
    "another model": (
        lambda: changed(lambda r: setattr(r.model_spec, "name", "other")),
        "NOT_FOUND",
        "Servable not found for request: Latest(other)",
    ),
    "another version": (
        lambda: changed(lambda r: setattr(r.model_spec.version, "value", 7)),
        "NOT_FOUND",
        "Servable not found for request: Specific(m, 7)",
    ),
    "a label": (
        lambda: changed(lambda r: setattr(r.model_spec, "version_label", "canary")),
        "INVALID_ARGUMENT",
        "Unrecognized servable version label: canary",
    ),
    "another signature": (
        lambda: changed(lambda r: setattr(r.model_spec, "signature_name", "train")),
        "FAILED_PRECONDITION",
        'Serving signature key "train" not found.',
    ),
    "an input missing": (
        lambda: request(a=None),
        "INVALID_ARGUMENT",
        "input size does not match signature: 1!=2 len({b}) != len({a,b}). Sent extra: {}. Missing but required: {a}.",
    ),
    "an input too many": (
        lambda: request(z=np.zeros(1)),
        "INVALID_ARGUMENT",
        "input size does not match signature: 3!=2 len({a,b,z}) != len({a,b}). "
        "Sent extra: {z}. Missing but required: {}.",
    ),
    "an input by another name": (
        lambda: request(a=None, z=np.zeros(1)),
        "INVALID_ARGUMENT",
        "Signature input alias: a(feed name: serving_default_a:0) not found in request and no default value provided. "
        "Inputs expected to be in the request {b,z}, or default input alias set: ",
    ),
    "another dtype": (
        lambda: request(b=np.zeros((2, 2))),
        "INVALID_ARGUMENT",
        "input b=float32[batch,2] got float64[2,2]",
    ),
    "another rank": (
        lambda: request(b=np.zeros(2, np.float32)),
        "INVALID_ARGUMENT",
        "input b=float32[batch,2] got the shape [2]",
    ),
    "another size": (
        lambda: request(b=np.zeros((2, 3), np.float32)),
        "INVALID_ARGUMENT",
        "input b=float32[batch,2] got the shape [2,3]",
    ),
    "two batches": (
        lambda: request(a=np.zeros(3, np.int64)),
        "INVALID_ARGUMENT",
        "input a=int64[batch] has batch=3 where another input has 2",
    ),
    "a tensor that does not add up": (
        lambda: changed(lambda r: setattr(r.inputs["b"], "tensor_content", b"123")),
        "INVALID_ARGUMENT",
        "tensor parsing error: b: 3 bytes are not [2, 2] of float",
    ),
    "an output that is not there": (
        lambda: changed(lambda r: r.output_filter.append("logits")),
        "INVALID_ARGUMENT",
        "output tensor alias not found in signature: logits Outputs expected to be in the set {kept,sum}.",
    ),
    "an output twice": (
        lambda: changed(lambda r: r.output_filter.extend(["sum", "sum"])),
        "INVALID_ARGUMENT",
        "duplicate output tensor alias: sum",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_has_tf_servings_code_and_words_and_the_session_never_saw_it(
    case: str, two: Any, client: Client
) -> None:
    make, code, words = REFUSED[case]
    with pytest.raises(grpc.RpcError) as caught:
        client.predict(make())
    assert (caught.value.code().name, caught.value.details()) == (code, words)
    assert two.session.runs == 0
    client.predict(request())


@pytest.mark.parametrize("height", [33, 160])
def test_a_size_beside_the_steps_is_refused(steps: Any, height: int) -> None:
    client = Client(steps.addresses["grpc"])
    with pytest.raises(grpc.RpcError) as refused:
        client.predict(request(b=None, a=None, x=np.zeros((2, height), np.float32)))
    client.close()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == f"the axis height has the size {height}, and the model takes 32..128:32"
    assert steps.session.runs == 0


def test_bytes_that_are_no_request_are_refused(client: Client) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.predict_bytes(b"\xff\xff\xff", timeout=60)
    assert caught.value.code().name == "INVALID_ARGUMENT"
    assert caught.value.details().startswith("the request is no PredictRequest: ")


def test_garbage_to_status_and_metadata_is_refused(two: Any) -> None:
    with grpc.insecure_channel(two.addresses["grpc"]) as channel:
        for service, method in ((MODEL, "GetModelStatus"), (PREDICTION, "GetModelMetadata")):
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(f"/{service}/{method}")(b"\xff\xff\xff", timeout=60)
            assert caught.value.code().name == "INVALID_ARGUMENT"
            assert caught.value.details().startswith(f"the request is no {method}Request: ")


@pytest.mark.parametrize("batch", [1 << 24, 1 << 60])
def test_a_few_bytes_do_not_unfold_into_much_memory(batch: int, two: Any, client: Client) -> None:
    """TensorFlow ends by a signal where memory is lacking: what a shape claims is refused before it is allocated."""
    asked = request()
    bomb = asked.inputs["b"]
    bomb.Clear()
    bomb.dtype = 1
    bomb.float_val.append(1)
    for size in (batch, 2):
        bomb.tensor_shape.dim.add(size=size)
    with pytest.raises(grpc.RpcError) as caught:
        client.predict(asked)
    assert (caught.value.code().name, caught.value.details()) == (
        "RESOURCE_EXHAUSTED",
        f"tensor parsing error: b: it has 1 values for {2 * batch} elements, and is not filled up beyond "
        "67108864 bytes",
    )
    assert two.session.runs == 0


def serve_with_limit(session: Any, max_body_bytes: int) -> tuple[str, Any]:
    server = GrpcServer(hold_session("m", session, max_body_bytes=max_body_bytes), "127.0.0.1", 0)
    return f"127.0.0.1:{server.port}", server


def test_a_message_beyond_the_limit_is_refused_before_it_is_parsed(two: Any) -> None:
    address, server = serve_with_limit(two.session, 1000)
    client = Client(address)
    client.predict(request())
    with pytest.raises(grpc.RpcError) as caught:
        client.predict(request(b=np.zeros((1000, 2), np.float32)))
    assert caught.value.code().name == "RESOURCE_EXHAUSTED"
    client.close()
    server.stop(0)


def test_an_address_of_ipv6_is_listened_on(two: Any) -> None:
    server = GrpcServer(hold_session("m", two.session), "::1", 0)
    client = Client(f"[::1]:{server.port}")
    client.predict(request())
    client.close()
    server.stop(0)


def test_too_many_waiting_requests_are_refused_and_status_still_answers(
    two: Any, in_thread: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_version, "MOST_WAITING", 3)
    address, server = serve_with_limit(two.session, 1 << 20)
    client = Client(address)
    go = threading.Event()
    two.session.act = lambda: go.wait(60)
    replies: list[Any] = []
    refusals: list[str] = []

    def ask() -> None:
        try:
            replies.append(client.predict(request()))
        except grpc.RpcError as error:
            refusals.append(f"{error.code().name}: {error.details()}")

    for _ in range(5):
        in_thread(ask)
    until(lambda: len(refusals) == 2)
    asked = stock().GetModelStatusRequest()
    asked.model_spec.name = "m"
    client.status(asked)
    go.set()
    until(lambda: len(replies) == 3)
    assert refusals == ["RESOURCE_EXHAUSTED: 3 requests wait for the model m"] * 2
    client.close()
    server.stop(0)


def failing(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def test_values_that_the_runtime_refuses_are_the_requests_fault(two: Any, client: Client) -> None:
    two.session.act = failing(IndexError("index 99 is out of range"))
    with pytest.raises(grpc.RpcError) as caught:
        client.predict(request())
    assert caught.value.code().name == "INVALID_ARGUMENT"
    assert caught.value.details() == "numpy refuses these values: index 99 is out of range"


def test_a_runtime_that_fails_is_an_internal_error_and_the_server_goes_on(two: Any, client: Client) -> None:
    two.session.act = failing(RuntimeError("boom"))
    with pytest.raises(grpc.RpcError) as caught:
        client.predict(request())
    assert caught.value.code().name == "INTERNAL"
    assert caught.value.details() == "numpy gave no answer to inputs that fit the signature: boom"
    two.session.act = lambda: None
    client.predict(request())


def test_status_is_available_and_says_where_the_model_runs(client: Client) -> None:
    asked = stock().GetModelStatusRequest()
    asked.model_spec.name = "m"
    reply, call = client.status(asked)
    row = reply.model_version_status[0]
    assert (row.version, row.state, row.status.error_code, row.status.error_message) == (1, 30, 0, "")
    assert ("x-transload-device", "cuda:3") in call.trailing_metadata()


@pytest.mark.parametrize(
    ("name", "version", "words"),
    [("other", None, "Could not find any versions of model other"), ("m", 3, "Could not find version 3 of model m")],
)
def test_the_status_of_something_else_is_not_found(client: Client, name: str, version: int | None, words: str) -> None:
    asked = stock().GetModelStatusRequest()
    asked.model_spec.name = name
    if version:
        asked.model_spec.version.value = version
    with pytest.raises(grpc.RpcError) as caught:
        client.status(asked)
    assert (caught.value.code().name, caught.value.details()) == ("NOT_FOUND", words)


def test_metadata_carries_the_signature(client: Client) -> None:
    asked = stock().GetModelMetadataRequest(metadata_field=["signature_def"])
    asked.model_spec.name = "m"
    reply = client.metadata(asked)
    found = stock().SignatureDefMap()
    assert reply.metadata["signature_def"].Unpack(found)
    made = found.signature_def["serving_default"]
    assert made.method_name == "tensorflow/serving/predict"
    assert {name: (info.dtype, [dim.size for dim in info.tensor_shape.dim]) for name, info in made.inputs.items()} == {
        "b": (1, [-1, 2]),
        "a": (9, [-1]),
    }
    assert sorted(made.outputs) == ["kept", "sum"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([], "GetModelMetadataRequest must specify at least one metadata_field"),
        (["graph"], "Metadata field graph is not supported"),
    ],
)
def test_other_metadata_is_refused(client: Client, fields: list[str], words: str) -> None:
    asked = stock().GetModelMetadataRequest(metadata_field=fields)
    asked.model_spec.name = "m"
    with pytest.raises(grpc.RpcError) as caught:
        client.metadata(asked)
    assert (caught.value.code().name, caught.value.details()) == ("INVALID_ARGUMENT", words)


def test_one_request_at_a_time_is_in_the_session(two: Any, client: Client, in_thread: Any, until: Any) -> None:
    go = threading.Event()
    two.session.act = lambda: go.wait(60)
    replies: list[Any] = []
    for _ in range(3):
        in_thread(lambda: replies.append(client.predict(request())))
    until(lambda: two.session.inside == 1)
    asked = stock().GetModelStatusRequest()
    asked.model_spec.name = "m"
    client.status(asked)  # answers while three requests wait
    go.set()
    until(lambda: len(replies) == 3)
    assert (two.session.runs, two.session.most_inside) == (3, 1)


def test_what_does_not_fit_is_refused_while_another_request_is_in_the_model(
    two: Any, client: Client, in_thread: Any, until: Any
) -> None:
    go = threading.Event()
    two.session.act = lambda: go.wait(60)
    in_thread(lambda: client.predict(request()))
    until(lambda: two.session.inside == 1)
    with pytest.raises(grpc.RpcError) as caught:
        client.predict(request(b=np.zeros((2, 2))))
    assert caught.value.details() == "input b=float32[batch,2] got float64[2,2]"
    assert two.session.inside == 1
    go.set()


def test_closing_answers_what_is_under_way_and_lets_go_of_the_session(
    two: Any, client: Client, in_thread: Any, until: Any
) -> None:
    go = threading.Event()
    two.session.act = lambda: go.wait(60)
    replies: list[Any] = []
    in_thread(lambda: replies.append(client.predict(request())))
    until(lambda: two.session.inside == 1)
    closing = in_thread(two.server.close)
    go.set()
    closing.join(60)
    until(lambda: replies)
    assert len(replies[0].outputs) == 2
    assert two.session.released
    two.server.close()
    with pytest.raises(grpc.RpcError) as caught:
        client.predict(request())
    assert caught.value.code().name == "UNAVAILABLE"


def test_a_port_that_is_taken_is_refused(two: Any) -> None:
    port = int(two.addresses["grpc"].rpartition(":")[2])
    with pytest.raises(BadRequest) as caught:
        GrpcServer(hold_session("m", two.session), "127.0.0.1", port)
    assert str(caught.value) == f"nothing can listen on 127.0.0.1:{port}\n  fix: name another port, or 0"


def test_a_request_of_many_megabytes_goes_through(two: Any, client: Client) -> None:
    many = 1 << 20
    asked = request(b=np.ones((many, 2), np.float32), a=np.zeros(many, np.int64))
    channel = grpc.insecure_channel(
        two.addresses["grpc"],
        options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)],
    )
    with channel:
        ask = channel.unary_unary(f"/{PREDICTION}/Predict", None, stock().PredictResponse.FromString)
        assert decode_all(ask(asked.SerializeToString(), timeout=60).outputs)["sum"].shape == (many, 2)


def test_a_refused_request_leaves_no_garbage(two: Any, client: Client, until: Any) -> None:
    link = http.client.HTTPConnection(two.addresses["rest"], timeout=60)
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(grpc.RpcError):
            client.predict(stock().PredictRequest())
        link.request("POST", "/v1/models/other:predict", b"{}")
        assert link.getresponse().read()
        until(lambda: not [entry for entry in gc.get_objects() if type(entry) is ServingError])
    finally:
        gc.enable()
        link.close()
