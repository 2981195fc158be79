"""Triton: a model repository with config.pbtxt, for the backend that runs the artifact's format.

Layout and fields: https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs, "Model Repository" and
"Model Configuration".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...models.artifact import RECORD, Artifact
from ...models.formats import Format
from ...models.signature import Signature, TensorSpec
from .bundle_records import BundleSource, Files
from .bundle_templates import RUNTIME, standalone

_DELAY_US = 1000  # that the first request of a batch waits for others
IMAGE = "nvcr.io/nvidia/tritonserver:26.06-py3"  # releases from 25.03 on have no TensorFlow backend
_DATATYPES = {"bool": "TYPE_BOOL", "float16": "TYPE_FP16", "float32": "TYPE_FP32", "float64": "TYPE_FP64"}


@dataclass(frozen=True, slots=True)
class TritonBackend:
    """A backend of Triton, and how it wants the payload of a format."""

    name: str
    payload: str  # the name in the version's folder; "" where model.py opens the artifact
    batches: bool = True  # puts requests together
    reshapes: bool = True  # takes single numbers, which Triton carries as lists of one
    numbered: bool = False  # tensors have no names, so that clients call them NAME__0, NAME__1


BACKENDS: Mapping[Format, TritonBackend] = {
    Format.ONNX: TritonBackend("onnxruntime", "model.onnx"),
    Format.TORCHSCRIPT: TritonBackend("pytorch", "model.pt", numbered=True),
    Format.TFLITE: TritonBackend("python", "", batches=False, reshapes=False),
}


def write_triton(source: BundleSource) -> Files:
    """Return the folder `model_repository` with one model."""
    backend = BACKENDS[source.artifact.target.format]
    model = f"model_repository/{source.name}"
    files: Files = {f"{model}/config.pbtxt": triton_config(source)}
    for name, path in _payload(source.artifact, backend):
        files[f"{model}/{source.version}/{name}"] = path
    if not backend.payload:
        files[f"{model}/{source.version}/model.py"] = standalone("triton_python_model")
        files[f"{model}/{source.version}/{RUNTIME}.py"] = standalone(RUNTIME)
        files["Dockerfile"] = f"FROM {IMAGE}\nRUN pip install --no-cache-dir ai-edge-litert\n"
    return files


def triton_signature(source: BundleSource) -> Signature:
    """Return inputs and outputs as Triton's clients name them."""
    signature = source.artifact.signature
    if not BACKENDS[source.artifact.target.format].numbered:
        return signature
    return Signature(*(_numbered(specs) for specs in (signature.inputs, signature.outputs)))


def triton_config(source: BundleSource) -> str:
    """Return a ModelConfig as text. Triton leaves the batch out of the dims, and gathers requests, where it knows the
    most rows; else the dims are the model's, and a request may have any rows."""
    backend, signature = BACKENDS[source.artifact.target.format], triton_signature(source)
    most = source.limit if has_batches(source) else None
    lines = [
        f'name: "{source.name}"',
        f'backend: "{backend.name}"',
        f"max_batch_size: {most or 0}",
        *(_tensor("input", spec, backend, batched=bool(most)) for spec in signature.inputs),
        *(_tensor("output", spec, backend, batched=bool(most)) for spec in signature.outputs),
    ]
    if most and backend.batches and _takes_every_batch(signature):
        preferred = source.bound_batch
        size = f"preferred_batch_size: [ {preferred} ] " if preferred and preferred <= most else ""
        lines.append(f"dynamic_batching {{ {size}max_queue_delay_microseconds: {_DELAY_US} }}")
    return "\n".join(lines) + "\n"


def has_batches(source: BundleSource) -> bool:
    """Return whether Triton may leave the batch out of the dims: no tensor may have nothing but its batch."""
    signature = source.artifact.signature
    return source.batch_first and all(len(spec.shape) > 1 for spec in (*signature.inputs, *signature.outputs))


def _takes_every_batch(signature: Signature) -> bool:
    bounds = signature.bounds.get(signature.batch or "")
    return bounds is None or bounds.filled.low == 1 == bounds.step


def _payload(artifact: Artifact, backend: TritonBackend) -> Iterator[tuple[str, Path]]:
    """Yield the artifact's files by their names in the version's folder: external data stays beside its graph."""
    for path in sorted(artifact.folder.iterdir()):
        if path.name == artifact.target.format.spec.payload and backend.payload:
            yield backend.payload, path
        elif path.name != RECORD or not backend.payload:
            yield path.name, path


def _numbered(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    return tuple(replace(spec, name=f"{spec.name}__{at}") for at, spec in enumerate(specs))


def _tensor(side: str, spec: TensorSpec, backend: TritonBackend, *, batched: bool) -> str:
    """Return one input or output: -1 is an axis of any size, and a single number a list of one."""
    shape = spec.shape[1:] if batched else spec.shape
    dims = ", ".join(str(axis) if isinstance(axis, int) else "-1" for axis in shape) or "1"
    reshape = "" if shape or not backend.reshapes else " reshape { shape: [ ] }"
    dtype = _DATATYPES.get(spec.dtype) or f"TYPE_{spec.dtype.upper()}"
    return f'{side} {{ name: "{spec.name}" data_type: {dtype} dims: [ {dims} ]{reshape} }}'
