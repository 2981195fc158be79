"""What the Open Inference Protocol tells about a server and its models, as JSON documents; no wire is known here.

The same documents answer over HTTP and, put into messages, over gRPC. The extensions and the words of refusals are
Triton's (triton-inference-server/server: docs/protocol/, src/http_server.cc, core/src/model_repository_manager.cc).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import __version__
from ...models.signature import STRINGS, Axis, Signature, TensorSpec
from ..wire.oip_tensors import BY_DTYPE, shown
from .repository.body_decoders import SIGNATURE
from .repository.model_repository import Repository, VersionStatus
from .repository.served_version import ServedVersion
from .repository.version_keeper import ModelState
from .serving_error import Code, ServingError, invalid, not_found

EXTENSIONS = ("model_repository", "model_configuration", "binary_tensor_data", "statistics")
_PLATFORMS = {
    "onnxruntime": ("onnxruntime_onnx", "onnxruntime"),
    "tensorflow": ("tensorflow_savedmodel", "tensorflow"),
    "torchscript": ("pytorch_libtorch", "pytorch"),
}  # a runtime as Triton names it: platform and backend
_STATES = {
    ModelState.START: "LOADING",
    ModelState.LOADING: "LOADING",
    ModelState.AVAILABLE: "READY",
    ModelState.UNLOADING: "UNLOADING",
    ModelState.END: "UNAVAILABLE",
}
_MOST_BATCH = (1 << 31) - 1  # int32: no limit is known


def find(repository: Repository, name: str, version: str) -> ServedVersion:
    """Return the version that a request means, the latest where `version` is empty. Raises ServingError."""
    number = parse_version(version)
    try:
        return repository.find(name, number)
    except ServingError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        where = "" if number is None else f" version {number}"
        raise not_found(f"Request for unknown model: {shown(name)}{where} is not found") from error


def with_signature(served: ServedVersion, name: str) -> ServedVersion:
    """Return a version as the signature that a request's parameter names, `serving_default` where it names none.
    Raises ServingError INVALID_ARGUMENT."""
    if (chosen := served.signatures.get(name or SIGNATURE)) is None:
        known = ", ".join(served.signatures)
        raise invalid(f"the model {shown(served.name)} has no signature {shown(name)}; it has {known}")
    return chosen


def parse_version(text: str) -> int | None:
    """Return the version that a text names, None where it is empty. Raises ServingError INVALID_ARGUMENT."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise invalid(f"a version is a number, got {shown(text)}")
    return int(text)


def is_ready(repository: Repository) -> bool:
    """Whether the server takes requests, and all its models answer."""
    return repository.admission.is_ready and repository.is_available


def is_model_ready(repository: Repository, name: str, version: str) -> bool:
    """Whether a model is there and answers. Raises ServingError INVALID_ARGUMENT of a version that is no number."""
    try:
        repository.find(name, parse_version(version))
    except ServingError as error:
        if error.code is Code.INVALID_ARGUMENT:
            raise
        return False
    return repository.admission.is_ready


def server_metadata() -> dict[str, Any]:
    """Return name, version and extensions of the server."""
    return {"name": "transload", "version": __version__, "extensions": list(EXTENSIONS)}


def model_metadata(repository: Repository, served: ServedVersion) -> dict[str, Any]:
    """Return names, datatypes and shapes of a model; an axis of any size is -1."""
    ready = [status.number for status in repository.statuses(served.name) if status.state is ModelState.AVAILABLE]
    return {
        "name": served.name,
        "versions": [str(number) for number in sorted(ready)],
        "platform": _platform(served)[0],
        "inputs": [_metadata_row(spec) for spec in served.signature.inputs],
        "outputs": [_metadata_row(spec) for spec in served.signature.outputs],
    }


