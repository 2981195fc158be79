"""Every call of TF Serving's gRPC by tensorflow-serving-api: `python tensorflow_serving_calls.py GRPC REST X`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from call_results import print_results
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

X = np.array(json.loads(sys.argv[3]), np.float32)
channel = grpc.insecure_channel(sys.argv[1])
prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
service = model_service_pb2_grpc.ModelServiceStub(channel)


def predict(version: int = 0, label: str = "", *, listed: bool = False, only: str = "") -> Any:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "m"
    if version:
        request.model_spec.version.value = version
    if label:
        request.model_spec.version_label = label
    if only:
        request.output_filter.append(only)
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(X))
    if listed:
        request.inputs["x"].ClearField("tensor_content")
        request.inputs["x"].float_val.extend(X.ravel().tolist())
    outputs = prediction.Predict(request, 30).outputs
    return {name: tf.make_ndarray(tensor).tolist() for name, tensor in outputs.items()}


def fill(request: Any, model: str) -> Any:
    request.model_spec.name = model
    for row in X:
        request.input.example_list.examples.add().features.feature["x"].float_list.value.extend(row.tolist())
    return request


def classify() -> Any:
    reply = prediction.Classify(fill(classification_pb2.ClassificationRequest(), "scorer"), 30)
    return [[scored.score for scored in row.classes] for row in reply.result.classifications]


def predict_strings() -> Any:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "words"
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(["cat", "äh"]))
    outputs = prediction.Predict(request, 30).outputs
    texts = [text.decode() for text in tf.make_ndarray(outputs["upper"])]
    return {"id": tf.make_ndarray(outputs["id"]).tolist(), "upper": texts}


def classify_serialized() -> Any:
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name, request.model_spec.signature_name = "words", "classes"
    feature = request.input.example_list.examples.add().features.feature
    feature["x"].float_list.value.extend([1, 2])
    feature["word"].bytes_list.value.append(b"cat")
    (row,) = prediction.Classify(request, 30).result.classifications
    return [[scored.label, scored.score] for scored in row.classes]


def regress() -> Any:
    reply = prediction.Regress(fill(regression_pb2.RegressionRequest(), "valuer"), 30)
    return [row.value for row in reply.result.regressions]


def multi_inference() -> Any:
    request = inference_pb2.MultiInferenceRequest()
    for row in X:
        request.input.example_list.examples.add().features.feature["x"].float_list.value.extend(row.tolist())
    task = request.tasks.add(method_name="tensorflow/serving/classify")
    task.model_spec.name = "scorer"
    reply = prediction.MultiInference(request, 30)
    rows = reply.results[0].classification_result.classifications
    return [[scored.score for scored in row.classes] for row in rows]


def metadata() -> Any:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "m"
    signatures = get_model_metadata_pb2.SignatureDefMap()
    prediction.GetModelMetadata(request, 30).metadata["signature_def"].Unpack(signatures)
    signature = signatures.signature_def["serving_default"]
    return {
        name: [tf.dtypes.as_dtype(info.dtype).name, [dim.size for dim in info.tensor_shape.dim]]
        for name, info in [*signature.inputs.items(), *signature.outputs.items()]
    }


def status() -> Any:
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "m"
    names = get_model_status_pb2.ModelVersionStatus.State
    return {str(row.version): names.Name(row.state) for row in service.GetModelStatus(request, 30).model_version_status}


def reload_config() -> Any:
    """Leave version 2 alone, look, and bring both back."""
    request = model_management_pb2.ReloadConfigRequest()
    rows = {}
    for name in ("m", "scorer", "valuer", "words"):
        rows[name] = request.config.model_config_list.config.add(name=name, base_path=sys.argv[4].format(name))
    rows["m"].model_version_policy.specific.versions.append(2)
    first = service.HandleReloadConfigRequest(request, 60).status.error_code
    alone = [version for version, state in status().items() if state == "AVAILABLE"]
    rows["m"].model_version_policy.specific.versions.append(1)
    rows["m"].version_labels["stable"] = 1
    again = service.HandleReloadConfigRequest(request, 60).status.error_code
    return [first, alone, again, sorted(version for version, state in status().items() if state == "AVAILABLE")]


def refusal() -> Any:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "nope"
    try:
        prediction.Predict(request, 30)
    except grpc.RpcError as error:
        return error.code().name
    return None


def health() -> Any:
    stub = health_pb2_grpc.HealthStub(channel)
    return stub.Check(health_pb2.HealthCheckRequest(), 30).status == health_pb2.HealthCheckResponse.SERVING


CALLS: dict[str, Callable[[], Any]] = {
    "Predict": predict,
    "Predict, a version": lambda: predict(1),
    "Predict, a label": lambda: predict(label="stable"),
    "Predict, values as a list": lambda: predict(listed=True),
    "Predict, one output": lambda: predict(only="total"),
    "Predict, no such model": refusal,
    "Classify": classify,
    "Regress": regress,
    "Predict, strings": predict_strings,
    "Classify, a signature of serialized examples": classify_serialized,
    "MultiInference": multi_inference,
    "GetModelMetadata": metadata,
    "GetModelStatus": status,
    "HandleReloadConfigRequest": reload_config,
    "Health/Check": health,
}


if __name__ == "__main__":
    print_results(CALLS)
