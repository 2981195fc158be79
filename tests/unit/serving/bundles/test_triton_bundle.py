"""config.pbtxt and the model repository, for each backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from transload.models.formats import Format
from transload.models.signature import Signature, TensorSpec
from transload.serving.bundles.bundle_records import BundleSource, System
from transload.serving.bundles.systems import bundle_files
from transload.serving.bundles.triton_bundle import triton_config, write_triton

IMAGES = Signature(
    (TensorSpec("image", "float32", ("batch", 3, "height", 8)),),
    (TensorSpec("logits", "float16", ("batch", 10)), TensorSpec("valid", "bool", ("batch", 1))),
)


def test_a_model_with_a_batch_leaves_it_to_triton(make_source: Callable[..., BundleSource]) -> None:
    assert triton_config(make_source(Format.ONNX, IMAGES, name="digits", max_batch=64)) == (
        'name: "digits"\n'
        'backend: "onnxruntime"\n'
        "max_batch_size: 64\n"
        'input { name: "image" data_type: TYPE_FP32 dims: [ 3, -1, 8 ] }\n'
        'output { name: "logits" data_type: TYPE_FP16 dims: [ 10 ] }\n'
        'output { name: "valid" data_type: TYPE_BOOL dims: [ 1 ] }\n'
        "dynamic_batching { max_queue_delay_microseconds: 1000 }\n"
    )


def test_without_a_limit_triton_has_none(make_source: Callable[..., BundleSource]) -> None:
    config = triton_config(make_source(Format.ONNX, IMAGES))
    assert "max_batch_size: 0\n" in config
    assert 'input { name: "image" data_type: TYPE_FP32 dims: [ -1, 3, -1, 8 ] }\n' in config
    assert "dynamic_batching" not in config


def test_a_tensor_that_is_nothing_but_its_batch_keeps_it(make_source: Callable[..., BundleSource]) -> None:
    config = triton_config(make_source(Format.ONNX))
    assert "max_batch_size: 0\n" in config
    assert 'input { name: "ids" data_type: TYPE_INT64 dims: [ -1 ] }\n' in config
    assert "dynamic_batching" not in config


def test_single_numbers_are_lists_of_one(make_source: Callable[..., BundleSource], signatures: dict[str, Any]) -> None:
    config = triton_config(make_source(Format.ONNX, signatures["scalars"]))
    assert 'input { name: "factor" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }\n' in config
    config = triton_config(make_source(Format.TFLITE, signatures["scalars"]))  # model.py takes the list of one itself
    assert 'input { name: "factor" data_type: TYPE_FP32 dims: [ 1 ] }\n' in config


@pytest.mark.parametrize(("low", "step", "batches"), [(1, 1, True), (4, 4, False), (2, 1, False)])
def test_requests_are_put_together_where_every_batch_is_taken(
    make_source: Callable[..., BundleSource], signatures: dict[str, Any], low: int, step: int, batches: bool
) -> None:
    image = signatures["bounded"](low, 12, step).inputs[0]
    source = make_source(Format.ONNX, Signature((image,), IMAGES.outputs))
    assert "max_batch_size: 12\n" in triton_config(source)
    assert ("dynamic_batching" in triton_config(source)) == batches


@pytest.mark.parametrize(("batch", "size"), [(16, "preferred_batch_size: [ 16 ] "), (65, ""), (None, "")])
def test_the_batch_within_a_latency_bound_is_preferred(
    make_source: Callable[..., BundleSource], batch: int | None, size: str
) -> None:
    source = replace(make_source(Format.ONNX, IMAGES, max_batch=64), bound_batch=batch)
    assert f"dynamic_batching {{ {size}max_queue_delay_microseconds: 1000 }}" in triton_config(source)


def test_torchscript_has_no_names_so_that_clients_count(make_source: Callable[..., BundleSource]) -> None:
    source = make_source(Format.TORCHSCRIPT, IMAGES)
    config = triton_config(source)
    assert 'input { name: "image__0" ' in config
    assert 'output { name: "valid__1" ' in config
    golden = str(bundle_files(source, System.TRITON)["golden.json"])
    assert '"name": "image__0"' in golden
    assert '"name": "logits__0"' in golden


LAYOUTS = [
    (Format.ONNX, "onnxruntime", "model.onnx"),
    (Format.TORCHSCRIPT, "pytorch", "model.pt"),
]


@pytest.mark.parametrize(("form", "backend", "payload"), LAYOUTS)
def test_the_payload_has_the_name_that_its_backend_looks_for(
    make_source: Callable[..., BundleSource], form: Format, backend: str, payload: str
) -> None:
    source = make_source(form, name="digits", version=3)
    files = write_triton(source)
    assert files.pop(f"model_repository/digits/3/{payload}") == source.artifact.path
    config = str(files.pop("model_repository/digits/config.pbtxt"))
    assert f'backend: "{backend}"\n' in config
    assert files == {}


def test_external_data_stays_beside_its_graph(make_source: Callable[..., BundleSource]) -> None:
    source = make_source(Format.ONNX)
    data = source.artifact.folder / "model.onnx.data"
    data.write_bytes(b"weights")
    assert write_triton(source)["model_repository/model/1/model.onnx.data"] == data


def test_tflite_is_opened_by_the_python_backend(make_source: Callable[..., BundleSource]) -> None:
    files = write_triton(make_source(Format.TFLITE))
    inside = {name.removeprefix("model_repository/model/1/") for name in files}
    assert inside == {
        "model_repository/model/config.pbtxt", "Dockerfile", "model.py", "artifact_runtime.py", "artifact.json",
        "model.tflite",
    }  # fmt: skip
    assert "ai-edge-litert" in str(files["Dockerfile"])
