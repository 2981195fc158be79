"""The served runtimes from the caller's side: answers, and every way in which a server can fail them."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from transload.models.errors import BadRequest, SessionLost, SessionOverloaded, SessionTimeout
from transload.models.signature import Array, Signature, TensorSpec
from transload.serving.clients import (
    grpc_link,
    http_link,
    oip_grpc_client,
    oip_http_client,
    tfserving_grpc_client,
    tfserving_rest_client,
)
from transload.serving.clients.replies import check_answers
from transload.serving.session import Session

OPEN: dict[str, Callable[..., Session]] = {
    "grpc": tfserving_grpc_client.open_session,
    "rest": tfserving_rest_client.open_session,
    "oip-grpc": oip_grpc_client.open_session,
    "oip-http": oip_http_client.open_session,
}
SERVICE = {"grpc": "grpc", "rest": "rest", "oip-grpc": "grpc", "oip-http": "rest"}
FEEDS: dict[str, Array] = {"b": np.array([[1, 2]], np.float32), "a": np.array([10], np.int64)}


@pytest.fixture(params=OPEN)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(protocol: str, two: Any) -> Iterator[Session]:
    found = OPEN[protocol](two.addresses[SERVICE[protocol]], "m", two.session.signature, 5)
    yield found
    found.close()


def test_it_answers_and_says_where_the_embedded_server_runs(session: Session) -> None:
    got = session.run(FEEDS)
    assert list(got) == ["sum", "kept"]
    np.testing.assert_array_equal(got["sum"], np.array([[11, 12]], np.float32))
    np.testing.assert_array_equal(got["kept"], np.array([10], np.int64))
    assert session.device == "cuda:3"


def test_a_single_output_that_has_no_name_in_json(protocol: str, one: Any) -> None:
    session = OPEN[protocol](one.addresses[SERVICE[protocol]], "m", one.session.signature)
    np.testing.assert_array_equal(
        session.run({"x": np.array([[1, 2]], np.float32)})["y"], np.array([[2, 4]], np.float32)
    )
    session.close()


def test_a_model_that_is_not_there(protocol: str, two: Any) -> None:
    with pytest.raises(
        BadRequest, match=r"Could not find any versions of model other|Request for unknown model: 'other' is not found"
    ):
        OPEN[protocol](two.addresses[SERVICE[protocol]], "other", two.session.signature)


def test_nobody_there(protocol: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(SessionLost, match=rf"127.0.0.1:{port} gives no answer"):
        OPEN[protocol](
            f"127.0.0.1:{port}", "m", Signature((TensorSpec("x", "bool", ()),), (TensorSpec("y", "bool", ()),))
        )


def test_a_server_that_never_answers(protocol: str) -> None:
    signature = Signature((TensorSpec("x", "bool", ()),), (TensorSpec("y", "bool", ()),))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(SessionTimeout, match=r"gave no answer within 0.3 s"):
            OPEN[protocol](address, "m", signature, 0.3)


def test_a_model_that_never_answers_and_then_does(protocol: str, two: Any) -> None:
    """The late answer must not be taken for the next one."""
    session = OPEN[protocol](two.addresses[SERVICE[protocol]], "m", two.session.signature, 0.5)
    go = threading.Event()
    two.session.act = lambda: go.wait(60)
    with pytest.raises(SessionTimeout):
        session.run(FEEDS)
    go.set()
    other: dict[str, Array] = {"b": np.array([[5, 6]], np.float32), "a": np.array([1], np.int64)}
    np.testing.assert_array_equal(session.run(other)["sum"], np.array([[6, 7]], np.float32))
    session.close()


def test_a_server_that_goes_away(protocol: str, two: Any, session: Session) -> None:
    session.run(FEEDS)
    two.server.close()
    with pytest.raises(SessionLost, match="gives no answer"):
        session.run(FEEDS)


def test_a_runtime_that_fails_behind_the_socket(two: Any, session: Session) -> None:
    def fail() -> None:
        raise RuntimeError("boom")

    two.session.act = fail
    with pytest.raises(SessionLost, match="numpy gave no answer to inputs that fit the signature: boom"):
        session.run(FEEDS)
    two.session.act = lambda: None
    session.run(FEEDS)


def test_values_that_the_model_refuses(two: Any, session: Session) -> None:
    def fail() -> None:
        raise IndexError("99")

    two.session.act = fail
    with pytest.raises(BadRequest, match="refuses the request: numpy refuses these values: 99"):
        session.run(FEEDS)


def test_another_model_under_the_name(protocol: str, two: Any) -> None:
    inputs, (total, kept) = two.session.signature.inputs, two.session.signature.outputs
    renamed = Signature(inputs, (TensorSpec("logits", "float32", total.shape), kept))
    session = OPEN[protocol](two.addresses[SERVICE[protocol]], "m", renamed)
    with pytest.raises(BadRequest, match=r"answers with .*kept.*, and the record names logits, kept"):
        session.run(FEEDS)
    session.close()


def test_another_dtype_under_the_name() -> None:
    with pytest.raises(BadRequest) as caught:
        check_answers("h:1", [TensorSpec("y", "float32", ("batch",))], {"y": np.zeros(1)})
    assert str(caught.value) == (
        "h:1 answers with y as float64, and the record has y=float32[batch]\n"
        "  fix: serve the artifact that this record belongs to"
    )


def serve_raw(replies: list[bytes]) -> tuple[socket.socket, threading.Thread]:
    """A server that gives one canned reply a connection, and closes it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        for reply in replies:
            with listener.accept()[0] as link:
                link.recv(65536)
                link.sendall(reply)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return listener, thread


