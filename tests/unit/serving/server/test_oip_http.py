"""The Open Inference Protocol over HTTP: what is answered, and refusals with their whole text."""

from __future__ import annotations

import http.client
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload import __version__
from transload.serving.wire.oip_json import LENGTH_HEADER, read_outputs

_spec = importlib.util.spec_from_file_location("recorded_oip", Path(__file__).parents[1] / "wire" / "recorded_oip.py")
assert _spec is not None
assert _spec.loader is not None
recorded: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorded)


def exchange(
    served: Any, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> tuple[int, http.client.HTTPMessage, bytes]:
    link = http.client.HTTPConnection(served.addresses["rest"], timeout=60)
    link.request(method, path, body, dict(headers or {}))
    reply = link.getresponse()
    content = reply.read()
    link.close()
    return reply.status, reply.headers, content


def ask(served: Any, method: str, path: str, document: object = None) -> tuple[int, Any]:
    body = b"" if document is None else json.dumps(document).encode()
    status, headers, content = exchange(served, method, path, body)
    assert headers["content-type"] == "application/json"
    return status, json.loads(content)


INPUTS = [
    {"name": "b", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]},
    {"name": "a", "datatype": "INT64", "shape": [1], "data": [10]},
]
OUTPUTS = [
    {"name": "sum", "datatype": "FP32", "shape": [1, 2], "data": [11.0, 12.0]},
    {"name": "kept", "datatype": "INT64", "shape": [1], "data": [10]},
]
ABOUT = {"model_name": "m", "model_version": "1"}


@pytest.mark.parametrize("path", ["/v2/models/m/infer", "/v2/models/m/versions/1/infer"])
def test_numbers_are_answered_with_numbers(two: Any, path: str) -> None:
    assert ask(two, "POST", path, {"inputs": INPUTS}) == (200, {**ABOUT, "outputs": OUTPUTS})


def test_the_id_comes_back_and_outputs_are_those_requested(two: Any) -> None:
    document = {"id": "7", "inputs": INPUTS, "outputs": [{"name": "kept"}]}
    assert ask(two, "POST", "/v2/models/m/infer", document) == (200, {"id": "7", **ABOUT, "outputs": OUTPUTS[1:]})


@pytest.mark.parametrize("client", recorded.HTTP)
def test_requests_of_other_clients(two: Any, client: str) -> None:
    body, length = recorded.HTTP[client]
    headers = {} if length is None else {LENGTH_HEADER: length}
    status, reply_headers, content = exchange(two, "POST", "/v2/models/m/infer", body, headers)
    assert status == 200, content
    answers = read_outputs(content, reply_headers.get(LENGTH_HEADER), 1 << 20)
    np.testing.assert_array_equal(answers["sum"], np.array([[11, 12]], np.float32), strict=True)
    binary = {"tritonclient mixed": "application/octet-stream", "tritonclient binary": "application/octet-stream"}
    assert reply_headers["content-type"] == binary.get(client, "application/json")
    assert reply_headers["x-transload-device"] == "cuda:3"


def test_an_empty_batch_has_its_shape(two: Any) -> None:
    empty = [{**INPUTS[0], "shape": [0, 2], "data": []}, {**INPUTS[1], "shape": [0], "data": []}]
    status, document = ask(two, "POST", "/v2/models/m/infer", {"inputs": empty})
    assert (status, [row["shape"] for row in document["outputs"]]) == (200, [[0, 2], [0]])


def test_health_and_metadata(two: Any) -> None:
    assert ask(two, "GET", "/v2/health/live") == (200, {"live": True})
    assert ask(two, "GET", "/v2/health/ready") == (200, {"ready": True})
    assert ask(two, "GET", "/v2/models/m/ready") == (200, {"name": "m", "ready": True})
    extensions = ["model_repository", "model_configuration", "binary_tensor_data", "statistics"]
    server = {"name": "transload", "version": __version__, "extensions": extensions}
    assert ask(two, "GET", "/v2") == (200, server)
    assert ask(two, "GET", "/v2/models") == (200, {"models": ["m"]})
    assert ask(two, "GET", "/v2/models/m") == (
        200,
        {
            "name": "m",
            "versions": ["1"],
            "platform": "unknown",
            "inputs": [
                {"name": "b", "datatype": "FP32", "shape": [-1, 2]},
                {"name": "a", "datatype": "INT64", "shape": [-1]},
            ],
            "outputs": [
                {"name": "sum", "datatype": "FP32", "shape": [-1, 2]},
                {"name": "kept", "datatype": "INT64", "shape": [-1]},
            ],
        },
    )


def test_the_batch_is_left_out_of_a_configuration_where_all_tensors_begin_with_it(one: Any, two: Any) -> None:
    _, batched = ask(one, "GET", "/v2/models/m/config")
    assert (batched["max_batch_size"], batched["input"]) == (
        (1 << 31) - 1,
        [{"name": "x", "data_type": "TYPE_FP32", "dims": [2]}],
    )
    _, plain = ask(two, "GET", "/v2/models/m/config")
    assert (plain["max_batch_size"], [row["dims"] for row in plain["input"]]) == (0, [[-1, 2], [-1]])


def test_the_repository_lists_its_models(two: Any) -> None:
    row = {"name": "m", "version": "1", "state": "READY", "reason": ""}
    assert ask(two, "POST", "/v2/repository/index") == (200, [row])
    assert ask(two, "POST", "/v2/repository/index", {"ready": True}) == (200, [row])


