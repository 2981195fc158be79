"""grpc.health.v1 and reflection, asked with the stubs of their own packages."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from transload.serving.server.grpc_services import add_health
from transload.serving.wire.tensor_proto import decode_all, encode
from transload.serving.wire.tfserving_messages import stock

SERVICES = [
    "tensorflow.serving.PredictionService",
    "tensorflow.serving.ModelService",
    "inference.GRPCInferenceService",
    "grpc.health.v1.Health",
]
REFLECTION = ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"]
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


@pytest.fixture
def channel(one: Any) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(one.addresses["grpc"]) as channel:
        yield channel


def reflect(channel: grpc.Channel, version: str = "v1alpha", **asked: str) -> Any:
    """Ask a version of reflection; their messages are the same."""
    ask = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )
    (reply,) = ask(iter([reflection_pb2.ServerReflectionRequest(**asked)]), timeout=60)
    return reply


@pytest.mark.parametrize("service", ["", *SERVICES])
def test_the_server_and_each_service_are_healthy(channel: grpc.Channel, service: str) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service=service)
    assert stub.Check(request, timeout=60).status == SERVING
    assert next(stub.Watch(request, timeout=60)).status == SERVING


def test_a_server_is_ready_when_all_models_answer_and_alive_in_any_case(one: Any, channel: grpc.Channel) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    watched = stub.Watch(health_pb2.HealthCheckRequest(), timeout=60)
    assert next(watched).status == SERVING
    (keeper,) = one.repository._keepers["m"].values()
    served, keeper.served = keeper.served, None
    one.server.tell_ready()
    assert next(watched).status == NOT_SERVING
    for service in SERVICES:
        is_alive = service == "grpc.health.v1.Health"
        status = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=60).status
        assert status == (SERVING if is_alive else NOT_SERVING)
    for path, status in (("healthz", 200), ("v2/health/live", 200), ("v2/health/ready", 503)):
        with closing(http.client.HTTPConnection(one.addresses["rest"], timeout=60)) as link:
            link.request("GET", f"/{path}")
            assert link.getresponse().status == status
    keeper.served = served
    one.server.tell_ready()
    assert next(watched).status == SERVING


def test_a_client_may_ping(one: Any) -> None:
    """By default a server cuts off who pings more often than every 5 minutes, at the third ping."""
    options = [
        ("grpc.keepalive_time_ms", 1100), ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.max_pings_without_data", 0),
    ]  # fmt: skip
    with grpc.insecure_channel(one.addresses["grpc"], options) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watched = stub.Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert next(watched).status == SERVING
        time.sleep(5.5)
        one.server.drain(10)
        assert next(watched).status == NOT_SERVING


def test_a_service_that_is_not_there_is_not_found(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="other"), timeout=60)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_drain_says_not_serving_before_the_last_request_is_answered(
    one: Any, channel: grpc.Channel, in_thread: Any, until: Any
) -> None:
    go = threading.Event()
    one.session.act = lambda: go.wait(60)
    message = stock().PredictRequest()
    message.model_spec.name = "m"
    encode(np.array([[1, 2]], np.float32), message.inputs["x"])
    replies: list[bytes] = []
    ask = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    in_thread(lambda: replies.append(ask(message.SerializeToString(), timeout=60)))
    until(lambda: one.session.inside == 1)
    watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
    assert next(watched).status == SERVING
    check = health_pb2_grpc.HealthStub(channel).Check
    in_thread(lambda: one.server.drain(10))
    assert next(watched).status == NOT_SERVING
    assert check(health_pb2.HealthCheckRequest(), timeout=60).status == NOT_SERVING
    assert not replies
    go.set()
    until(lambda: replies)
    outputs = decode_all(stock().PredictResponse.FromString(replies[0]).outputs)
    np.testing.assert_array_equal(outputs["y"], np.array([[2, 4]], np.float32))


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_lists_the_services(version: str, channel: grpc.Channel) -> None:
    reply = reflect(channel, version, list_services="")
    names = [service.name for service in reply.list_services_response.service]
    assert sorted(names) == sorted([*SERVICES, *REFLECTION])


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
@pytest.mark.parametrize(
    "symbol", [*SERVICES, *REFLECTION, "tensorflow.serving.PredictRequest", "tensorflow.TensorProto"]
)
def test_reflection_describes_services_and_messages_with_all_that_they_import(
    channel: grpc.Channel, symbol: str, version: str
) -> None:
    reply = reflect(channel, version, file_containing_symbol=symbol)
    files = [
        descriptor_pb2.FileDescriptorProto.FromString(data)
        for data in reply.file_descriptor_response.file_descriptor_proto
    ]
    names = {f"{file.package}.{item.name}" for file in files for item in (*file.message_type, *file.service)}
    assert symbol in names
    assert {imported for file in files for imported in file.dependency} <= {file.name for file in files}


@pytest.mark.parametrize("method", ["health.v1.Health/Check", "health.v1.Health/Watch", "reflection"])
def test_bytes_that_are_no_message_are_an_invalid_argument(channel: grpc.Channel, method: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        if method == "reflection":
            ask = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
            next(ask(iter([b"\xff"]), timeout=60))
        else:
            next(channel.unary_stream(f"/grpc.{method}")(b"\xff", timeout=60))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_idle_streams_leave_the_other_methods_their_threads(channel: grpc.Channel) -> None:
    closed = threading.Event()

    def ask() -> Any:
        yield reflection_pb2.ServerReflectionRequest(list_services="")
        closed.wait(60)

    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    streams = [stub.ServerReflectionInfo(ask(), timeout=60) for _ in range(8)]
    for stream in streams:
        next(stream)
    with pytest.raises(grpc.RpcError) as caught:
        reflect(channel, list_services="")
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    closed.set()
    for stream in streams:
        assert list(stream) == []
    assert reflect(channel, list_services="").list_services_response.service


def test_names_that_clients_watch_are_not_kept() -> None:
    servicer = add_health(SimpleNamespace(add_generic_rpc_handlers=lambda _: None), ["known"])
    statuses: list[Any] = []
    for name in ("known", "other", "another"):
        request = health_pb2.HealthCheckRequest(service=name)
        servicer.Watch(request, SimpleNamespace(add_callback=lambda _: None), statuses.append)
    assert [reply.status for reply in statuses] == [SERVING, UNKNOWN, UNKNOWN]
    assert len(servicer._send_response_callbacks) == 2