def http(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


AVAILABLE = http(b'{"model_version_status": [{"state": "AVAILABLE"}]}')


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        ([b"SSH-2.0-OpenSSH\r\n"], "does not speak HTTP"),
        ([http(b"<html>", "502 Bad Gateway")], "answers 502: <html>"),
        ([http(b"<html>")], "answers with no JSON"),
        ([http(b"[]")], "is not available yet"),
        ([http(b'{"model_version_status": [{"state": "LOADING"}]}')], "is not available yet"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"], "gives no answer: IncompleteRead"),
    ],
)
def test_what_is_no_tf_serving_is_one_sentence(replies: list[bytes], words: str) -> None:
    listener, _ = serve_raw(replies)
    with listener, pytest.raises(SessionLost) as caught:
        tfserving_rest_client.open_session(
            f"127.0.0.1:{listener.getsockname()[1]}",
            "m",
            Signature((TensorSpec("x", "bool", ()),), (TensorSpec("y", "bool", ()),)),
            5,
        )
    assert words in caught.value.what
    assert "\n" not in caught.value.what


def test_a_kept_connection_that_the_server_closed_is_opened_again(two: Any) -> None:
    """Each canned reply closes its connection: the second request meets a stale one."""
    answer = http(b'{"outputs": {"sum": [[1.5, 2]], "kept": [3]}}')
    listener, thread = serve_raw([AVAILABLE, answer, answer])
    with listener:
        session = tfserving_rest_client.open_session(
            f"127.0.0.1:{listener.getsockname()[1]}", "m", two.session.signature, 5
        )
        assert session.device == "unknown"
        for _ in range(2):
            np.testing.assert_array_equal(session.run(FEEDS)["kept"], np.array([3], np.int64))
        assert isinstance(session, tfserving_rest_client.RestSession)
        assert session.retries == 2  # both met the connection of the request before; a measurement must know
        session.close()
        thread.join(60)


def test_a_server_with_too_many_requests_is_told_from_a_bad_request(two: Any) -> None:
    full = http(b'{"error": "64 requests wait for the model m"}', "429 Too Many Requests")
    listener, _ = serve_raw([AVAILABLE, full])
    with listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        session = tfserving_rest_client.open_session(address, "m", two.session.signature, 5)
        with pytest.raises(SessionOverloaded) as caught:
            session.run(FEEDS)
        session.close()
    assert caught.value.what == f"{address} refuses the request: 64 requests wait for the model m"
    assert caught.value.fix == "send fewer at a time"


def test_grpc_says_in_its_own_way_that_too_many_wait() -> None:
    import grpc

    class Exhausted(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.RESOURCE_EXHAUSTED

        def details(self) -> str:
            return "64 requests wait for the model m"

    link = grpc_link.GrpcLink("127.0.0.1:1", 5)

    def method(*_: object, **__: object) -> None:
        raise Exhausted

    with pytest.raises(
        SessionOverloaded, match=r"^127.0.0.1:1 refuses the request: 64 requests wait for the model m\n"
    ):
        link.call(method, None)
    link.close()


INFERENCE_HEAD = b'{"outputs": [{"name": "sum", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}'


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (http(b"<html>"), "cannot be read: JSON Parse error"),
        (http(b"[]"), "cannot be read: the response is no JSON object"),
        (http(b"{}"), "cannot be read: the JSON has no list of outputs"),
        (http(b'{"outputs": [{"name": "sum", "datatype": "FP32", "shape": [2], "data": [1]}]}'), "cannot be read"),
        (http(INFERENCE_HEAD), "answers with sum, and the record names sum, kept"),
    ],
)
def test_what_is_no_inference_server_is_one_sentence(two: Any, reply: bytes, words: str) -> None:
    listener, _ = serve_raw([http(b"{}"), http(b"{}"), reply])
    with listener:
        session = oip_http_client.open_session(f"127.0.0.1:{listener.getsockname()[1]}", "m", two.session.signature, 5)
        assert session.device == "unknown"
        with pytest.raises((SessionLost, BadRequest)) as caught:
            session.run(FEEDS)
        session.close()
    assert words in caught.value.what
    assert "\n" not in caught.value.what


@pytest.mark.parametrize("address", ["8501", "host:", "host:http", ""])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(BadRequest, match="is no address"):
        http_link.Link(address, 1)


def loads(statement: str, module: str) -> bool:
    code = f"import sys; {statement}; sys.exit(7 if {module!r} in sys.modules else 0)"
    status = subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode
    assert status in (0, 7)
    return status == 7


USE = """
from importlib import import_module
import numpy as np
from transload.models.signature import Array, Signature

def use(protocol, address, record):
    client = import_module(f"transload.serving.clients.{protocol}_client")
    session = client.open_session(address, "m", Signature.from_json(record))
    session.run({"b": np.zeros((1, 2), np.float32), "a": np.zeros(1, np.int64)})
    session.close()
"""


def test_a_client_does_not_import_tensorflow(two: Any) -> None:
    record = two.session.signature.to_json()
    protocols = {"tfserving_grpc": "grpc", "tfserving_rest": "rest", "oip_grpc": "grpc", "oip_http": "rest"}
    for protocol, service in protocols.items():
        address = two.addresses[service]
        for heavy in ("tensorflow", "tensorflow_serving", "torch", "onnxruntime"):
            assert not loads(f"exec({USE!r}); use({protocol!r}, {address!r}, {record!r})", heavy)
    assert loads("sys.modules['tensorflow'] = sys", "tensorflow")  # the check can fail
