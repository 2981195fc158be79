"""The Open Inference Protocol over gRPC: what is answered, and refusals by code and by their whole text."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from transload.serving.wire.oip_messages import METHODS, messages
from transload.serving.wire.oip_tensors import add_tensor

_spec = importlib.util.spec_from_file_location("recorded_oip", Path(__file__).parents[1] / "wire" / "recorded_oip.py")
assert _spec is not None
assert _spec.loader is not None
recorded: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorded)


class Client:
    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)

    def send(self, method: str, data: bytes) -> Any:
        reply = getattr(messages(), f"{method}Response").FromString
        return self._channel.unary_unary(f"/inference.GRPCInferenceService/{method}", None, reply)(data, timeout=60)

    def ask(self, method: str, **fields: Any) -> Any:
        return self.send(method, getattr(messages(), f"{method}Request")(**fields).SerializeToString())

    def close(self) -> None:
        self._channel.close()


@pytest.fixture
def client(two: Any) -> Iterator[Client]:
    client = Client(two.addresses["grpc"])
    yield client
    client.close()


def infer_request(**fields: Any) -> Any:
    request = messages().ModelInferRequest(**{"model_name": "m", **fields})
    add_tensor("b", np.array([[1, 2]], np.float32), request.inputs, request.raw_input_contents)
    add_tensor("a", np.array([10]), request.inputs, request.raw_input_contents)
    return request


@pytest.mark.parametrize("height", [33, 160])
def test_a_size_beside_the_steps_is_refused(steps: Any, height: int) -> None:
    client = Client(steps.addresses["grpc"])
    request = messages().ModelInferRequest(model_name="m")
    add_tensor("x", np.zeros((2, height), np.float32), request.inputs, request.raw_input_contents)
    with pytest.raises(grpc.RpcError) as refused:
        client.send("ModelInfer", request.SerializeToString())
    client.close()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == f"the axis height has the size {height}, and the model takes 32..128:32"
    assert steps.session.runs == 0


@pytest.mark.parametrize("name", recorded.GRPC)
def test_requests_of_other_clients(client: Client, name: str) -> None:
    reply = client.send("ModelInfer", recorded.GRPC[name])
    assert (reply.model_name, reply.model_version, reply.id) == ("m", "1", "7")
    row = reply.outputs[0]
    assert (row.name, row.datatype, list(row.shape)) == ("sum", "FP32", [1, 2])
    np.testing.assert_array_equal(np.frombuffer(reply.raw_output_contents[0], np.float32), [11, 12])
    assert [row.name for row in reply.outputs] == (["sum"] if name == "tritonclient" else ["sum", "kept"])


def test_health_and_metadata(client: Client) -> None:
    assert client.ask("ServerLive").live
    assert client.ask("ServerReady").ready
    assert client.ask("ModelReady", name="m", version="1").ready
    assert not client.ask("ModelReady", name="other").ready
    assert client.ask("ServerMetadata").name == "transload"
    metadata = client.ask("ModelMetadata", name="m")
    assert [(row.name, row.datatype, list(row.shape)) for row in metadata.inputs] == [
        ("b", "FP32", [-1, 2]),
        ("a", "INT64", [-1]),
    ]
    assert list(metadata.versions) == ["1"]
    config = client.ask("ModelConfig", name="m").config
    assert [(row.name, row.data_type, list(row.dims)) for row in config.output] == [
        ("sum", 11, [-1, 2]),
        ("kept", 9, [-1]),
    ]


def test_the_repository_and_the_statistics(client: Client) -> None:
    client.send("ModelInfer", infer_request().SerializeToString())
    (model,) = client.ask("RepositoryIndex").models
    assert (model.name, model.version, model.state) == ("m", "1", "READY")
    (row,) = client.ask("ModelStatistics", name="m").model_stats
    assert (row.inference_count, row.inference_stats.success.count, row.inference_stats.fail.count) == (1, 1, 0)


def refused(client: Client, method: str, data: bytes) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        client.send(method, data)
    return caught.value.code().name, caught.value.details()


def classified() -> Any:
    request = infer_request()
    request.outputs.add(name="sum").parameters["classification"].int64_param = 2
    return request


def with_parameter(name: str, **value: Any) -> Any:
    return infer_request(parameters={name: messages().InferParameter(**value)})


NEITHER = "neither sequences nor priorities are served"


def oversized() -> Any:
    request = messages().ModelInferRequest(model_name="m")
    request.inputs.add(name="b", datatype="FP32", shape=[4_000_000, 1, 8, 8]).contents.fp32_contents.append(1)
    return request


OUTPUT = messages().ModelInferRequest.InferRequestedOutputTensor
UNKNOWN = "NOT_FOUND", "Request for unknown model: 'other' is not found"
REFUSED = {
    "model": (infer_request(model_name="other"), UNKNOWN),
    "version": (
        infer_request(model_version="2"), ("NOT_FOUND", "Request for unknown model: 'm' version 2 is not found")
    ),
    "text": (infer_request(model_version="x"), ("INVALID_ARGUMENT", "a version is a number, got 'x'")),
    "output": (
        infer_request(outputs=[OUTPUT(name="z")]),
        ("INVALID_ARGUMENT", "unexpected inference output 'z' for model 'm'"),
    ),
    "twice": (
        infer_request(outputs=[OUTPUT(name="sum"), OUTPUT(name="sum")]),
        ("INVALID_ARGUMENT", "output 'sum' is requested twice"),
    ),
    "sequence": (
        with_parameter("sequence_id", int64_param=7), ("INVALID_ARGUMENT", f"parameter sequence_id: {NEITHER}")
    ),
    "sequence text": (
        with_parameter("sequence_id", string_param="a"), ("INVALID_ARGUMENT", f"parameter sequence_id: {NEITHER}")
    ),
    "priority": (with_parameter("priority", uint64_param=1), ("INVALID_ARGUMENT", f"parameter priority: {NEITHER}")),
    "classification": (classified(), ("INVALID_ARGUMENT", "output 'sum': classification is not served")),
    "size": (
        oversized(), ("RESOURCE_EXHAUSTED", "tensor 'b': [4000000, 1, 8, 8] of FP32 is more than 67108864 bytes")
    ),
}  # fmt: skip


@pytest.mark.parametrize("parameter", [("priority", {"uint64_param": 0}), ("request_name", {"string_param": "a"})])
def test_parameters_that_stand_for_none_or_change_nothing_are_answered(client: Client, parameter: Any) -> None:
    request = with_parameter(parameter[0], **parameter[1])
    assert client.send("ModelInfer", request.SerializeToString()).model_name == "m"


@pytest.mark.parametrize("case", REFUSED)
def test_inferences_that_are_refused(two: Any, client: Client, case: str) -> None:
    request, expected = REFUSED[case]
    assert refused(client, "ModelInfer", request.SerializeToString()) == expected
    assert two.session.runs == 0


@pytest.mark.parametrize("method", [name for name in METHODS if name != "ModelInfer"])
def test_garbage_is_the_request_s_fault(client: Client, method: str) -> None:
    code, text = refused(client, method, b"\xff\xff\xff")
    assert code == "INVALID_ARGUMENT"
    assert text.startswith(f"the request is no {method}Request: ")


@pytest.mark.parametrize("method", ["ModelMetadata", "ModelConfig", "ModelStatistics"])
def test_a_model_that_is_not_there(client: Client, method: str) -> None:
    assert refused(client, method, messages().ModelMetadataRequest(name="other").SerializeToString()) == UNKNOWN


def test_kserve_names_the_model_where_triton_names_the_repository(client: Client) -> None:
    words = "NOT_FOUND", "Could not find any versions of model other"
    for field in ("model_name", "repository_name"):
        for method in ("RepositoryModelLoad", "RepositoryModelUnload"):
            request = getattr(messages(), f"{method}Request")(**{field: "other"})
            assert refused(client, method, request.SerializeToString()) == words


def test_nothing_in_a_request_changes_a_model_s_files(client: Client) -> None:
    request = messages().RepositoryModelLoadRequest(model_name="m")
    request.parameters["config"].string_param = "{}"
    request.parameters["file:1/model.onnx"].bytes_param = b"x"
    assert refused(client, "RepositoryModelLoad", request.SerializeToString()) == (
        "INVALID_ARGUMENT",
        "failed to load 'm': parameters are not taken: config, file:1/model.onnx",
    )
