"""The request for one sample, in each protocol's bytes, and what its reply has to say."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from transload.models.signature import Array
from transload.serving.wire import oip_messages
from transload.serving.wire.tensor_proto import decode_all, encode, parse
from transload.serving.wire.tfserving_messages import stock

MODEL, INPUT = "model", "x"
PREDICT = "/tensorflow.serving.PredictionService/Predict"
INFER = "/inference.GRPCInferenceService/ModelInfer"
JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class WireRequest:
    """A request over HTTP, or over gRPC where `path` is a method. `shape` tells how to read the reply."""

    protocol: str  # "grpc" or "http"
    path: str
    body: bytes
    headers: dict[str, str]
    shape: str  # "tfserving-grpc", "oip-grpc", "tfserving-rest", "oip-json", "oip-binary"


def make_requests(sample: Array) -> dict[str, WireRequest]:
    """Return the request for a sample by its shape."""
    length, binary = _oip_binary(sample)
    inputs = [{"name": INPUT, "datatype": "FP32", "shape": list(sample.shape), "data": sample.ravel().tolist()}]
    rows = _json({"instances": sample.tolist()})
    requests = [
        WireRequest("grpc", PREDICT, _predict(sample), {}, "tfserving-grpc"),
        WireRequest("grpc", INFER, _infer(sample), {}, "oip-grpc"),
        WireRequest("http", f"/v1/models/{MODEL}:predict", rows, JSON, "tfserving-rest"),
        WireRequest("http", f"/v2/models/{MODEL}/infer", _json({"inputs": inputs}), JSON, "oip-json"),
        WireRequest("http", f"/v2/models/{MODEL}/infer", binary,
                    {"content-type": "application/octet-stream", "inference-header-content-length": str(length)},
                    "oip-binary"),
    ]  # fmt: skip
    return {request.shape: request for request in requests}


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _predict(sample: Array) -> bytes:
    message = stock().PredictRequest()
    message.model_spec.name = MODEL
    encode(sample, message.inputs[INPUT])
    data: bytes = message.SerializeToString()
    return data


def _infer(sample: Array) -> bytes:
    message = oip_messages.messages().ModelInferRequest()
    message.model_name = MODEL
    message.inputs.add(name=INPUT, datatype="FP32", shape=sample.shape)
    message.raw_input_contents.append(sample.tobytes())
    data: bytes = message.SerializeToString()
    return data


def _oip_binary(sample: Array) -> tuple[int, bytes]:
    raw = sample.tobytes()
    head = _json({
        "inputs": [{"name": INPUT, "datatype": "FP32", "shape": list(sample.shape),
                    "parameters": {"binary_data_size": len(raw)}}],
        "parameters": {"binary_data_output": True},
    })  # fmt: skip
    return len(head), head + raw


def read_reply(shape: str, data: bytes) -> Array:
    """Return the output of a reply."""
    if shape == "tfserving-grpc":
        (array,) = decode_all(parse(data, "PredictResponse").outputs).values()
        return array
    if shape == "oip-grpc":
        message = oip_messages.messages().ModelInferResponse.FromString(data)
        if message.raw_output_contents:
            return np.frombuffer(message.raw_output_contents[0], np.float32)
        return np.array(message.outputs[0].contents.fp32_contents, np.float32)
    if shape == "oip-binary":
        end = data.index(b"}]}") + 3
        return np.frombuffer(data[end:], np.float32)
    document = json.loads(data)
    values = document["outputs"][0]["data"] if shape == "oip-json" else document.get("predictions", document)
    return np.array(values, np.float32)