def test_statistics_count_samples_and_failures(two: Any) -> None:
    inputs = [{**INPUTS[0], "shape": [3, 2], "data": [0] * 6}, {**INPUTS[1], "shape": [3], "data": [0] * 3}]
    for document in ({"inputs": inputs}, {"inputs": INPUTS}, {"inputs": INPUTS[:1]}):
        ask(two, "POST", "/v2/models/m/infer", document)
    for path in ("/v2/models/stats", "/v2/models/m/stats", "/v2/models/m/versions/1/stats"):
        _, document = ask(two, "GET", path)
        (row,) = document["model_stats"]
        counts = {part: value["count"] for part, value in row["inference_stats"].items()}
        assert (row["name"], row["version"], row["inference_count"], row["execution_count"]) == ("m", "1", 4, 2)
        parts = {"queue": 2, "compute_input": 2, "compute_infer": 2, "compute_output": 2}
        assert counts == {"success": 2, "fail": 1, **parts, "cache_hit": 0, "cache_miss": 0}
        spent = {part: row["inference_stats"][part]["ns"] for part in ("success", "fail", *parts)}
        assert min(spent.values()) > 0
        assert spent["success"] == sum(spent[part] for part in parts)


UNKNOWN = "Request for unknown model: 'other' is not found"
REFUSED: list[tuple[str, str, object, int, str]] = [
    ("POST", "/v2/models/other/infer", {"inputs": INPUTS}, 404, UNKNOWN),
    ("GET", "/v2/models/other", None, 404, UNKNOWN),
    ("GET", "/v2/models/other/ready", None, 404, UNKNOWN),
    ("GET", "/v2/models/other/stats", None, 404, UNKNOWN),
    ("GET", "/v2/models/m/versions/2", None, 404, "Request for unknown model: 'm' version 2 is not found"),
    ("GET", "/v2/models/m/versions/x", None, 400, "a version is a number, got 'x'"),
    ("GET", f"/v2/models/m/versions/{'9' * 5000}", None, 400, f"a version is a number, got '{'9' * 60}...'"),
    ("POST", "/v2/models/m/infer", {"inputs": INPUTS[:1]}, 400, "the model takes the inputs b, a, got b"),
    *((
        "POST", "/v2/models/m/infer", {"inputs": INPUTS, "parameters": {name: value}}, 400,
        f"parameter {name}: neither sequences nor priorities are served",
    ) for name, value in (("sequence_id", 7), ("sequence_id", "a"), ("sequence_start", True), ("priority", 1))),
    ("POST", "/v2/models/m/infer", [], 400, "the request is no JSON object"),
    ("POST", "/v2/models/m/infer", None, 400, "JSON Parse error: The document is empty"),
    (
        "POST", "/v2/models/m/infer", {"inputs": INPUTS, "outputs": [{"name": "z"}]}, 400,
        "unexpected inference output 'z' for model 'm'",
    ),
    (
        "POST", "/v2/models/m/infer", {"inputs": [{**INPUTS[0], "datatype": "FP64"}, INPUTS[1]]}, 400,
        "input b=float32[batch,2] got float64[1,2]",
    ),
    (
        "POST", "/v2/models/m/infer", {"inputs": [{**INPUTS[0], "shape": [4_000_000, 1, 8, 8]}]}, 429,
        "tensor 'b': [4000000, 1, 8, 8] of FP32 is more than 67108864 bytes",
    ),
    ("POST", "/v2/repository/models/other/load", None, 404, "Could not find any versions of model other"),
    ("POST", "/v2/repository/models/other/unload", None, 404, "Could not find any versions of model other"),
    (
        "POST", "/v2/repository/models/m/load", {"parameters": {"config": "{}"}}, 400,
        "failed to load 'm': parameters are not taken: config",
    ),
    ("POST", "/v2/repository/index", [], 400, "the request is no JSON object, or its parameters are none"),
    ("GET", "/v2/logging", None, 404, "there is no GET '/v2/logging'"),
    ("GET", "/v2/models/m/infer", None, 404, "there is no GET '/v2/models/m/infer'"),
    ("POST", "/v2/health/live", None, 404, "there is no POST '/v2/health/live'"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]} {case[1][:40]} {case[4][:30]}")
def test_refusals(two: Any, case: tuple[str, str, object, int, str]) -> None:
    method, path, document, status, words = case
    assert ask(two, method, path, document) == (status, {"error": words})
    assert two.session.runs == 0


def test_parameters_that_stand_for_none_or_change_nothing_are_answered(two: Any) -> None:
    parameters = {"sequence_id": 0, "sequence_start": False, "priority": 0, "request_name": "abc"}
    assert ask(two, "POST", "/v2/models/m/infer", {"inputs": INPUTS, "parameters": parameters})[0] == 200


def test_readiness_ends_with_the_drain(two: Any) -> None:
    two.repository.admission.is_ready = False
    assert ask(two, "GET", "/v2/health/live") == (200, {"live": True})
    assert ask(two, "GET", "/v2/health/ready") == (503, {"error": "the server is not ready"})
    assert ask(two, "GET", "/v2/models/m/ready") == (503, {"error": "the model m is not ready"})


def test_requests_are_counted_under_the_model(two: Any) -> None:
    ask(two, "POST", "/v2/models/m/infer", {"inputs": INPUTS})
    ask(two, "POST", "/v2/models/m/infer", {"inputs": INPUTS[:1]})
    _, _, page = exchange(two, "GET", "/monitoring/prometheus/metrics")
    assert b':tensorflow:serving:request_count{model_name="m",status="OK"} 1' in page
    assert b':tensorflow:serving:request_count{model_name="m",status="INVALID_ARGUMENT"} 1' in page
    assert b'API="ModelInfer",entrypoint="REST"' in page
