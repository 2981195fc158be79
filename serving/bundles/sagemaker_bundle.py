"""SageMaker: model.tar.gz in the layout of the container that runs the artifact's format, with inference code.

AWS's TensorFlow container is TF Serving, and takes a SavedModel as it is (github.com/aws/sagemaker-tensorflow-serving-
container). Its PyTorch container calls the functions of code/inference.py (github.com/aws/sagemaker-pytorch-inference-
toolkit); it runs the other formats, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...models.artifact import TUNING
from ...models.formats import Format
from .bundle_records import Archive, ArchiveKind, BundleSource, Dialect, Files
from .standalone_files import RUNTIME, standalone

# What code/requirements.txt adds to the PyTorch container; None: the TensorFlow container, which runs no code of ours.
LIBRARIES: Mapping[Format, str | None] = {
    Format.SAVED_MODEL: None,
    Format.TORCHSCRIPT: "",
    Format.ONNX: "onnxruntime\n",
    Format.TFLITE: "ai-edge-litert\n",
}

_CHECK_ENDPOINT = """#!/bin/sh
# Check a SageMaker endpoint: ./check-endpoint.sh ENDPOINT. It needs the AWS CLI, which signs the requests.
set -eu
endpoint=$1
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$here/check.py" --write-requests "$work"
for request in "$work"/request-*.json; do
  number=${request##*-}
  aws sagemaker-runtime invoke-endpoint --endpoint-name "$endpoint" --content-type application/json \\
    --body "fileb://$request" "$work/answer-$number"
done
python3 "$here/check.py" --read-answers "$work"
"""


def write_sagemaker(source: BundleSource) -> Files:
    """Return model.tar.gz, and the script that checks an endpoint."""
    return {
        "model.tar.gz": Archive(ArchiveKind.TAR_GZ, _members(source)),
        "check-endpoint.sh": _CHECK_ENDPOINT,
    }


def start_sagemaker(source: BundleSource) -> str:
    """Return what is done to get an endpoint."""
    container = "TensorFlow" if LIBRARIES[source.artifact.target.format] is None else "PyTorch"
    return (
        f"aws s3 cp model.tar.gz s3://BUCKET/{source.name}/model.tar.gz\n"
        f"# create a model of it with AWS's {container} inference container, and an endpoint; then\n"
        "./check-endpoint.sh ENDPOINT"
    )


def sagemaker_dialect(source: BundleSource) -> Dialect:
    """Return how the container is asked: TF Serving's JSON, or the Open Inference Protocol of the bundle's code."""
    return Dialect.COLUMNS if LIBRARIES[source.artifact.target.format] is None else Dialect.V2


def _members(source: BundleSource) -> dict[str, str | Path]:
    libraries = LIBRARIES[source.artifact.target.format]
    if libraries is None:
        return {f"{source.name}/{source.version}": source.artifact.path}
    members: dict[str, str | Path] = {path.name: path for path in sorted(source.artifact.folder.iterdir())}
    if source.tuning is not None:
        members[TUNING] = source.tuning
    members["code/inference.py"] = standalone("sagemaker_inference_code")
    members[f"code/{RUNTIME}.py"] = standalone(RUNTIME)
    if libraries:
        members["code/requirements.txt"] = libraries
    return members
