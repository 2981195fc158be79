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


def write_sagemaker(source: BundleSource) -> Files:
    """Return model.tar.gz."""
    return {"model.tar.gz": Archive(ArchiveKind.TAR_GZ, _members(source))}


def sagemaker_image(source: BundleSource) -> str:
    """Return AWS's container and its version, as its registry names them."""
    is_code = LIBRARIES.get(source.artifact.target.format) is not None
    return "pytorch-inference:2.6.0" if is_code else "tensorflow-inference:2.19.0"


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
