"""The table of serving systems, and the files of a bundle: the system's own, the golden samples, and their check."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ...models.artifact import RECORD, TUNING
from ...models.errors import BadRequest
from ...models.formats import Format
from ...models.signature import Signature, TensorSpec
from .bundle_records import ARTIFACT, Archive, ArchiveKind, BundleSource, Dialect, Files, System, golden_document
from .bundle_templates import CHECK, RUNTIME, render, render_folder, standalone
from .standalone.artifact_runtime import NAMES
from .tfserving_bundle import can_batch, write_tfserving
from .triton_bundle import BACKENDS, IMAGE, has_batches, triton_signature, write_triton

READY = "/v2/health/ready"  # of `transload serve`: all its models answer
# What pip installs to run each format with the bundle's own code.
LIBRARIES: Mapping[Format, str] = {
    Format.ONNX: "onnxruntime",
    Format.TORCHSCRIPT: "torch",
    Format.SAVED_MODEL: "tensorflow",
    Format.TFLITE: "ai-edge-litert",
}
_MANY_NUMBERS = 3_000_000  # Triton takes 64 MB of JSON
_SERVED = (Format.SAVED_MODEL, Format.ONNX, Format.TORCHSCRIPT, Format.TFLITE, Format.PT2, Format.KERAS)
_KSERVE_FORMATS = {Format.ONNX: "onnx", Format.TORCHSCRIPT: "pytorch"}  # as kserve-tritonserver lists them
_RUNTIME_CODE = {f"{RUNTIME}.py": RUNTIME}
_BATCHING_WORDS = " \\\n  --enable_batching --batching_parameters_file=/models/batching.config"


def _artifact(source: BundleSource) -> Files:
    return source.artifact_files


def _payload_and_record(source: BundleSource) -> Files:
    return {source.artifact.path.name: source.artifact.path, RECORD: source.artifact.folder / RECORD}


def _sagemaker(source: BundleSource) -> Files:
    """Return what AWS's containers want: TF Serving's version folder, or the artifact's files beside inference code.
    (github.com/aws/sagemaker-tensorflow-serving-container, github.com/aws/sagemaker-pytorch-inference-toolkit)"""
    form = source.artifact.target.format
    if form is Format.SAVED_MODEL:
        return {f"{source.name}/{source.version}": source.artifact.path}
    files: Files = {path.name: path for path in sorted(source.artifact.folder.iterdir())}
    if source.tuning is not None:
        files[TUNING] = source.tuning
    files |= {"code/inference.py": standalone("sagemaker_inference_code"), f"code/{RUNTIME}.py": standalone(RUNTIME)}
    return files if form is Format.TORCHSCRIPT else {**files, "code/requirements.txt": f"{LIBRARIES[form]}\n"}


def _columns(source: BundleSource) -> Dialect:  # noqa: ARG001  (every row of the table takes it)
    return Dialect.COLUMNS


def _v2(source: BundleSource) -> Dialect:  # noqa: ARG001
    return Dialect.V2


def _rows(source: BundleSource) -> Dialect:
    """Vertex AI's `predict` demands rows; a model without a row for each sample is asked with rawPredict."""
    return Dialect.ROWS if source.batch_first else Dialect.COLUMNS


def _sagemaker_dialect(source: BundleSource) -> Dialect:
    return Dialect.V2 if _has_own_code(source) else Dialect.COLUMNS


def _own_names(source: BundleSource) -> Signature:
    return source.artifact.signature


def _has_own_code(source: BundleSource) -> bool:
    return source.artifact.target.format is not Format.SAVED_MODEL


