"""Models with strings over every protocol, their session behind a channel; signatures and time limits that requests
of the Open Inference Protocol name."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
import numpy as np
import pytest

from transload.models.signature import Array, Signature, TensorSpec
from transload.serving.checked_session import CheckedSession
from transload.serving.server.embedded import EmbeddedServer, listen
from transload.serving.server.repository.model_repository import Repository
from transload.serving.server.repository.served_version import OpenedSession
from transload.serving.server.repository.session_channel import ChannelSession, SessionHost
from transload.serving.wire.byte_strings import raw_bytes, string_array
from transload.serving.wire.oip_json import LENGTH_HEADER
from transload.serving.wire.oip_messages import messages, unread
from transload.serving.wire.oip_tensors import add_tensor, read_tensors
from transload.serving.wire.tensor_proto import decode, encode
from transload.serving.wire.tfserving_messages import stock


def spec(name: str, dtype: str, *shape: Any) -> TensorSpec:
    return TensorSpec(name, dtype, shape)


TEXT = Signature(
    (spec("text", "object", "batch"),), (spec("upper", "object", "batch"), spec("length", "int64", "batch"))
)
CLASSES = Signature(
    (spec("inputs", "object", "batch"),), (spec("classes", "object", "batch", 2), spec("scores", "float32", "batch", 2))
)
LABELS = Signature(CLASSES.inputs, CLASSES.outputs[:1])
FEATURES = Signature(
    (spec("word", "object", "batch", 1), spec("x", "float32", "batch", 2)), (spec("y", "float32", "batch"),)
)


class TextSession(CheckedSession):
    """Answers each of the signatures above; waits where a test says so."""

    def __init__(self, signature: Signature) -> None:
        super().__init__("text", signature, "cpu")
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.parsed = threading.get_ident()

    def _answer(self, values: Sequence[Array]) -> list[Array]:
        self.may_go_on.wait(60)
        if self.signature is TEXT:
            return [string_array([text.upper() for text in values[0]], values[0].shape),
                    np.array([len(text) for text in values[0]], np.int64)]  # fmt: skip
        if self.signature is FEATURES:
            return [np.array([len(word) for (word,) in values[0]], np.float32) + values[1].sum(axis=1)]
        examples = [stock().Example.FromString(data).features.feature for data in values[0]]
        scores = np.array([one["x"].float_list.value for one in examples], np.float32)
        names = [name for one in examples for name in (b"no", bytes(one["label"].bytes_list.value[0]))]
        return [string_array(names, (len(examples), 2)), scores][: len(self.signature.outputs)]

    def _release(self) -> None:
        self.may_go_on.set()


@dataclass
class Strings:
    sessions: dict[str, TextSession]
    server: EmbeddedServer
    repository: Repository
    addresses: dict[str, str] = field(default_factory=dict)

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.addresses['rest']}{path}", data, headers or {})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                content = reply.read()
                length = reply.headers.get(LENGTH_HEADER)
                return 200, json.loads(content) if length is None else (json.loads(content[: int(length)]), content)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def call(self, method: str, request: Any, reply: Any) -> Any:
        with grpc.insecure_channel(self.addresses["grpc"]) as channel:
            return channel.unary_unary(method, None, reply.FromString)(request.SerializeToString(), timeout=60)


@pytest.fixture(params=["in process", "channel"])
def served(request: pytest.FixtureRequest) -> Iterator[Strings]:
    signatures = {"serving_default": TEXT, "classes": CLASSES, "labels": LABELS, "features": FEATURES}
    sessions = {name: TextSession(signature) for name, signature in signatures.items()}
    first, *others = sessions.values()
    names = list(sessions)[1:]
    repository = Repository()
    with ExitStack() as closing:
        opened = OpenedSession(first, "text", other_sessions=dict(zip(names, others, strict=True)))
        if request.param == "channel":
            line, theirs = socket.socketpair()
            closing.callback(SessionHost(first, theirs, opened.other_sessions).close)
            channels = [
                ChannelSession(line, session.signature, "cpu", "text", 60, threading.Event(), number)
                for number, session in enumerate(sessions.values())
            ]
            further = dict(zip(names, channels[1:], strict=True))
            opened = OpenedSession(channels[0], "text", channel=channels[0], other_sessions=further)
        repository.add_opened("m", opened)
        server = listen(repository, "127.0.0.1", 0, 0)
        closing.callback(server.close)
        yield Strings(sessions, server, repository, server.addresses())
        for session in sessions.values():
            session.may_go_on.set()


def test_text_is_answered_over_tf_servings_api(served: Strings) -> None:
    predict = "/v1/models/m:predict"
    rows = [{"upper": "A", "length": 1}, {"upper": {"b64": "/w=="}, "length": 1}]
    assert served.post(predict, {"instances": ["a", {"b64": "/w"}]}) == (200, {"predictions": rows})
    assert served.post(predict, {"inputs": ["ä" * 200_000]})[1]["outputs"]["length"] == [400_000]  # is read elsewhere
    assert served.post(predict, {"inputs": [1]})[0] == 400
    request = stock().PredictRequest()
    request.model_spec.name = "m"
    encode(string_array([b"a\0", b""], (2,)), request.inputs["text"])
    reply = served.call("/tensorflow.serving.PredictionService/Predict", request, stock().PredictResponse)
    assert decode(reply.outputs["upper"], "upper").tolist() == [b"A\0", b""]
    assert served.repository.find("m").signatures["classes"].signature.inputs[0].dtype == "object"


def infer(data: Any, parameters: Any = None, name: str = "text") -> dict[str, Any]:
    tensor = {"name": name, "datatype": "BYTES", "shape": [len(data)], "data": data}
    return {"inputs": [tensor], **({"parameters": parameters} if parameters else {})}


def test_text_is_answered_over_the_open_inference_protocol(served: Strings) -> None:
    path = "/v2/models/m/infer"
    status, document = served.post(path, infer(["a", "ä"]))
    assert status == 200
    assert [row["data"] for row in document["outputs"]] == [["A", "ä"], [1, 2]]
    words = string_array([b"a", b"\xff"], (2,))
    raw = raw_bytes(words)
    head = json.dumps({"inputs": [{"name": "text", "datatype": "BYTES", "shape": [2],
                                   "parameters": {"binary_data_size": len(raw)}}],
                       "parameters": {"binary_data_output": True}}).encode()  # fmt: skip
    status, (document, content) = served.post(path, head + raw, {LENGTH_HEADER: str(len(head))})
    assert document["outputs"][0] == {
        "name": "upper", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": 10},
    }  # fmt: skip
    assert content[-26:-16] == b"\1\0\0\0A\1\0\0\0\xff"
    assert "ask for it as bytes" in served.post(path, head.replace(b"true", b"false") + raw, {
        LENGTH_HEADER: str(len(head) + 1),
    })[1]["error"]  # fmt: skip
    request = messages().ModelInferRequest(model_name="m")
    add_tensor("text", words, request.inputs, request.raw_input_contents)
    reply = served.call("/inference.GRPCInferenceService/ModelInfer", request, unread().ModelInferResponse)
    answers = read_tensors(reply.outputs, reply.raw_output_contents, 1 << 20)
    assert answers["upper"].tolist() == [b"A", b"\xff"]
    about = messages().ModelMetadataRequest(name="m")
    reply = served.call("/inference.GRPCInferenceService/ModelMetadata", about, messages().ModelMetadataResponse)
    assert [row.datatype for row in (*reply.inputs, *reply.outputs)] == ["BYTES", "BYTES", "INT64"]
    config = messages().ModelConfigRequest(name="m")
    reply = served.call("/inference.GRPCInferenceService/ModelConfig", config, messages().ModelConfigResponse)
    assert reply.config.input[0].data_type == 13  # TYPE_STRING, which the protocol calls BYTES elsewhere


def test_examples_are_handed_to_a_model_that_reads_them(served: Strings) -> None:
    rows = [{"x": [1.0, 2.0], "label": "yes"}, {"x": [3.0, 0.5], "label": {"b64": "/w=="}, "empty": []}]
    body = {"signature_name": "classes", "examples": rows}
    results = [[["no", 1.0], ["yes", 2.0]], [["no", 3.0], ["\N{REPLACEMENT CHARACTER}", 0.5]]]
    assert served.post("/v1/models/m:classify", body) == (200, {"results": results})
    status, document = served.post("/v1/models/m:classify", {**body, "examples": rows * 10_000})  # is read elsewhere
    assert (status, len(document["results"]), document["results"][-1]) == (200, 20_000, results[-1])
    context = {"signature_name": "labels", "context": {"label": "yes"}, "examples": [{"x": [1.0, 2.0]}]}
    assert served.post("/v1/models/m:classify", context) == (200, {"results": [[["no", 0.0], ["yes", 0.0]]]})
    request = stock().ClassificationRequest()
    request.model_spec.name, request.model_spec.signature_name = "m", "classes"
    feature = request.input.example_list.examples.add().features.feature
    feature["x"].float_list.value.extend([1, 2])
    feature["label"].bytes_list.value.append("ä".encode())
    reply = served.call("/tensorflow.serving.PredictionService/Classify", request, stock().ClassificationResponse)
    assert [(item.label, item.score) for item in reply.result.classifications[0].classes] == [("no", 1), ("ä", 2)]


def test_requests_that_differ_in_their_strings_alone_are_told_apart(served: Strings) -> None:
    for at in range(20):
        word = b"%04d" % at  # raw, as many bytes as a pointer to it would be
        predict = stock().PredictRequest()
        predict.model_spec.name = "m"
        encode(string_array([word], (1,)), predict.inputs["text"])
        reply = served.call("/tensorflow.serving.PredictionService/Predict", predict, stock().PredictResponse)
        assert decode(reply.outputs["upper"], "upper").tolist() == [word]
        request = messages().ModelInferRequest(model_name="m")
        add_tensor("text", string_array([word], (1,)), request.inputs, request.raw_input_contents)
        reply = served.call("/inference.GRPCInferenceService/ModelInfer", request, unread().ModelInferResponse)
        answers = read_tensors(reply.outputs, reply.raw_output_contents, 1 << 20)
        assert answers["upper"].tolist() == [word]


@pytest.mark.parametrize("action", ["classify", "predict"])
def test_a_long_body_is_read_in_the_models_process(action: str, served: Strings, monkeypatch: Any) -> None:
    decoders: list[str] = []
    decode_there = ChannelSession.decode

    def decode(channel: ChannelSession, name: str, *arguments: Any) -> Any:
        decoders.append(name)
        return decode_there(channel, name, *arguments)

    monkeypatch.setattr(ChannelSession, "decode", decode)
    long = {"classify": {"signature_name": "classes", "examples": [{"x": [1.0, 2.0], "label": "yes"}] * 10_000},
            "predict": {"instances": ["word"] * 50_000}}[action]  # fmt: skip
    assert served.post(f"/v1/models/m:{action}", long)[0] == 200
    has_process = isinstance(served.repository.find("m")._session, ChannelSession)
    assert decoders == ([{"classify": "examples", "predict": "rows"}[action]] if has_process else [])


def test_a_feature_of_bytes_is_an_input_of_strings(served: Strings) -> None:
    body = {"signature_name": "features", "examples": [{"word": "abc", "x": [1.0, 2.0]}, {"word": "", "x": [0, 1]}]}
    assert served.post("/v1/models/m:regress", body) == (200, {"results": [6.0, 1.0]})
    wrong = {**body, "examples": [{"word": 1, "x": [1.0, 2.0]}]}
    status, document = served.post("/v1/models/m:regress", wrong)
    assert status == 400
    assert "Data type: int64 but expected type: string" in document["error"]


def test_examples_that_take_more_than_a_request_may_are_refused(served: Strings, monkeypatch: Any) -> None:
    """A long context is handed over with each example."""
    monkeypatch.setattr(served.repository, "max_body_bytes", 1 << 20)
    body = {"signature_name": "labels", "context": {"label": "y" * 1000}, "examples": [{"x": 1.0}] * 2000}
    status, document = served.post("/v1/models/m:classify", body)
    assert (status, "each with the context" in document["error"]) == (429, True)
    monkeypatch.setattr("transload.serving.server.examples.example_json._MOST_FEATURES", 10)
    status, document = served.post("/v1/models/m:classify", {**body, "context": {}, "examples": [{"x": 1.0}] * 11})
    assert (status, document["error"]) == (429, "a request has at most 10 features")


def test_a_request_of_the_open_inference_protocol_chooses_its_signature(served: Strings) -> None:
    path, chosen = "/v2/models/m/infer", {"signature_name": "classes"}
    example = stock().Example()
    example.features.feature["x"].float_list.value.extend([2, 0.5])
    example.features.feature["label"].bytes_list.value.append(b"yes")
    data = example.SerializeToString().decode()  # which is text by chance
    status, document = served.post(path, infer([data], chosen, "inputs"))
    assert (status, document["outputs"][0]["data"]) == (200, ["no", "yes"])
    late = json.dumps(infer([data] * 20_000, chosen, "inputs")).encode()  # named at the end of a long body
    status, document = served.post(path, late)
    assert (status, document["outputs"][0]["shape"]) == (200, [20_000, 2])
    assert served.post(path, infer(["a"], {"signature_name": ""}))[0] == 200
    for parameters, words in (
        (
            {"signature_name": "none"},
            "the model 'm' has no signature 'none'; it has serving_default, classes, labels, features",
        ),
        ({"signature_name": 3}, "the parameter signature_name is a string"),
    ):
        assert served.post(path, infer(["a"], parameters)) == (400, {"error": words})
    # The key stands in another place than the parameters: what it seems to choose is not answered.
    inner = {**infer([data], None, "inputs"), "x": {"signature_name": "classes"}}
    assert served.post(path, inner)[0] == 400
    request = messages().ModelInferRequest(model_name="m")
    request.parameters["signature_name"].string_param = "classes"
    serialized = string_array([example.SerializeToString()], (1,))
    add_tensor("inputs", serialized, request.inputs, request.raw_input_contents)
    reply = served.call("/inference.GRPCInferenceService/ModelInfer", request, messages().ModelInferResponse)
    assert [row.name for row in reply.outputs] == ["classes", "scores"]


@pytest.mark.parametrize("timeout", [-1, 0.5, "1", True, 1 << 63])
def test_a_time_limit_that_is_no_count_of_microseconds_is_refused(served: Strings, timeout: Any) -> None:
    status, document = served.post("/v2/models/m/infer", infer(["a"], {"timeout": timeout}))
    assert status == 400
    assert document["error"].startswith("the parameter timeout is a whole number of microseconds, got ")


def test_a_client_waits_no_longer_than_it_says(served: Strings) -> None:
    session, path = served.sessions["serving_default"], "/v2/models/m/infer"
    assert served.post(path, infer(["a"], {"timeout": 60_000_000}))[0] == 200
    assert served.post(path, infer(["a"], {"timeout": 0}))[0] == 200
    session.may_go_on.clear()
    request = messages().ModelInferRequest(model_name="m")
    add_tensor("text", string_array([b"a"], (1,)), request.inputs, request.raw_input_contents)
    ask = partial(served.call, "/inference.GRPCInferenceService/ModelInfer", request, messages().ModelInferResponse)
    holder = threading.Thread(target=ask)
    holder.start()
    time.sleep(0.3)
    late = (504, {"error": "the model m gave no answer before the deadline"})
    start = time.monotonic()
    assert served.post(path, infer(["a"], {"timeout": 200_000})) == late
    request.parameters["timeout"].int64_param = 200_000
    with pytest.raises(grpc.RpcError) as refused:
        ask()
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - start < 10
    session.may_go_on.set()
    holder.join(60)
    status, document = served.post(path, infer(["c"]))  # the late answer went to nobody
    assert (status, document["outputs"][0]["data"]) == (200, ["C"])
