"""TF Serving: the SavedModel in its version folder, warm-up requests, and the files that the server is started with.

Layout and files: https://www.tensorflow.org/tfx/serving/serving_config and .../saved_model_warmup.
"""

from __future__ import annotations

from ..wire.tensor_proto import encode
from ..wire.tfrecord import write_records
from ..wire.tfserving_messages import stock
from .bundle_records import BundleSource, Files, GoldenCall

_SIGNATURE = "serving_default"
_PREDICT_LOG, _REQUEST = 6, 1  # fields of PredictionLog and PredictLog (tensorflow_serving/apis/prediction_log.proto)
_TIMEOUT_US = 1000  # that the first request of a batch waits for others
_QUEUED_BATCHES = 100
_MOST_SIZES = 64  # in a list of allowed batch sizes


def write_tfserving(source: BundleSource) -> Files:
    """Return the folder `models`, which the server's container mounts, as its documentation does."""
    version = f"models/{source.name}/{source.version}"
    warm_up = write_records(_prediction_log(source, call) for call in source.golden.calls)
    files: Files = {
        version: source.artifact.path,
        f"{version}/assets.extra/tf_serving_warmup_requests": warm_up,
        "models/models.config": _models_config(source),
    }
    if source.limit is not None and can_batch(source):
        files["models/batching.config"] = _batching_config(source, source.limit)
    return files


def can_batch(source: BundleSource) -> bool:
    """Return whether TF Serving may put requests together: it refuses those of unlike sizes within a batch."""
    signature = source.artifact.signature
    axes = {axis for spec in signature.inputs for axis in spec.dynamic_axes.values()}
    return source.batch_first and axes == {signature.batch}


def _models_config(source: BundleSource) -> str:
    return (
        "model_config_list {\n"
        "  config {\n"
        f'    name: "{source.name}"\n'
        f'    base_path: "/models/{source.name}"\n'
        '    model_platform: "tensorflow"\n'
        "  }\n"
        "}\n"
    )


def _batching_config(source: BundleSource, most: int) -> str:
    """Return BatchingParameters as text. Sizes are padded only where the model does not take each of them."""
    signature = source.artifact.signature
    lines = [
        f"max_batch_size {{ value: {most} }}",
        f"batch_timeout_micros {{ value: {_TIMEOUT_US} }}",
        f"max_enqueued_batches {{ value: {_QUEUED_BATCHES} }}",
    ]
    bounds = signature.bounds.get(signature.batch or "")
    if bounds is not None and bounds.filled.low > 1:
        sizes = range(bounds.filled.low, most + 1, bounds.step)[-_MOST_SIZES:]
        lines += [f"allowed_batch_sizes: {size}" for size in sizes]
    return "\n".join(lines) + "\n"


def _prediction_log(source: BundleSource, call: GoldenCall) -> bytes:
    """Return a PredictionLog that holds a PredictRequest. The two messages around the request are two headers."""
    request = stock().PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = source.name, _SIGNATURE
    for name, array in call.inputs.items():
        encode(array, request.inputs[name])
    return _message_field(_PREDICT_LOG, _message_field(_REQUEST, request.SerializeToString(deterministic=True)))


def _message_field(number: int, content: bytes) -> bytes:
    """Return a field of a message that is itself a message: its tag, the length as a varint, the content."""
    length, size = b"", len(content)
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content
