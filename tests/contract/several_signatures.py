"""Serve a SavedModel of several signatures below FOLDER, and print what TF Serving's own stubs get of each."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import grpc
import tensorflow as tf
from tensorflow_serving.apis import inference_pb2, predict_pb2, prediction_service_pb2_grpc

from transload.models.artifact import write_artifact
from transload.models.formats import Format, Target
from transload.models.signature import Signature, TensorSpec
from transload.serving.server.embedded import open_server


class Model(tf.Module):
    def __init__(self) -> None:
        self.weight = tf.Variable(tf.reshape(tf.range(6, dtype=tf.float32), (2, 3)))

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def scores(self, x: Any) -> Any:
        return {"scores": x @ self.weight}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def value(self, x: Any) -> Any:
        return {"value": tf.reduce_sum(x @ self.weight, 1)}

    @tf.function(
        input_signature=[tf.TensorSpec([], tf.float32, name="a"), tf.TensorSpec([None, None], tf.int32, name="b")]
    )
    def scale(self, a: Any, b: Any) -> Any:
        return {"c": a * tf.cast(b, tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def length(self, text: Any) -> Any:
        return {"length": tf.strings.length(text)}


def main(folder: Path) -> None:
    model = Model()
    signatures = {"serving_default": model.scores, "value": model.value, "scale": model.scale, "text": model.length}
    tf.saved_model.save(model, str(folder / Format.SAVED_MODEL.spec.payload), signatures=signatures)
    specs = TensorSpec("x", "float32", ("batch", 2)), TensorSpec("scores", "float32", ("batch", 3))
    write_artifact(folder, Target(Format.SAVED_MODEL), Signature(specs[:1], specs[1:]))
    server = open_server(folder=str(folder), name="m", device="cpu", threads=1)
    stub = prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel(server.addresses()["grpc"]))
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "m", "scale"
    request.inputs["a"].CopyFrom(tf.make_tensor_proto(3.0))
    request.inputs["b"].CopyFrom(tf.make_tensor_proto([[1, 2, 3]], tf.int32))
    scaled = stub.Predict(request, 60)
    words = predict_pb2.PredictRequest()
    words.model_spec.name, words.model_spec.signature_name = "m", "text"
    words.inputs["text"].CopyFrom(tf.make_tensor_proto([b"a", b"cat", b""]))
    lengths = stub.Predict(words, 60).outputs["length"]
    tasks = inference_pb2.MultiInferenceRequest()
    for name, method in (("value", "regress"), ("serving_default", "classify")):
        task = tasks.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name, task.model_spec.signature_name = "m", name
    tasks.input.example_list.examples.add().features.feature["x"].float_list.value.extend([1, 1])
    value, scores = stub.MultiInference(tasks, 60).results
    server.close()
    print(json.dumps({
        "scale": [scaled.model_spec.signature_name, tf.make_ndarray(scaled.outputs["c"]).tolist()],
        "text": tf.make_ndarray(lengths).tolist(),
        "value": [value.model_spec.signature_name, value.regression_result.regressions[0].value],
        "scores": [item.score for item in scores.classification_result.classifications[0].classes],
    }))  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
