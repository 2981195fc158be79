"""What TF Serving is given: read back by TensorFlow, and by its own messages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format

from transload.models.formats import Format
from transload.serving.bundles.bundle_records import BundleSource, System
from transload.serving.bundles.systems import bundle_files
from transload.serving.bundles.tfserving_bundle import write_tfserving
from transload.serving.server.repository.batching_parameters import batching_message
from transload.serving.wire.tfrecord import crc32c, write_records

READ_WARM_UP = """
import sys
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2
config = model_server_config_pb2.ModelServerConfig()
text_format.Parse(open(sys.argv[2]).read(), config)
rows = config.model_config_list.config
print([(row.name, row.base_path, row.model_platform) for row in rows])
for record in tf.data.TFRecordDataset(sys.argv[1]):
    log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
    assert log.WhichOneof("log_type") == "predict_log" and not log.predict_log.HasField("response")
    request = log.predict_log.request
    arrays = {name: tf.make_ndarray(tensor).tolist() for name, tensor in request.inputs.items()}
    print([request.model_spec.name, request.model_spec.signature_name, dict(sorted(arrays.items()))])
"""


def test_tensorflow_reads_the_warm_up_requests_and_the_config(
    make_source: Callable[..., BundleSource], tmp_path: Path
) -> None:
    source = make_source(Format.SAVED_MODEL, name="digits", version=7)
    files = write_tfserving(source)
    assert files["models/digits/7"] == source.artifact.path
    warm_up, config = tmp_path / "warm_up", tmp_path / "models.config"
    warm_up.write_bytes(_bytes(files["models/digits/7/assets.extra/tf_serving_warmup_requests"]))
    config.write_text(str(files["models/models.config"]))
    argv = [sys.executable, "-W", "ignore", "-c", READ_WARM_UP, str(warm_up), str(config)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    config_row, *requests = done.stdout.splitlines()
    assert config_row == "[('digits', '/models/digits', 'tensorflow')]"
    wanted = [
        ["digits", "serving_default", {name: call.inputs[name].tolist() for name in ("ids", "image")}]
        for call in source.golden.calls
    ]
    assert requests == [str(row) for row in wanted]


def _bytes(content: Any) -> bytes:
    assert isinstance(content, bytes)
    return content


def test_a_large_record_has_the_length_of_its_messages(make_source: Callable[..., BundleSource]) -> None:
    source = make_source(Format.SAVED_MODEL)
    source.golden.calls[0].inputs["image"].resize((300, 2, 3), refcheck=False)
    content = _bytes(write_tfserving(source)["models/model/1/assets.extra/tf_serving_warmup_requests"])
    assert len(content) > 7200
    length = int.from_bytes(content[:8], "little")
    assert content[12] == 6 << 3 | 2
    assert content[13] | 0x80 == content[13]  # a varint of two bytes
    assert (content[13] & 0x7F) | content[14] << 7 == length - 3


def batching(source: BundleSource) -> Any:
    return text_format.Parse(str(write_tfserving(source)["models/batching.config"]), batching_message()())


def test_batches_are_as_large_as_the_model_takes(
    make_source: Callable[..., BundleSource], signatures: dict[str, Any]
) -> None:
    free = make_source(Format.SAVED_MODEL)
    assert "models/batching.config" not in write_tfserving(free), "TF Serving gathers with a limit alone"
    assert "enable_batching" not in str(bundle_files(free, System.TFSERVING)["README.md"])
    limited = make_source(Format.SAVED_MODEL, max_batch=64)
    assert (batching(limited).max_batch_size.value, list(batching(limited).allowed_batch_sizes)) == (64, [])
    assert "--enable_batching" in str(bundle_files(limited, System.TFSERVING)["README.md"])
    bounded = batching(make_source(Format.SAVED_MODEL, signatures["bounded"](4, 12, 4)))
    assert (bounded.max_batch_size.value, list(bounded.allowed_batch_sizes)) == (12, [4, 8, 12])
    assert batching(make_source(Format.SAVED_MODEL, signatures["bounded"](1, 9))).max_batch_size.value == 9


def test_a_model_without_a_batch_is_not_batched(
    make_source: Callable[..., BundleSource], signatures: dict[str, Any]
) -> None:
    source = make_source(Format.SAVED_MODEL, signatures["scalars"])
    assert "models/batching.config" not in write_tfserving(source)
    assert "enable_batching" not in str(bundle_files(source, System.TFSERVING)["README.md"])


def test_crc_32c_and_the_mask_are_the_published_ones() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720, and every catalogue of CRCs
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    record = write_records([b"ab", b""])
    assert record[:8] == (2).to_bytes(8, "little")
    assert record[12:14] == b"ab"
    assert len(record) == 2 * 16 + 2
    assert np.frombuffer(record[8:12], "<u4")[0] != crc32c(record[:8])
