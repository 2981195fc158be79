"""The embedded server as the official Python client sees it: `python official_client.py GRPC REST MODEL`.

Stubs of tensorflow-serving-api, tensors made and read by TensorFlow. Prints what it found as JSON.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

VALUES = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
IDS = np.arange(8).reshape(2, 4)
KEEP = np.array([True, False])


def predict(prediction: Any, model: str) -> dict[str, Any]:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = "serving_default"
    request.inputs["values"].CopyFrom(tf.make_tensor_proto(VALUES))
    request.inputs["ids"].CopyFrom(tf.make_tensor_proto(IDS))
    request.inputs["keep"].CopyFrom(tf.make_tensor_proto(KEEP))
    reply = prediction.Predict(request, 30)
    by_content = {name: tf.make_ndarray(tensor).tolist() for name, tensor in reply.outputs.items()}
    listed = request.inputs["values"]
    listed.ClearField("tensor_content")
    listed.float_val.extend(VALUES.ravel().tolist())
    again = prediction.Predict(request, 30)
    return {
        "outputs": by_content,
        "float_val": {name: tf.make_ndarray(tensor).tolist() for name, tensor in again.outputs.items()},
        "version": reply.model_spec.version.value,
    }


def refusal(prediction: Any) -> list[str]:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "nope"
    try:
        prediction.Predict(request, 30)
    except grpc.RpcError as error:
        return [error.code().name, error.details()]
    return []


def metadata(prediction: Any, model: str) -> dict[str, Any]:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = model
    found = get_model_metadata_pb2.SignatureDefMap()
    prediction.GetModelMetadata(request, 30).metadata["signature_def"].Unpack(found)
    made = found.signature_def["serving_default"]
    return {
        name: [tf.dtypes.as_dtype(info.dtype).name, [dim.size for dim in info.tensor_shape.dim]]
        for name, info in [*made.inputs.items(), *made.outputs.items()]
    }


def status(service: Any, model: str) -> list[Any]:
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = model
    return [
        get_model_status_pb2.ModelVersionStatus.State.Name(row.state)
        for row in service.GetModelStatus(request, 30).model_version_status
    ]


def rest(address: str, model: str) -> Any:
    body = json.dumps({"inputs": {"values": VALUES.tolist(), "ids": IDS.tolist(), "keep": KEEP.tolist()}}).encode()
    with urllib.request.urlopen(f"http://{address}/v1/models/{model}:predict", body, 30) as reply:
        return json.load(reply)


def main(grpc_address: str, rest_address: str, model: str) -> None:
    with grpc.insecure_channel(grpc_address) as channel:
        prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        found = {
            "predict": predict(prediction, model),
            "refusal": refusal(prediction),
            "metadata": metadata(prediction, model),
            "status": status(model_service_pb2_grpc.ModelServiceStub(channel), model),
            "rest": rest(rest_address, model),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
