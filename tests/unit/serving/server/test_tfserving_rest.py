"""TF Serving's REST API: rows and columns, named and not, and every refusal with its whole text."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.serving.server.http_server import HttpServer
from transload.serving.server.repository.model_repository import hold_session


def ask(served: Any, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    link = http.client.HTTPConnection(served.addresses["rest"], timeout=60)
    link.request(method, path, body if isinstance(body, bytes) else json.dumps(body) if body is not None else None)
    reply = link.getresponse()
    found = reply.status, json.loads(reply.read())
    assert reply.headers["content-type"] == "application/json"
    link.close()
    return found


def predict(served: Any, body: Any, path: str = "/v1/models/m:predict") -> tuple[int, Any]:
    return ask(served, "POST", path, body)


ROWS = {"b": [[1, 2], [3, 4]], "a": [10, 20]}
NAMED = [{"b": [1, 2], "a": 10}, {"b": [3, 4], "a": 20}]
SUM = [[11.0, 12.0], [23.0, 24.0]]


def test_columns_by_name(two: Any) -> None:
    assert predict(two, {"inputs": ROWS}) == (200, {"outputs": {"sum": SUM, "kept": [10, 20]}})


def test_rows_by_name(two: Any) -> None:
    assert predict(two, {"instances": NAMED}) == (
        200,
        {"predictions": [{"sum": SUM[0], "kept": 10}, {"sum": SUM[1], "kept": 20}]},
    )


def test_one_input_and_output_need_no_name(one: Any) -> None:
    doubled = [[2.0, 4.0]]
    assert predict(one, {"inputs": [[1, 2]]}) == (200, {"outputs": doubled})
    assert predict(one, {"inputs": {"x": [[1, 2]]}}) == (200, {"outputs": doubled})
    assert predict(one, {"instances": [[1, 2]]}) == (200, {"predictions": doubled})
    assert predict(one, {"instances": [{"x": [1, 2]}]}) == (200, {"predictions": doubled})


def test_signature_and_version_can_be_named(one: Any) -> None:
    asked = {"instances": [[1, 2]], "signature_name": "serving_default"}
    assert predict(one, asked, "/v1/models/m/versions/1:predict")[0] == 200


def test_numbers_that_are_not_finite_go_both_ways(one: Any) -> None:
    status, found = predict(one, b'{"instances": [[NaN, -Infinity]]}')
    assert (status, repr(found)) == (200, "{'predictions': [[nan, -inf]]}")


REFUSED: list[tuple[Any, str]] = [
    (b"", "JSON Parse error: The document is empty"),
    ([1], "JSON Value: the document Is not object"),
    ({}, "Missing 'inputs' or 'instances' key"),
    ({"instances": [1], "inputs": [1]}, "JSON Value: the document Not formatted correctly expecting only one of "
     "'inputs' or 'instances' keys to exist "),
    ({"instances": 1}, "JSON Value: the document Excepting 'instances' to be an list/array"),
    ({"instances": []}, "JSON Value: the document No values in 'instances' array"),
    ({"instances": [[1, 2]]}, "instances is a plain list, but expecting list of objects as multiple input tensors "
     "required as per tensorinfo_map"),
    ({"instances": [NAMED[0], 5]}, "Expecting object but got list at item 1 of input list"),
    ({"instances": [NAMED[0], {"b": [1, 2]}]}, "Failed to process element: 1 of 'instances' list. JSON object: keys "
     "must be equal to: a,b"),
    ({"instances": [{"c": 1}]}, "Failed to process element: 0 key: c of 'instances' list. Error: INVALID_ARGUMENT: "
     "JSON object: does not have named input: c"),
    ({"inputs": [1]}, "inputs is a plain value/list, but expecting an object as multiple input tensors required as "
     "per tensorinfo_map"),
    ({"inputs": {"b": [[1, 2]]}}, "Missing named input: a in 'inputs' object."),
    ({"inputs": {"b": [[1, 2]], "a": [1.5]}}, "JSON Value: 1.5 Type: Number is not of expected type: int64"),
    ({"inputs": {"b": [[1, 2, 3]], "a": [1]}}, "input b=float32[batch,2] got the shape [1,3]"),
    ({"inputs": {"b": [1, 2], "a": [1]}}, "input b=float32[batch,2] got the shape [2]"),
    ({"inputs": ROWS, "signature_name": "train"}, 'Serving signature name: "train" not found in signature def'),
    ({"inputs": ROWS, "signature_name": 5}, "JSON Value: the document not formatted correctly. 'signature_name' key "
     "must be a string value."),
]  # fmt: skip


@pytest.mark.parametrize(("body", "words"), REFUSED, ids=range(len(REFUSED)))
def test_a_refusal_is_400_in_tf_servings_words_and_the_session_never_saw_it(two: Any, body: Any, words: str) -> None:
    assert predict(two, body) == (400, {"error": words})
    assert two.session.runs == 0
    assert predict(two, {"inputs": ROWS})[0] == 200


def test_a_row_may_not_be_an_object_where_the_others_are_lists(one: Any) -> None:
    assert predict(one, {"instances": [[1, 2], {"x": [1, 2]}]}) == (
        400,
        {"error": "Expecting value/list but got object at item 1 of input list"},
    )


@pytest.mark.parametrize("body", [{"instances": [{"b64": "aGk="}]}, {"inputs": {"b64": "aGk="}}])
def test_base64_is_a_value_and_no_model_takes_strings(one: Any, body: Any) -> None:
    words = 'JSON Value: {"b64": "aGk="} Type: Object is not of expected type: float'
    if "instances" in body:
        words = f"Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: {words}"
    assert predict(one, body) == (400, {"error": words})


def test_an_input_of_the_name_b64_can_be_named(one: Any) -> None:
    assert predict(one, {"instances": [{"b64": [1, 2]}]})[1]["error"].endswith("does not have named input: b64")


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("POST", "/v1/models/other:predict", 404, "Servable not found for request: Latest(other)"),
        ("POST", "/v1/models/m/versions/2:predict", 404, "Servable not found for request: Specific(m, 2)"),
        ("GET", "/v1/models/other", 404, "Could not find any versions of model other"),
        ("GET", "/v1/models/m/versions/2", 404, "Could not find version 2 of model m"),
        ("GET", "/v1/models/other/metadata", 404, "Servable not found for request: Latest(other)"),
        ("GET", "/v1/models/m:predict", 400, "Malformed request: GET /v1/models/m:predict"),
        ("POST", "/v1/models/m", 400, "Malformed request: POST /v1/models/m"),
        ("POST", "/v1/models/m:explain", 400, "Malformed request: POST /v1/models/m:explain"),
        ("GET", "/v1", 400, "Malformed request: GET /v1"),
        ("DELETE", "/v1/models/m", 400, "Malformed request: DELETE /v1/models/m"),
    ],
)
def test_what_is_not_there(two: Any, method: str, path: str, status: int, words: str) -> None:
    assert ask(two, method, path, {"inputs": ROWS} if method == "POST" else None) == (status, {"error": words})


def test_a_runtime_that_fails_is_500_and_the_server_goes_on(one: Any) -> None:
    def fail() -> None:
        raise RuntimeError("boom")

    one.session.act = fail
    assert predict(one, {"instances": [[1, 2]]}) == (
        500,
        {"error": "numpy gave no answer to inputs that fit the signature: boom"},
    )
    one.session.act = lambda: None
    assert predict(one, {"instances": [[1, 2]]})[0] == 200


def test_status_metadata_and_health(two: Any) -> None:
    available = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    for path in ("/v1/models/m", "/v1/models/m/versions/1"):
        assert ask(two, "GET", path) == (200, {"model_version_status": [available], "name": "m", "ready": True})
    assert ask(two, "GET", "/") == (200, {"status": "alive"})
    status, found = ask(two, "GET", "/v1/models/m/metadata")
    assert status == 200
    assert found["model_spec"] == {"name": "m", "signature_name": "", "version": "1"}
    made = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert made["inputs"]["b"] == {
        "dtype": "DT_FLOAT",
        "name": "serving_default_b:0",
        "tensor_shape": {"dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": False},
    }
    assert ask(two, "GET", "/healthz") == (200, {"status": "ok"})


def test_a_slow_model_does_not_keep_health_waiting(one: Any, in_thread: Any, until: Any) -> None:
    """The first slow request shows that it is slow; from then on the event loop stays free."""
    import time

    one.session.act = lambda: time.sleep(0.02)
    predict(one, {"instances": [[1, 2]]})
    go = threading.Event()
    one.session.act = lambda: go.wait(60)
    replies: list[Any] = []
    in_thread(lambda: replies.append(predict(one, {"instances": [[1, 2]]})))
    until(lambda: one.session.inside == 1)
    assert ask(one, "GET", "/healthz")[0] == 200
    assert not replies
    go.set()
    until(lambda: replies)
    assert replies[0][0] == 200


def test_a_port_that_is_taken_is_refused(two: Any) -> None:
    port = int(two.addresses["rest"].rpartition(":")[2])
    with pytest.raises(BadRequest) as caught:
        HttpServer(hold_session("m", two.session), "127.0.0.1", port)
    assert str(caught.value) == f"nothing can listen on 127.0.0.1:{port}\n  fix: name another port, or 0"


def test_a_body_beyond_the_limit_is_refused_and_not_read(one: Any) -> None:
    server = HttpServer(hold_session("m", one.session, max_body_bytes=1000), "127.0.0.1", 0)
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    for body, headers in ((b"x" * 2000, {}), (iter([b"x" * 600] * 3), {"Transfer-Encoding": "chunked"})):
        link.request("POST", "/v1/models/m:predict", body, headers, encode_chunked=bool(headers))
        reply = link.getresponse()
        assert (reply.status, json.loads(reply.read())) == (
            413,
            {"error": "the body of a request has at most 1000 bytes"},
        )
        link.close()
    link.request("POST", "/v1/models/m:predict", b'{"instances": [[1, 2]]}')
    assert link.getresponse().status == 200
    link.close()
    server.close()


def test_lists_beyond_numpys_depth_are_refused(one: Any) -> None:
    deep = b'{"instances": ' + b"[" * 900 + b"1" + b"]" * 900 + b"}"
    assert predict(one, deep) == (400, {"error": "JSON Value: lists lie within each other more than 64 deep"})


def test_a_version_of_too_many_digits_is_a_malformed_request(one: Any) -> None:
    path = f"/v1/models/m/versions/{'9' * 5000}"
    text = f"Malformed request: GET {path}"
    assert ask(one, "GET", path) == (400, {"error": f"{text[:600]}..."})
    assert ask(one, "GET", "/v1/models/m/versions/%D9%A1")[0] == 400  # 1 in Arabic


def test_an_address_of_ipv6_is_listened_on(one: Any) -> None:
    server = HttpServer(hold_session("m", one.session), "::1", 0)
    link = http.client.HTTPConnection("::1", server.port, timeout=60)
    link.request("GET", "/v1/models/m")
    assert link.getresponse().status == 200
    link.close()
    server.close()
