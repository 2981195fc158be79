"""The InferenceService names a runtime, a format and a volume; its name is one that Kubernetes takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from transload.models.formats import Format
from transload.serving.bundles.bundle_records import BundleSource
from transload.serving.bundles.kserve_bundle import service_name, start_kserve, write_kserve


def test_the_service_runs_triton_on_the_volume(make_source: Callable[..., BundleSource]) -> None:
    source = make_source(Format.SAVED_MODEL, name="Digits_2")
    files = write_kserve(source)
    assert files["inference-service.yaml"] == (
        "apiVersion: serving.kserve.io/v1beta1\n"
        "kind: InferenceService\n"
        "metadata:\n"
        "  name: digits-2\n"
        "spec:\n"
        "  predictor:\n"
        "    model:\n"
        "      modelFormat:\n"
        "        name: tensorflow\n"
        '        version: "2"\n'
        "      protocolVersion: v2\n"
        "      runtime: kserve-tritonserver\n"
        "      runtimeVersion: 25.02-py3\n"
        "      storageUri: pvc://models/Digits_2\n"
    )
    assert files["model_repository/Digits_2/1/model.savedmodel"] == source.artifact.path
    assert "service/digits-2-predictor" in start_kserve(source)


@pytest.mark.parametrize(("name", "service"), [("digits", "digits"), ("2.0_A", "model-2-0-a"), ("a--b.", "a-b")])
def test_kubernetes_takes_the_name(name: str, service: str) -> None:
    assert service_name(name) == service
