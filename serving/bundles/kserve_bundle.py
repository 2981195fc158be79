"""KServe: an InferenceService that runs Triton on a volume with the bundle's model repository.

Fields: https://kserve.github.io/website, "InferenceService" of serving.kserve.io/v1beta1. The cluster's runtime is
kserve-tritonserver, which is part of KServe and speaks the Open Inference Protocol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...models.formats import Format
from .bundle_records import BundleSource, Files
from .triton_bundle import image_of, write_triton

CLAIM = "models"  # the volume claim that storageUri names

# Name and version of each format among those that kserve-tritonserver lists.
MODEL_FORMATS: Mapping[Format, tuple[str, str]] = {
    Format.ONNX: ("onnx", "1"),
    Format.SAVED_MODEL: ("tensorflow", "2"),
    Format.TORCHSCRIPT: ("pytorch", "1"),
}


def write_kserve(source: BundleSource) -> Files:
    """Return Triton's model repository, and the InferenceService."""
    return {**write_triton(source), "inference-service.yaml": _inference_service(source)}


def start_kserve(source: BundleSource) -> str:
    """Return the commands that start the service and open a port to it."""
    return (
        f"# copy the content of model_repository/ to the folder {source.name} of the volume claim {CLAIM}, then\n"
        "kubectl apply -f inference-service.yaml\n"
        f"kubectl port-forward service/{service_name(source.name)}-predictor 8080:80"
    )


def service_name(name: str) -> str:
    """Return the name as Kubernetes takes it: small letters, digits and hyphens, with a letter first."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return plain if plain[:1].isalpha() else f"model-{plain}"


def _inference_service(source: BundleSource) -> str:
    form, version = MODEL_FORMATS[source.artifact.target.format]
    tag = image_of(source.artifact.target.format).rpartition(":")[2]
    return (
        "apiVersion: serving.kserve.io/v1beta1\n"
        "kind: InferenceService\n"
        "metadata:\n"
        f"  name: {service_name(source.name)}\n"
        "spec:\n"
        "  predictor:\n"
        "    model:\n"
        "      modelFormat:\n"
        f"        name: {form}\n"
        f'        version: "{version}"\n'
        "      protocolVersion: v2\n"
        "      runtime: kserve-tritonserver\n"
        f"      runtimeVersion: {tag}\n"
        f"      storageUri: pvc://{CLAIM}/{source.name}\n"
    )
