"""TF Serving's metrics: names, labels and buckets as its exporter writes them, and what is counted in each protocol."""

from __future__ import annotations

import http.client
import json
from typing import Any

import grpc
import numpy as np
import pytest

from transload.serving.server.metrics import Histogram, Metrics, RequestRecord
from transload.serving.wire.tensor_proto import encode
from transload.serving.wire.tfserving_messages import stock

PREFIX = ":tensorflow:serving:"


def get(served: Any, method: str, path: str, body: Any = None) -> tuple[int, str, str]:
    link = http.client.HTTPConnection(served.addresses["rest"], timeout=60)
    link.request(method, path, json.dumps(body) if body is not None else None)
    reply = link.getresponse()
    answer = reply.status, reply.headers["content-type"], reply.read().decode()
    link.close()
    return answer


def lines(served: Any, name: str) -> list[str]:
    status, media_type, page = get(served, "GET", "/monitoring/prometheus/metrics")
    assert (status, media_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return [line for line in page.splitlines() if line.startswith(PREFIX + name)]


def predict(served: Any, name: str = "m", rows: Any = ((1, 2),)) -> None:
    message = stock().PredictRequest()
    message.model_spec.name = name
    encode(np.array(rows, np.float32), message.inputs["x"])
    with grpc.insecure_channel(served.addresses["grpc"]) as channel:
        ask = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        ask(message.SerializeToString(), timeout=60)


def test_both_protocols_are_counted_by_model_and_status(one: Any) -> None:
    for body in ({"instances": [[1, 2]]}, {"instances": [[1, 2]]}, {"instances": 1}):
        get(one, "POST", "/v1/models/m:predict", body)
    get(one, "GET", "/v1/models/m")
    predict(one)
    with pytest.raises(grpc.RpcError):
        predict(one, rows=[[1, 2, 3]])
    assert sorted(lines(one, "request_count")) == [
        ':tensorflow:serving:request_count{model_name="m",status="INVALID_ARGUMENT"} 2',
        ':tensorflow:serving:request_count{model_name="m",status="OK"} 4',
    ]
    assert sorted(lines(one, "request_latency_count")) == [
        ':tensorflow:serving:request_latency_count{model_name="m",API="",entrypoint="REST"} 1',
        ':tensorflow:serving:request_latency_count{model_name="m",API="Predict",entrypoint="GRPC"} 1',
        ':tensorflow:serving:request_latency_count{model_name="m",API="predict",entrypoint="REST"} 2',
    ]
    assert lines(one, "runtime_latency_count") == [
        ':tensorflow:serving:runtime_latency_count{model_name="m",API="Predict",runtime="unknown"} 3'
    ]


def test_other_names_share_one_label(one: Any) -> None:
    for name in ("other", "another"):
        assert get(one, "POST", f"/v1/models/{name}:predict", {"instances": [[1, 2]]})[0] == 404
        with pytest.raises(grpc.RpcError):
            predict(one, name)
    assert lines(one, "request_count") == [':tensorflow:serving:request_count{model_name="",status="NOT_FOUND"} 4']
    assert lines(one, "request_latency") == []


def test_health_and_the_page_itself_are_not_counted(one: Any) -> None:
    get(one, "GET", "/healthz")
    get(one, "GET", "/monitoring/prometheus/metrics")
    assert lines(one, "request_count") == []


def test_what_the_runtime_does_not_answer_is_no_run(one: Any) -> None:
    def fail() -> None:
        raise RuntimeError("boom")

    one.session.act = fail
    assert get(one, "POST", "/v1/models/m:predict", {"instances": [[1, 2]]})[0] == 500
    assert lines(one, "request_count") == [':tensorflow:serving:request_count{model_name="m",status="INTERNAL"} 1']
    assert lines(one, "runtime_latency_count")[0].endswith(" 0")


def test_the_page_has_the_format_of_tf_servings_exporter() -> None:
    metrics = Metrics()
    metrics.add_model("m", "onnxruntime")
    metrics.add_request(RequestRecord("REST", "POST /v1/models/m:predict", "predict", "m", "", "OK"))
    metrics.add_run("m", "onnxruntime", 58e-6)
    page = metrics.page().decode()
    assert page.startswith(
        "# TYPE :tensorflow:serving:request_count counter\n"
        ':tensorflow:serving:request_count{model_name="m",status="OK"} 1\n'
        "# TYPE :tensorflow:serving:request_latency histogram\n"
        ':tensorflow:serving:request_latency_bucket{model_name="m",API="predict",entrypoint="REST",le="10"} '
    )
    runtime = ':tensorflow:serving:runtime_latency_bucket{model_name="m",API="Predict",runtime="onnxruntime",le='
    buckets = [line.removeprefix(runtime) for line in page.splitlines() if line.startswith(runtime)]
    assert len(buckets) == 34
    assert buckets[:6] == ['"10"} 0', '"18"} 0', '"32.4"} 0', '"58.32"} 1', '"104.976"} 1', '"188.957"} 1']
    assert buckets[-1] == '"+Inf"} 1'
    assert page.endswith(
        ':tensorflow:serving:runtime_latency_sum{model_name="m",API="Predict",runtime="onnxruntime"} 58\n'
        ':tensorflow:serving:runtime_latency_count{model_name="m",API="Predict",runtime="onnxruntime"} 1\n'
    )


def test_durations_beyond_the_last_bucket_are_counted() -> None:
    histogram = Histogram()
    histogram.add(1e6)
    assert (histogram.counts[-1], sum(histogram.counts)) == (1, 1)