def _metadata_row(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": BY_DTYPE[spec.dtype].name, "shape": _dims(spec.shape)}


def model_config(served: ServedVersion) -> dict[str, Any]:
    """Return a model's configuration. Where every tensor begins with the batch, it is left out of `dims`."""
    platform, backend = _platform(served)
    axis = leading_batch(served.signature)
    skip = 0 if axis is None else 1
    most = 0
    if axis is not None:
        bounds = served.signature.bounds.get(axis)
        most = _MOST_BATCH if bounds is None or bounds.high is None else bounds.high
    return {
        "name": served.name,
        "platform": platform,
        "backend": backend,
        "max_batch_size": most,
        "input": [_config_row(spec, skip) for spec in served.signature.inputs],
        "output": [_config_row(spec, skip) for spec in served.signature.outputs],
    }


def leading_batch(signature: Signature) -> str | None:
    """Return the batch axis if all inputs and outputs begin with it and have more axes, else None."""
    axis = signature.batch
    shapes = [spec.shape for spec in (*signature.inputs, *signature.outputs)]
    return axis if axis is not None and all(shape[:1] == (axis,) and len(shape) > 1 for shape in shapes) else None


def _config_row(spec: TensorSpec, skip: int) -> dict[str, Any]:
    kind = "STRING" if spec.dtype == STRINGS else BY_DTYPE[spec.dtype].name
    return {"name": spec.name, "data_type": f"TYPE_{kind}", "dims": _dims(spec.shape[skip:])}


def _dims(shape: Sequence[Axis]) -> list[int]:
    return [-1 if isinstance(axis, str) else axis for axis in shape]


def _platform(served: ServedVersion) -> tuple[str, str]:
    return _PLATFORMS.get(served.runtime, (served.runtime, served.runtime))


def statistics(repository: Repository, name: str, version: str) -> dict[str, Any]:
    """Return the statistics of a version; without `version` of all of a model, without `name` of all models.
    Raises ServingError."""
    rows = []
    if name:
        find(repository, name, version)
    wanted = parse_version(version)
    for model in [name] if name else repository.names:
        for status in _statuses(repository, model):
            if status.state is ModelState.AVAILABLE and wanted in {None, status.number}:
                counts = repository.statistics.of(model, status.number)
                rows.append({"name": model, "version": str(status.number), **counts})
    return {"model_stats": rows}


def _statuses(repository: Repository, name: str) -> list[VersionStatus]:
    """Return the states of a model's versions; none of one that is not loaded."""
    try:
        return repository.statuses(name)
    except ServingError:
        return []


def index(repository: Repository, *, ready: bool) -> list[dict[str, str]]:
    """Return the models of the repository and the state of each version; `ready`: only those that answer."""
    rows = []
    for name in repository.names:
        statuses = _statuses(repository, name)
        if not statuses:
            rows.append({"name": name, "version": "", "state": "UNAVAILABLE", "reason": "unloaded"})
        for status in statuses:
            reason = "unloaded" if status.state is ModelState.END else ""
            rows.append({
                "name": name,
                "version": str(status.number),
                "state": _STATES[status.state],
                "reason": status.failure.what if status.failure else reason,
            })  # fmt: skip
    return [row for row in rows if row["state"] == "READY" or not ready]


def load(repository: Repository, name: str, parameters: Sequence[str], timeout_s: float | None = None) -> None:
    """Load a model that the server was started with; return when it answers. Raises ServingError, TransloadError."""
    if parameters:
        names = ", ".join(sorted(parameters))
        raise invalid(f"failed to load {shown(name)}: parameters are not taken: {names[:60]}")
    repository.load(name, timeout_s=timeout_s)


def unload(repository: Repository, name: str) -> None:
    """Take a model out. Raises ServingError."""
    repository.unload(name)


def check_outputs(served: ServedVersion, names: Sequence[str]) -> Sequence[str]:
    """Return the outputs to answer with: the requested ones, or all. Raises ServingError INVALID_ARGUMENT."""
    known = served.output_names
    for at, name in enumerate(names):
        if name not in known:
            raise invalid(f"unexpected inference output {shown(name)} for model {shown(served.name)}")
        if name in names[:at]:
            raise invalid(f"output {shown(name)} is requested twice")
    return names or known
