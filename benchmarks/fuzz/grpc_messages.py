"""Requests over gRPC: messages of all services with wild values, valid ones made wrong, and bytes that are none."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
from fuzzed_server import MODELS, FuzzedServer, Outcomes
from google.protobuf.descriptor import FieldDescriptor
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from transload.serving.wire.oip_messages import messages
from transload.serving.wire.tensor_proto import encode
from transload.serving.wire.tfserving_messages import stock

_DEADLINE_S = 5.0
_SLACK_S = 1.0  # by which a client may learn later that its deadline has passed
_MOST_DEPTH = 5
_RELOADS = 100  # one of so many requests is a valid or nearly valid ReloadConfigRequest, load or unload
_INTEGERS = [
    0, 1, 2, 3, 8, 10, 64, 127, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1,
    -1, -(1 << 31), -(1 << 63),
]  # fmt: skip
_FLOATS = [0.0, 1.0, -1.5, 1e-45, 3.4e38, 1e300, float("inf"), float("-inf"), float("nan")]
_TEXTS = [
    "m", "n", "r", "x", "ids", "keep", "output", "output_0", "serving_default", "signature_def", "1", "2", "", "FP32",
    "INT64", "BOOL", "BYTES", "classification", "tensorflow/serving/predict", "tensorflow/serving/classify",
    "tensorflow.serving.PredictionService", "inference.GRPCInferenceService", "grpc_service.proto",
    "\0", "a\nb", "é" * 300, "x" * 9000, "../..", "\U0010ffff",
]  # fmt: skip
_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1), FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1), FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}  # fmt: skip
_PREDICTION, _MODEL = "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"
_OIP, _REFLECTION = "inference.GRPCInferenceService", "grpc.reflection.v1alpha.ServerReflection"
# What no request may be answered with. UNAVAILABLE: this client never asks while a model is loaded.
_FAULTS = {"INTERNAL", "UNKNOWN", "UNAVAILABLE", "ABORTED", "DATA_LOSS"}


def methods() -> dict[str, Any]:
    """Return the class of the requests of each method."""
    prediction = {"Predict": "PredictRequest", "Classify": "ClassificationRequest", "Regress": "RegressionRequest",
                  "MultiInference": "MultiInferenceRequest", "GetModelMetadata": "GetModelMetadataRequest"}  # fmt: skip
    tfserving, oip = stock(), messages()
    table = {f"/{_PREDICTION}/{name}": getattr(tfserving, request) for name, request in prediction.items()}
    table[f"/{_MODEL}/GetModelStatus"] = tfserving.GetModelStatusRequest
    table[f"/{_MODEL}/HandleReloadConfigRequest"] = tfserving.ReloadConfigRequest
    for name in vars(oip):
        if name.endswith("Request"):
            table[f"/{_OIP}/{name.removesuffix('Request')}"] = getattr(oip, name)
    table["/grpc.health.v1.Health/Check"] = table["/grpc.health.v1.Health/Watch"] = health_pb2.HealthCheckRequest
    table[f"/{_REFLECTION}/ServerReflectionInfo"] = reflection_pb2.ServerReflectionRequest
    return table


class MessageMaker:
    """Makes messages of any class, and makes valid ones wrong."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def fill(self, message: Any, depth: int = 0) -> Any:
        """Set some of a message's fields."""
        for field in message.DESCRIPTOR.fields:
            if self._rng.random() < (0.7 if depth < 2 else 0.35):
                self._set(message, field, depth)
        return message

    def change(self, message: Any) -> Any:
        """Change one field of a message, or of one that lies in it."""
        places = [*self._places(message)]
        owner, field = self._rng.choice(places)
        owner.ClearField(field.name)
        if self._rng.random() < 0.8:
            self._set(owner, field, 2)
        return message

    def _places(self, message: Any) -> Iterator[tuple[Any, Any]]:
        for field in message.DESCRIPTOR.fields:
            yield message, field
        for field, value in message.ListFields():
            if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
                continue
            if _is_map(field):
                inner = [*value.values()] if _holds_messages(field) else []
            else:
                inner = [*value] if field.is_repeated else [value]
            for item in inner:
                yield from self._places(item)

    def _set(self, message: Any, field: Any, depth: int) -> None:
        count = self._rng.choice([0, 1, 1, 2, 3, 8]) if field.is_repeated else 1
        holder = getattr(message, field.name)
        is_message = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
        if is_message and depth >= _MOST_DEPTH:
            return
        if _is_map(field):
            key, value = field.message_type.fields
            for _ in range(count):
                name = self._value(key)
                if _holds_messages(field):
                    self.fill(holder[name], depth + 1)
                else:
                    holder[name] = self._value(value)
        elif field.is_repeated:
            for _ in range(count):
                if is_message:
                    self.fill(holder.add(), depth + 1)
                else:
                    holder.append(self._value(field))
        elif is_message:
            holder.SetInParent()
            self.fill(holder, depth + 1)
        else:
            setattr(message, field.name, self._value(field))

    def _value(self, field: Any) -> Any:
        kind = field.cpp_type
        if kind in _RANGES:
            low, high = _RANGES[kind]
            return self._rng.choice([value for value in _INTEGERS if low <= value <= high])
        if kind in {FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE}:
            return self._rng.choice(_FLOATS)
        if kind == FieldDescriptor.CPPTYPE_BOOL:
            return self._rng.random() < 0.5
        if kind == FieldDescriptor.CPPTYPE_ENUM:
            return self._rng.choice([*(value.number for value in field.enum_type.values), 99])
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self._rng.randbytes(self._rng.choice([0, 1, 4, 8, 32, 32, 33, 1000]))
        return self._rng.choice(_TEXTS)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _holds_messages(field: Any) -> bool:
    return bool(field.message_type.fields[1].cpp_type == FieldDescriptor.CPPTYPE_MESSAGE)