@dataclass(frozen=True, slots=True)
class SystemRow:
    """One serving system, as data; its texts are the templates of its name."""

    system: System
    takes: tuple[Format, ...]  # the one that suits it best first
    write: Callable[[BundleSource], Files]  # what is no template
    url: str  # of the server that its start commands start
    path: str  # of a request; {name} is the model's
    dialect: Callable[[BundleSource], Dialect]
    wire: Callable[[BundleSource], Signature] = _own_names  # inputs and outputs as clients name them
    # Whether its configuration gathers requests, which needs a limit of rows; None: it has no such setting.
    gathers: Callable[[BundleSource], bool] | None = None
    most_numbers: int = 300_000  # in a request of the check: TorchServe takes 6.5 MB of JSON
    bounds: Callable[[BundleSource], bool] = lambda _: True  # whether it refuses what the model declares it refuses
    code: Mapping[str, str] = field(default_factory=dict)  # modules of standalone/ by their paths in the bundle
    archive: str = ""  # the file that holds all but the templates of the system's name, with {name}

    def keeps_limit(self, source: BundleSource) -> bool:
        """Whether the system refuses a request with more rows than the limit."""
        return source.batch_first and (self.gathers or self.bounds)(source)

    def own_files(self, source: BundleSource, values: Mapping[str, object]) -> Files:
        """Return what is the system's alone: the model, the code that answers, and the templates."""
        code = {path: standalone(module) for path, module in self.code.items()}
        files: Files = {**render_folder(f"{self.system}.archive", values), **self.write(source), **code}
        if self.archive:
            kind = ArchiveKind.TAR_GZ if self.archive.endswith(ArchiveKind.TAR_GZ) else ArchiveKind.ZIP
            members = cast("dict[str, str | Path]", files)  # none has bytes
            files = {self.archive.format(name=source.name): Archive(kind, members)}
        return {**files, **render_folder(self.system, values)}


SYSTEMS: Mapping[System, SystemRow] = {
    row.system: row
    for row in (
        SystemRow(
            System.TFSERVING, (Format.SAVED_MODEL,), write_tfserving,
            "http://127.0.0.1:8501", "/v1/models/{name}:predict", _columns, gathers=can_batch,
            most_numbers=_MANY_NUMBERS,
        ),
        SystemRow(
            System.DOCKER, _SERVED, _artifact, "http://127.0.0.1:8501", "/v1/models/{name}:predict", _columns,
        ),
        SystemRow(
            System.TRITON, tuple(BACKENDS), write_triton,
            "http://127.0.0.1:8000", "/v2/models/{name}/infer", _v2, triton_signature, gathers=has_batches,
            most_numbers=_MANY_NUMBERS,
        ),
        SystemRow(
            System.TORCHSERVE, (Format.TORCHSCRIPT,), _payload_and_record,
            "http://127.0.0.1:8080", "/predictions/{name}", _v2, archive="model_store/{name}.mar",
            code={"handler.py": "torchserve_handler", **_RUNTIME_CODE},
        ),
        SystemRow(
            System.KSERVE, tuple(_KSERVE_FORMATS), write_triton,
            "http://127.0.0.1:8080", "/v2/models/{name}/infer", _v2, triton_signature, gathers=has_batches,
            most_numbers=_MANY_NUMBERS,
        ),
        SystemRow(
            System.MLSERVER, tuple(LIBRARIES), _artifact, "http://127.0.0.1:8080", "/v2/models/{name}/infer", _v2,
            code={"artifact_model.py": "mlserver_model", **_RUNTIME_CODE},
        ),
        SystemRow(
            System.RAY_SERVE, tuple(LIBRARIES), _artifact, "http://127.0.0.1:8000", "/v2/models/{name}/infer", _v2,
            code={"app.py": "ray_serve_app", **_RUNTIME_CODE},
        ),
        SystemRow(
            System.SAGEMAKER, (Format.SAVED_MODEL, Format.TORCHSCRIPT, Format.ONNX, Format.TFLITE), _sagemaker,
            "http://127.0.0.1:8080", "/invocations", _sagemaker_dialect, bounds=_has_own_code, archive="model.tar.gz",
        ),
        SystemRow(
            System.VERTEX, _SERVED, _artifact, "http://127.0.0.1:8080", "/v1/models/{name}:predict", _rows,
            most_numbers=60_000,  # the service takes 1.5 MB
        ),
    )
}  # fmt: skip


def check_taken(source_name: str, form: Format, system: System, *, flex: bool = False) -> None:
    """Raise BadRequest where a system does not take a format, or a TFLite file with operators of TensorFlow's."""
    takes = SYSTEMS[system].takes
    if form not in takes:
        raise BadRequest(
            f"{source_name} is of the format {form}, and {system} takes {', '.join(takes)}",
            fix=f"transload convert {source_name} --to {takes[0]} --out DIR, and bundle DIR/{takes[0]}",
        )
    if flex:
        raise BadRequest(
            f"{source_name} needs TensorFlow's Flex delegate, which no server here has",
            fix=f"bundle the model as {' or '.join(other for other in takes if other is not form)}",
        )


