"""A served model's inputs and outputs, asked by its URL."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from transload.models.errors import BadRequest, SessionLost
from transload.models.job import Job
from transload.serving.clients import model_metadata
from transload.serving.clients.model_metadata import DeclaredModel, DeclaredTensor
from transload.serving.clients.model_url import ModelUrl, ServedName, is_model_url, parse_model_url

URLS = {
    "tfserving-rest": "http://{rest}/v1/models/{name}",
    "tfserving-grpc": "grpc://{grpc}/v1/models/{name}",
    "oip-http": "http://{rest}/v2/models/{name}",
    "oip-grpc": "grpc://{grpc}/v2/models/{name}",
}
NAMES = ("m", "m/versions/1")


def describe(text: str) -> DeclaredModel:
    return DeclaredModel.from_json(model_metadata.describe(Job({}, Path(), parse_model_url(text).to_json())))


@pytest.fixture
def replying() -> Iterator[Callable[[bytes], str]]:
    """A server that answers everything with one document."""
    servers = []

    def serve(reply: bytes) -> str:
        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: object) -> None: ...

        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever).start()
        servers.append(server)
        return f"127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("runtime", URLS)
def test_names_dtypes_and_sizes_come_from_the_server(runtime: str, name: str, two: Any) -> None:
    text = URLS[runtime].format(**two.addresses, name=name)
    assert parse_model_url(text).runtime == runtime
    declared = describe(text)
    assert {(row.name, row.dtype, row.shape) for row in declared.inputs} == {
        ("b", "float32", (-1, 2)), ("a", "int64", (-1,)),
    }  # fmt: skip
    assert {(row.name, row.dtype, row.shape) for row in declared.outputs} == {
        ("sum", "float32", (-1, 2)), ("kept", "int64", (-1,)),
    }  # fmt: skip


@pytest.mark.parametrize("runtime", URLS)
@pytest.mark.parametrize("name", ["other", "m/versions/7"])
def test_a_model_that_is_not_there(runtime: str, name: str, two: Any) -> None:
    with pytest.raises(BadRequest, match=r"Servable not found for request|Request for unknown model"):
        describe(URLS[runtime].format(**two.addresses, name=name))


@pytest.mark.parametrize("runtime", URLS)
def test_nobody_there(runtime: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    text = URLS[runtime].format(rest=address, grpc=address, name="m")
    with pytest.raises(SessionLost) as caught:
        describe(text)
    assert caught.value.what.startswith(f"{text}: {address} gives no answer")
    assert caught.value.fix == "check host, port and model, and that it is started"


@pytest.mark.parametrize("runtime", URLS)
def test_a_server_that_never_answers(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_metadata, "_TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(SessionLost, match=r"gave no answer within 0.3 s"):
            describe(URLS[runtime].format(rest=address, grpc=address, name="m"))


def test_the_port_of_another_protocol(two: Any) -> None:
    with pytest.raises(SessionLost, match="does not speak HTTP"):
        describe(URLS["oip-http"].format(rest=two.addresses["grpc"], name="m"))
    with pytest.raises(SessionLost, match="gives no answer"):
        describe(URLS["oip-grpc"].format(grpc=two.addresses["rest"], name="m"))


def tfserving(**info: object) -> bytes:
    side = {"x": {"name": "x:0", **info}}
    signatures = {"serving_default": {"inputs": side, "outputs": side}}
    return json.dumps({"metadata": {"signature_def": {"signature_def": signatures}}}).encode()


def test_a_tensor_of_any_rank_has_no_shape(replying: Callable[[bytes], str]) -> None:
    address = replying(tfserving(dtype="DT_HALF", tensor_shape={"unknown_rank": True}))
    (tensor,) = describe(f"http://{address}/v1/models/m").inputs
    assert tensor == DeclaredTensor(name="x", dtype="float16", shape=None)


@pytest.mark.parametrize(
    ("path", "reply", "words"),
    [
        (
            "v1/models/m",
            tfserving(dtype="DT_STRING"),
            "has x as the TensorFlow type 7, which no format here carries",
        ),
        (
            "v2/models/m",
            b'{"inputs": [{"name": "x", "datatype": "BYTES", "shape": [-1]}], "outputs": []}',
            "has x as BYTES, which no format here carries",
        ),
        (
            "v1/models/m",
            b'{"metadata": {"signature_def": {"signature_def": {"train": {}}}}}',
            "has no signature serving_default; it has train",
        ),
        ("v1/models/m", b'{"metadata": 3}', "answers with no metadata"),
        ("v1/models/m", b"<html>", "answers with no JSON"),
        ("v2/models/m", b"[]", "answers with no metadata"),
        ("v2/models/m", b'{"inputs": [{"name": "x"}], "outputs": []}', "answers with no metadata"),
    ],
)
def test_what_no_session_could_ask(path: str, reply: bytes, words: str, replying: Callable[[bytes], str]) -> None:
    with pytest.raises((BadRequest, SessionLost), match=words):
        describe(f"http://{replying(reply)}/{path}")


@pytest.mark.parametrize(
    ("text", "runtime", "address", "host", "model"),
    [
        ("http://h:8501/v1/models/m", "tfserving-rest", "h:8501", "h", "m"),
        ("HTTP://h/v2/models/m/", "oip-http", "h:80", "h", "m"),
        ("https://h/v2/models/m.x/versions/12", "oip-http", "https://h:443", "h", "m.x/versions/12"),
        ("grpc://[::1]:8500/v1/models/m/labels/stable", "tfserving-grpc", "[::1]:8500", "::1", "m/labels/stable"),
        ("grpcs://h.example:443/v2/models/m", "oip-grpc", "grpcs://h.example:443", "h.example", "m"),
    ],
)
def test_a_url_says_protocol_server_and_model(text: str, runtime: str, address: str, host: str, model: str) -> None:
    url = parse_model_url(text)
    assert (url.runtime, url.address, url.host, url.model) == (runtime, address, host, model)
    assert ModelUrl.from_json(url.to_json()) == url


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("http://h:8501/v1/models/m:predict", "http://h:8501/v1/models/m:predict is not the URL of a served model"),
        ("http://h:8501", "http://h:8501 is not the URL of a served model"),
        ("http://u:p@h:8501/v1/models/m", "http://u:p@h:8501/v1/models/m is not the URL of a served model"),
        ("http://h/v2/models/m/labels/l", "http://h/v2/models/m/labels/l: the Open Inference Protocol has no labels"),
        ("grpc://h/v1/models/m", "grpc://h/v1/models/m names no port"),
    ],
)
def test_other_urls_are_refused(text: str, what: str) -> None:
    assert is_model_url(text)
    with pytest.raises(BadRequest) as caught:
        parse_model_url(text)
    assert caught.value.what == what


def test_paths_are_no_urls() -> None:
    assert not any(map(is_model_url, ("made/onnx", "zoo:digits-cnn", "net.py:Net", "http/m.onnx")))


def test_a_name_has_a_version_or_a_label() -> None:
    assert ServedName.parse("m") == ServedName("m")
    assert ServedName.parse("m/versions/3") == ServedName("m", version="3")
    assert ServedName.parse("m/labels/stable") == ServedName("m", label="stable")