class GrpcClient:
    """Asks a server over gRPC, and counts what it answers."""

    def __init__(self, server: FuzzedServer, seed: int, outcomes: Outcomes) -> None:
        self._server, self._outcomes = server, outcomes
        self._rng = random.Random(seed)  # noqa: S311
        self._make = MessageMaker(self._rng)
        self._channel = grpc.insecure_channel(server.grpc)
        self._methods = methods()
        self._calls: dict[str, Callable[..., Any]] = {}
        for name in self._methods:
            kind = (
                "stream_stream"
                if "Reflection" in name
                else "unary_stream"
                if name.endswith("/Watch")
                else "unary_unary"
            )
            self._calls[name] = getattr(self._channel, kind)(name)
        self._valid = [*_valid_requests()]
        self._changing = [
            f"/{_MODEL}/HandleReloadConfigRequest",
            f"/{_OIP}/RepositoryModelLoad",
            f"/{_OIP}/RepositoryModelUnload",
        ]
        self._asked = [name for name in self._methods if name not in self._changing]

    def ask(self, count: int) -> None:
        """Send `count` requests."""
        for number in range(count):
            if number % _RELOADS == _RELOADS - 1:
                self._change_models()
                continue
            kind = self._rng.choice(["valid", "changed", "changed", "filled", "filled", "bytes", "bytes"])
            name, data = self._request(kind)
            self._send(kind, name, data)

    def _request(self, kind: str) -> tuple[str, bytes]:
        if kind == "filled":
            name = self._rng.choice([*self._asked, *self._changing])
            return name, self._without_models(name, self._make.fill(self._methods[name]())).SerializeToString()
        name, valid = self._rng.choice(self._valid)
        message = type(valid).FromString(valid.SerializeToString())
        if kind == "changed":
            for _ in range(self._rng.choice([1, 1, 2, 5])):
                message = self._make.change(message)
        data = message.SerializeToString()
        if kind == "bytes":
            data = self._garble(data)
            if self._rng.random() < 0.3:
                name = self._rng.choice(self._asked)
        return name, data

    def _without_models(self, name: str, message: Any) -> Any:
        """Keep chance from unloading the models that all others ask for; `_change_models` does that."""
        if name.endswith("HandleReloadConfigRequest") and not message.config.model_config_list.config:
            message.config.model_config_list.config.add(name="other", base_path="/other")
        if name.endswith(("Load", "Unload")):
            message.model_name = f"other{message.model_name}"
        return message

    def _garble(self, data: bytes) -> bytes:
        rng, garbled = self._rng, bytearray(data)
        match rng.randrange(6):
            case 0:
                return rng.randbytes(rng.choice([1, 2, 10, 100, 5000]))
            case 1:
                return data[: rng.randrange(len(data) + 1)]
            case 2:
                return data * rng.choice([2, 3, 50])
            case 3:
                return bytes([rng.choice([0x0A, 0x12, 0x1A, 0x2A, 0x3A]), 0]) * rng.choice([10, 1000, 100_000])
            case _:
                for _ in range(rng.choice([1, 1, 2, 5, 20])):
                    at = rng.randrange(len(garbled) + 1)
                    garbled[at : at + rng.choice([0, 1, 1, 2])] = rng.randbytes(rng.choice([0, 1, 1, 2, 10]))
        return bytes(garbled)

    def _send(self, kind: str, name: str, data: bytes) -> None:
        is_patient = (
            kind == "changes" or self._rng.random() < 0.95
        )  # a change that nobody waits for may come after others
        deadline_s = _DEADLINE_S if is_patient else self._rng.choice([0.0, 1e-4, 1e-3, 0.05])
        call = self._calls[name]
        start = time.monotonic()
        try:
            if "Reflection" in name:
                for _ in call(iter([data] * self._rng.choice([1, 1, 3])), timeout=deadline_s):
                    pass
            elif name.endswith("/Watch"):
                watch = call(data, timeout=deadline_s)
                next(watch)
                watch.cancel()
            else:
                call(data, timeout=deadline_s)
            status, text = "OK", ""
        except grpc.RpcError as error:
            status, text = error.code().name, error.details() or ""
        seconds = time.monotonic() - start
        self._outcomes.add(kind, status, seconds)
        if (
            status in _FAULTS
            or (kind == "valid" and status not in {"OK", "DEADLINE_EXCEEDED"})
            or seconds > deadline_s + _SLACK_S
            or (status == "DEADLINE_EXCEEDED" and deadline_s == _DEADLINE_S and kind != "changes")
        ):
            self._outcomes.add_fault(f"{kind} {name} {status} {seconds:.1f} s {text[:200]!r}", data[:400])

    def _change_models(self) -> None:
        """Reload, unload and load models, then see to it that both are there."""
        name = self._rng.choice(self._changing)
        if name.endswith("ReloadConfigRequest"):
            message = self._make.change(self._configuration())
        else:
            message = self._methods[name](model_name=self._rng.choice(["m", "n", "other"]))
        self._send("changes", name, message.SerializeToString())
        call = self._calls[f"/{_MODEL}/HandleReloadConfigRequest"]
        call(self._configuration().SerializeToString(), timeout=60)

    def _configuration(self) -> Any:
        request = stock().ReloadConfigRequest()
        for name, *_ in MODELS:
            request.config.model_config_list.config.add(name=name, base_path=str(self._server.folder / name))
        return request


