"""The table of systems: what each takes, what it refuses and how, and what every bundle has."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.models.formats import Format
from transload.models.signature import Signature
from transload.serving.bundles.bundle_records import AnswerLimit, BundleSource, System
from transload.serving.bundles.systems import SYSTEMS, bundle_files, check_limit, check_taken, service_name

PAIRS = [(system, form) for system, row in SYSTEMS.items() for form in row.takes]


def test_the_table_has_every_system() -> None:
    assert list(SYSTEMS) == list(System)


@pytest.mark.parametrize(("system", "form"), PAIRS)
def test_every_bundle_has_golden_samples_and_their_check(
    make_source: Callable[..., BundleSource], system: System, form: Format
) -> None:
    files = bundle_files(make_source(form, name="digits"), system)
    assert {"golden.json", "check.py", "check.sh", "README.md"} < set(files)
    golden = json.loads(str(files["golden.json"]))
    assert len(golden["calls"]) == 2
    assert golden["url"].startswith("http://127.0.0.1:")
    readme = str(files["README.md"])
    assert f"./check.sh {golden['url']}" in readme
    assert "{" not in golden["path"]


def test_wrong_formats_are_refused_with_the_conversion_that_helps() -> None:
    with pytest.raises(BadRequest) as error:
        check_taken("made/torchscript", Format.TORCHSCRIPT, System.TFSERVING)
    assert str(error.value) == (
        "made/torchscript is of the format torchscript, and tfserving takes saved-model\n"
        "  fix: transload convert made/torchscript --to saved-model --out DIR, and bundle DIR/saved-model"
    )


def test_flex_is_refused() -> None:
    with pytest.raises(BadRequest, match="needs TensorFlow's Flex delegate, which no server here has") as error:
        check_taken("made/tflite", Format.TFLITE, System.DOCKER, flex=True)
    assert error.value.fix == "bundle the model as saved-model or onnx or torchscript or pt2 or keras"


@pytest.mark.parametrize("least_db", [float("nan"), float("inf")])
def test_a_tolerance_is_a_number(least_db: float) -> None:
    with pytest.raises(ValueError, match="a tolerance is a number"):
        AnswerLimit(least_db, 0.0)


def test_a_request_has_the_rows_that_the_model_or_the_option_says(
    make_source: Callable[..., BundleSource], signatures: dict[str, Any]
) -> None:
    bounded = signatures["bounded"](2, 8, 2)
    assert make_source(Format.ONNX).batch_first
    assert not make_source(Format.ONNX, signatures["scalars"]).batch_first
    assert make_source(Format.ONNX, bounded).limit == 8
    assert make_source(Format.ONNX, bounded, max_batch=4).limit == 4
    assert make_source(Format.ONNX, signatures["bounded"](100, None)).limit is None, "no bound that the model lacks"
    for signature, words in (
        (bounded, "--max-batch 9: the model takes batch=2..8:2"),
        (signatures["scalars"], "tfserving cannot gather requests to this model"),
    ):
        with pytest.raises(BadRequest, match=words):
            check_limit(make_source(Format.SAVED_MODEL, signature, max_batch=9), System.TFSERVING)
    with pytest.raises(BadRequest, match="docker has no setting that needs it\n  fix: leave --max-batch out"):
        check_limit(make_source(Format.ONNX, max_batch=8), System.DOCKER)


@pytest.mark.parametrize("system", System)
def test_the_readme_and_the_check_say_the_same_limit(
    make_source: Callable[..., BundleSource], signatures: dict[str, Any], system: System
) -> None:
    image = signatures["bounded"](1, None).inputs[0]
    signature = Signature((image,), signatures["batched"].outputs[:1])
    form = SYSTEMS[system].takes[0]

    def pages(signature: Signature, **fields: Any) -> tuple[str, Any]:
        files = bundle_files(make_source(form, signature, **fields), system)
        rows = json.loads(str(files["golden.json"])).get("rows")
        assert rows is None or rows.pop("most_numbers") == SYSTEMS[system].most_numbers
        return str(files["README.md"]), rows

    readme, rows = pages(signature)
    assert "A request may have any number of rows" in readme
    assert ("--max-batch N" in readme) == (SYSTEMS[system].gathers is not None)
    assert rows == {"limit": None}
    bounded = Signature((signatures["bounded"](1, 8).inputs[0],), signature.outputs)
    readme, rows = pages(bounded)
    if system is System.SAGEMAKER:  # TF Serving's container, which has no settings of ours
        assert rows is None
    else:
        assert "A request may have 8 rows at most, as the model declares." in readme
        assert rows == {"limit": 8}
    if SYSTEMS[system].gathers:
        readme, rows = pages(signature, max_batch=16)
        assert "A request may have 16 rows at most, as --max-batch said." in readme
        assert rows == {"limit": 16}


def test_what_asks_whether_a_model_is_ready_asks_about_every_model(make_source: Callable[..., BundleSource]) -> None:
    """The server's /healthz tells of its process alone."""
    for system in (System.DOCKER, System.VERTEX, System.KSERVE):
        texts = [text for text in bundle_files(make_source(Format.ONNX), system).values() if isinstance(text, str)]
        assert not any("8501/healthz" in text or "health=/healthz" in text for text in texts)
        assert any("/v2/health/ready" in text or "/v2/models/model/ready" in text for text in texts)