def check_limit(source: BundleSource, system: System) -> None:
    """Raise BadRequest where --max-batch is nothing that the system has, or no batch of the model's."""
    gathers, signature = SYSTEMS[system].gathers, source.artifact.signature
    if source.max_batch is None:
        return
    if gathers is None or not gathers(source):
        cause = "has no setting that needs it" if gathers is None else "cannot gather requests to this model"
        raise BadRequest(f"--max-batch limits the rows of a request, and {system} {cause}", fix="leave --max-batch out")
    bounds = signature.bounds.get(signature.batch or "")
    if bounds is not None and source.max_batch not in bounds:
        raise BadRequest(
            f"--max-batch {source.max_batch}: the model takes {signature.batch}={bounds}", fix="name a size within that"
        )


def service_name(name: str) -> str:
    """Return the name as Kubernetes takes it: small letters, digits and hyphens, with a letter first."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return plain if plain[:1].isalpha() else f"model-{plain}"


def bundle_files(source: BundleSource, system: System) -> Files:
    """Return all files of a bundle by their paths in it."""
    row, signature = SYSTEMS[system], source.artifact.signature
    golden = golden_document(
        source.golden, signature, row.wire(source), dialect=row.dialect(source), url=row.url,
        path=row.path.format(name=source.name),
    )  # fmt: skip
    if source.batch_first and (source.limit is None or row.keeps_limit(source)):
        # check.py asks one row more than the limit, or many rows where there is none.
        golden["rows"] = {"limit": source.limit, "most_numbers": row.most_numbers}
    values = _values(source, row)
    values["start"] = render(f"start/{system}.txt", values).rstrip().replace("\n", "\n    ")
    files, golden_text = row.own_files(source, values), json.dumps(golden) + "\n"
    if ARTIFACT in files and row.wire(source) == signature:
        files[f"{ARTIFACT}/golden.json"] = golden_text  # asked before the version is served
    return {
        **files,
        "golden.json": golden_text,
        "check.py": standalone(CHECK),
        **render_folder("bundle", values),
    }


def _values(source: BundleSource, row: SystemRow) -> dict[str, object]:
    """Return what the templates may name."""
    form, signature = source.artifact.target.format, source.artifact.signature
    is_batched = row.system is System.TFSERVING and source.limit is not None and row.keeps_limit(source)
    is_built = form is Format.TFLITE  # NVIDIA's image lacks LiteRT
    return {
        "system": row.system, "name": source.name, "version": source.version, "service": service_name(source.name),
        "target": source.artifact.target, "library": LIBRARIES.get(form, ""), "url": row.url, "ready": READY,
        "predict": row.path.format(name=source.name), "calls": len(source.golden.calls),
        "least_db": f"{source.golden.tolerance.least_db:.1f}", "rows": _rows_sentence(source, row),
        "batching_words": _BATCHING_WORDS if is_batched else "", "kserve_format": _KSERVE_FORMATS.get(form, ""),
        "triton_build": "docker build -t triton-litert .\n" if is_built else "", "triton_tag": IMAGE.rpartition(":")[2],
        "triton_image": "triton-litert" if is_built else IMAGE, "payload": source.artifact.path.name,
        "sagemaker_image": "pytorch-inference:2.6.0" if _has_own_code(source) else "tensorflow-inference:2.19.0",
        "inputs": json.dumps([_tensor(spec) for spec in signature.inputs]),
        "outputs": json.dumps([_tensor(spec) for spec in signature.outputs]),
    }  # fmt: skip


def _rows_sentence(source: BundleSource, row: SystemRow) -> str:
    """Say how many rows a request may have."""
    gathers = row.gathers is not None and row.gathers(source)
    if not source.batch_first:
        return "A request is answered as it comes: the batch is not the first axis of every tensor."
    if source.limit is not None:
        cause = "as the model declares" if source.max_batch is None else "as --max-batch said"
        kept = "" if row.keeps_limit(source) else "; this server does not refuse more"
        return f"A request may have {source.limit} rows at most, {cause}{kept}."
    how = " Requests are answered one by one; `bundle --max-batch N` has the server gather them." if gathers else ""
    return f"A request may have any number of rows.{how}"


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    """Return a tensor's metadata in the Open Inference Protocol."""
    shape = [axis if isinstance(axis, int) else -1 for axis in spec.shape]
    return {"name": spec.name, "datatype": NAMES[spec.dtype], "shape": shape}