def _valid_requests() -> Iterator[tuple[str, Any]]:
    """Yield a valid request to each method of the models."""
    tfserving, oip = stock(), messages()
    x = np.arange(8, dtype=np.float32)[None]
    ids, keep = np.array([[1, 2, 3, 4]]), np.array([[True, False, True, True]])
    predict = tfserving.PredictRequest()
    predict.model_spec.name = "m"
    encode(x, predict.inputs["x"])
    yield f"/{_PREDICTION}/Predict", predict
    typed = tfserving.PredictRequest()
    typed.model_spec.name = "m"
    typed.inputs["x"].dtype = 1
    for size in x.shape:
        typed.inputs["x"].tensor_shape.dim.add(size=size)
    typed.inputs["x"].float_val.extend(x.ravel().tolist())
    yield f"/{_PREDICTION}/Predict", typed
    lookup = tfserving.PredictRequest()
    lookup.model_spec.name = "n"
    encode(ids, lookup.inputs["ids"])
    encode(keep, lookup.inputs["keep"])
    yield f"/{_PREDICTION}/Predict", lookup
    for name in ("Classification", "Regression"):
        request = getattr(tfserving, f"{name}Request")()
        request.model_spec.name = "m" if name == "Classification" else "r"
        request.input.example_list.examples.add().features.feature["x"].float_list.value.extend(x.ravel().tolist())
        yield f"/{_PREDICTION}/{'Classify' if name == 'Classification' else 'Regress'}", request
    metadata = tfserving.GetModelMetadataRequest(metadata_field=["signature_def"])
    metadata.model_spec.name = "m"
    yield f"/{_PREDICTION}/GetModelMetadata", metadata
    raw = oip.ModelInferRequest(model_name="m", raw_input_contents=[x.tobytes()])
    raw.inputs.add(name="x", datatype="FP32", shape=x.shape)
    yield f"/{_OIP}/ModelInfer", raw
    contents = oip.ModelInferRequest(model_name="n")
    contents.inputs.add(name="ids", datatype="INT64", shape=ids.shape).contents.int64_contents.extend(
        ids.ravel().tolist()
    )
    contents.inputs.add(name="keep", datatype="BOOL", shape=keep.shape).contents.bool_contents.extend(
        keep.ravel().tolist()
    )
    yield f"/{_OIP}/ModelInfer", contents
    for name in ("ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics"):
        yield f"/{_OIP}/{name}", getattr(oip, f"{name}Request")(name="m")
    status = tfserving.GetModelStatusRequest()
    status.model_spec.name = "m"
    yield f"/{_MODEL}/GetModelStatus", status
    reflection = reflection_pb2.ServerReflectionRequest(file_containing_symbol=_PREDICTION)
    yield f"/{_REFLECTION}/ServerReflectionInfo", reflection