@pytest.mark.parametrize(("name", "service"), [("digits", "digits"), ("2.0_A", "model-2-0-a"), ("a--b.", "a-b")])
def test_kubernetes_takes_the_name(name: str, service: str) -> None:
    assert service_name(name) == service


def test_kserves_service_runs_triton_on_the_volume(make_source: Callable[..., BundleSource]) -> None:
    files = bundle_files(make_source(Format.ONNX, name="Digits_2"), System.KSERVE)
    assert files["inference-service.yaml"] == (
        "apiVersion: serving.kserve.io/v1beta1\n"
        "kind: InferenceService\n"
        "metadata:\n"
        "  name: digits-2\n"
        "spec:\n"
        "  predictor:\n"
        "    model:\n"
        "      modelFormat:\n"
        "        name: onnx\n"
        '        version: "1"\n'
        "      protocolVersion: v2\n"
        "      runtime: kserve-tritonserver\n"
        "      runtimeVersion: 26.06-py3\n"
        "      storageUri: pvc://models/Digits_2\n"
        "      readinessProbe: # the server's own liveness says nothing of the model\n"
        "        httpGet:\n"
        "          path: /v2/models/Digits_2/ready\n"
        "          port: 8080\n"
    )
    readme = str(files["README.md"])
    assert "service/digits-2-predictor 8080:80" in readme
    assert "service/istio-ingressgateway 8080:80" in readme  # Knative's services have no pod to forward to


@pytest.mark.parametrize("system", [System.TRITON, System.KSERVE])
def test_triton_without_tensorflow_takes_the_way_through_onnx(system: System) -> None:
    with pytest.raises(BadRequest) as error:
        check_taken("made/saved-model", Format.SAVED_MODEL, system)
    assert error.value.fix == "transload convert made/saved-model --to onnx --out DIR, and bundle DIR/onnx"


def test_mlserver_gets_a_runtime_and_the_models_metadata(make_source: Callable[..., BundleSource]) -> None:
    files = bundle_files(make_source(Format.ONNX, name="digits", version=4), System.MLSERVER)
    settings = json.loads(str(files["model-settings.json"]))
    assert (settings["name"], settings["parameters"]) == ("digits", {"version": "4"})
    assert settings["implementation"] == "artifact_model.ArtifactRuntime"
    assert settings["inputs"][0] == {"name": "image", "datatype": "FP32", "shape": [-1, 2, 3]}
    assert "class ArtifactRuntime(MLModel)" in str(files["artifact_model.py"])
    assert json.loads(str(files["settings.json"]))["host"] == "127.0.0.1"
    assert files["requirements.txt"] == "mlserver\nnumpy\nonnxruntime\n"
