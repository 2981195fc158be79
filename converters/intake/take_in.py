"""Intake of a user's model file or folder: it is checked, its signature read, and stored as an artifact.

Only workers parse such files, and nothing has parsed them before. A broken file is reported in one sentence. Code that
reading would run (a pickle, a compiled library) is refused and never run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.artifact import BESIDE, Artifact, read_artifact, write_artifact
from ...models.errors import BadRequest
from ...models.exported_program import recorded_signature
from ...models.formats import PAYLOAD, Format, Target
from ...models.job import Job
from ...models.job_records import CodeOptions
from ...models.keras_model import signature_of_keras
from ...models.lent.tensorflow_model import training_notes
from ...models.loading.code_refs import load_named
from ...models.loading.weight_files import few
from ...models.probes.samples import check_file
from ...models.probes.user_samples import draws_user_samples
from ...models.provenance import Provenance
from ...models.recipe import Recipe
from ...models.signature import STRINGS, Axis, Signature, TensorSpec, bounds_of, check_inputs
from ...models.store import digest_of
from ...models.tensorflow_names import DEFAULT
from ..calibrated_ranges import calibrated_ranges
from ..to_pytorch.pt2_signature import check_axes, describe_program, write_flat
from .file_content import check_content, refuse_links
from .intake_records import ArtifactFacts, FileFacts, FileOptions
from .keras_file import check_keras, load_checked_keras
from .onnx_file import OnnxFile, check_external, parse_onnx
from .output_axes import name_output_axes
from .pt2_file import check_pt2, load_pt2
from .pt2_upgrade import is_old_layout, upgrade_pt2
from .saved_model_folder import read_saved_model, signature_of_saved_model
from .saved_model_parts import (
    fitting_inputs,
    functions_not_asked,
    refuse_composite_inputs,
    save_again,
    unrestored_variables,
)
from .shared_batch import (
    call_once,
    check_one_batch,
    guessed_batches,
    keras_runner,
    onnx_runner,
    saved_model_runner,
    with_own_axes,
)
from .tflite_file import TfliteFile
from .torchscript_file import check_torchscript, describe_torchscript, load_torchscript, write_flat_torchscript

if TYPE_CHECKING:
    from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

_MAKE_AGAIN = "make the artifact again"


def describe_code(job: Job) -> Mapping[str, Any]:
    """Ask the code that a MODEL argument names whether it is a recipe: CodeOptions -> CodeFacts.

    Raises BadRequest if there is no such code, or importing it raises.
    """
    model_code = load_named(CodeOptions.from_json(job.options).code_ref)
    return {"recipe": model_code.describe() if isinstance(model_code, Recipe) else None}


def take_in_onnx(job: Job) -> Mapping[str, Any]:
    """Take in an .onnx file: FileOptions -> FileFacts.

    Raises BadRequest if it is no complete model, or its data lies outside its own folder.
    """
    options, path = _checked_file(job, Format.ONNX)
    requested = options.inputs
    file = OnnxFile(parse_onnx(path), path)
    file.check_nodes()
    external = check_external(file.model, path)
    for name, digest in options.external.items():
        check_file(path.parent / name, digest)
    file.load_external()
    file.sort()
    file.refuse_plugins()
    declared = file.signature(requested)
    signature = apply_request(declared, requested, file.unnamed)
    file.declare(signature)
    file.check()
    file.write(job.out)
    payload = job.out / PAYLOAD[Format.ONNX]
    open_model = cache(lambda: onnx_runner(payload))
    if not requested:
        check_one_batch(path, signature.inputs, file.unnamed, open_model)
    if file.has_loops():
        call_once(signature.inputs, open_model)
    named = name_output_axes(signature, open_model)
    if named != signature:
        file.declare(named)
        file.write(job.out)
    write_artifact(job.out, Target(Format.ONNX), named, provenance=_provenance_of_file(options))
    digests = {name: digest_of(path.parent / name) for name in external}
    calibrated = calibrated_ranges(payload, Format.ONNX)
    return FileFacts(signature=named, external=digests, calibrated=calibrated).to_json()


def take_in_pt2(job: Job) -> Mapping[str, Any]:
    """Take in a file of torch.export.save, of torch 2.2 or later: FileOptions -> FileFacts.

    Raises BadRequest if it is no complete program, or reading it would run code.
    """
    options, path = _checked_file(job, Format.PT2)
    payload = path
    if is_old_layout(path):
        payload = Path("upgraded.pt2")
        upgrade_pt2(path, payload)
    check_pt2(payload, trust=options.trust, source=path)
    program = load_pt2(payload, path)
    declared, call = describe_program(program, path)
    if call is None:
        declared = _with_recorded_names(declared, recorded_signature(payload))
    signature = apply_request(declared, options.inputs)
    check_axes(program, signature, path)
    if call is not None:
        write_flat(program, signature, call, job.out)
    return _store(job, Format.PT2, signature, payload if call is None else None)


@draws_user_samples
def take_in_torchscript(job: Job) -> Mapping[str, Any]:
    """Take in a file of torch.jit.save, which does not declare its inputs: FileOptions -> FileFacts.

    Raises BadRequest if it is no complete archive, holds weights without code, or could reach beyond PyTorch's
    operators.
    """
    options, path = _checked_file(job, Format.TORCHSCRIPT)
    check_torchscript(path, trust=options.trust)
    check_inputs(options.inputs)
    module = load_torchscript(path, trust=options.trust)
    signature, call, notes = describe_torchscript(module, options.inputs, path)
    if call is not None:
        write_flat_torchscript(module, signature, call, job.out / PAYLOAD[Format.TORCHSCRIPT])
    facts = _store(job, Format.TORCHSCRIPT, signature, path if call is None else None)
    return replace(FileFacts.from_json(facts), notes=notes).to_json()


def take_in_saved_model(job: Job) -> Mapping[str, Any]:
    """Take in the folder of a SavedModel: FileOptions -> FileFacts.

    Raises BadRequest if it is incomplete, or holds operators that may do more than compute.
    """
    options = FileOptions.from_json(job.options)
    refuse_links(Path(options.path), "SavedModel")
    folder, requested = _checked_folder(options), options.inputs
    graph = read_saved_model(folder, trust=options.trust, strings=options.strings)
    if DEFAULT in graph.signature_def:
        refuse_composite_inputs(graph, folder)
    declared = signature_of_saved_model(graph, folder, requested)
    requested = requested or fitting_inputs(folder, declared)
    signature = apply_request(declared, requested, guessed_batches(declared))
    payload = job.out / PAYLOAD[Format.SAVED_MODEL]
    unrestored = unrestored_variables(graph)
    if unrestored:
        save_again(folder, payload)
    else:
        payload.mkdir()
        shutil.copyfile(folder / "saved_model.pb", payload / "saved_model.pb")
        for part in ("variables", "assets"):  # serving reads nothing else
            if (folder / part).is_dir():
                shutil.copytree(folder / part, payload / part)
    open_model = cache(partial(saved_model_runner, payload, signature.outputs))
    if not requested:
        check_one_batch(folder, signature.inputs, guessed_batches(declared), open_model)
    signature = name_output_axes(signature, open_model)
    facts = FileFacts.from_json(_store(job, Format.SAVED_MODEL, signature))
    return replace(facts, notes=tuple(_notes_of_saved_model(graph, unrestored))).to_json()


def _notes_of_saved_model(graph: MetaGraphDef, unrestored: Sequence[str]) -> Iterator[str]:
    if unrestored:
        yield (
            f"TensorFlow Serving would fail on this folder: restoring it leaves {few(unrestored)} without values; "
            "it is read as TensorFlow 2 loads it. To serve it, save it with model.export(FOLDER)"
        )
    if names := functions_not_asked(graph):
        verb = "is" if len(names) == 1 else "are"
        yield f"{few(names)} {verb} not asked: copies hold serving_default, and only that is compared"


def take_in_keras(job: Job) -> Mapping[str, Any]:
    """Take in a .keras file: FileOptions -> FileFacts.

    Raises BadRequest if it is incomplete, or holds code or classes that are not Keras's own.
    """
    options, path = _checked_file(job, Format.KERAS)
    check_keras(path)
    model, requested = load_checked_keras(path), options.inputs
    declared = signature_of_keras(model, path)
    signature = apply_request(declared, requested, guessed_batches(declared))
    if not requested:
        check_one_batch(path, signature.inputs, guessed_batches(declared), lambda: keras_runner(model, declared))
    facts = FileFacts.from_json(_store(job, Format.KERAS, signature, path))
    return replace(facts, notes=tuple(training_notes(model))).to_json()


def take_in_tflite(job: Job) -> Mapping[str, Any]:
    """Take in a .tflite file, quantised or not: FileOptions -> FileFacts.

    Raises BadRequest if it is incomplete, or needs operators that LiteRT lacks.
    """
    options, path = _checked_file(job, Format.TFLITE)
    file = TfliteFile(path, trust=options.trust)
    if file.flex:
        raise BadRequest(
            f"{path} needs TensorFlow's Flex delegate for {', '.join(file.flex)}, and LiteRT, which is asked what a "
            "file gives, has none",
            fix="convert it again with TFLITE_BUILTINS alone, or name the SavedModel that it was made from",
        )
    declared = file.inputs()
    requested, unnamed = options.inputs, guessed_batches(Signature(declared, declared))
    inputs = apply_request(Signature(declared, declared), requested, unnamed).inputs  # outputs are found by calling it
    if not requested:
        check_one_batch(path, inputs, unnamed, lambda: TfliteFile(path, trust=options.trust).shapes_of)
    return _store(job, Format.TFLITE, file.signature(inputs), path)


def _store(job: Job, form: Format, signature: Signature, unchanged: Path | None = None) -> Mapping[str, Any]:
    """Write the record of the artifact, and copy its payload if that is the user's file, unchanged."""
    if unchanged is not None:
        shutil.copyfile(unchanged, job.out / PAYLOAD[form])
    provenance = _provenance_of_file(FileOptions.from_json(job.options))
    artifact = write_artifact(job.out, Target(form), signature, provenance=provenance)
    return FileFacts(signature=signature, calibrated=calibrated_ranges(artifact.path, form)).to_json()


def _provenance_of_file(options: FileOptions) -> Provenance | None:
    """Return what is known of a user's file; None where its name cannot be printed."""
    name = Path(options.path).name
    return Provenance(model=name, sha256=options.sha256, kind="file") if name.isprintable() else None


def take_in_artifact(job: Job) -> Mapping[str, Any]:
    """Take in an artifact folder of a former run: FileOptions -> ArtifactFacts.

    Raises BadRequest if it is no complete artifact, or reading it would leave the folder or run code.
    """
    options = FileOptions.from_json(job.options)
    folder = Path(options.path)
    artifact = read_checked(folder, trust=options.trust)
    _checked_folder(options)
    shutil.copytree(folder, job.out, dirs_exist_ok=True, ignore=_leave_out(folder, BESIDE))
    return ArtifactFacts(
        target=str(artifact.target), signature=artifact.signature, flex=artifact.flex,
        calibrated=calibrated_ranges(artifact.path, artifact.target.format),
    ).to_json()  # fmt: skip


def check_artifact(job: Job) -> Mapping[str, Any]:
    """Check the artifact in inputs["artifact"] as `take_in_artifact` does. Options: trust. Facts: target."""
    return {"target": str(read_checked(job.inputs["artifact"], trust=bool(job.options.get("trust"))).target)}


def read_checked(folder: Path, *, trust: bool = False) -> Artifact:
    """Read and check an artifact from an untrusted folder; `trust` allows operators that do more than compute.

    Raises BadRequest.
    """
    refuse_links(folder, "artifact")
    artifact = read_artifact(folder)
    if not artifact.path.exists():
        raise BadRequest(f"{folder} lacks its {artifact.path.name}", fix=_MAKE_AGAIN)
    payload = artifact.path
    if any(spec.dtype == STRINGS for spec in (*artifact.signature.inputs, *artifact.signature.outputs)):
        raise BadRequest(f"{folder} says that it takes or gives text, which no artifact does", fix=_MAKE_AGAIN)
    checks: Mapping[Format, Callable[[], object]] = {
        Format.ONNX: lambda: _check_onnx(payload),
        Format.PT2: lambda: check_pt2(payload, trust=trust),
        Format.TORCHSCRIPT: lambda: check_torchscript(payload, trust=trust),
        Format.SAVED_MODEL: lambda: read_saved_model(payload, trust=trust),
        Format.KERAS: lambda: check_keras(payload),
        Format.TFLITE: lambda: _check_flex_record(artifact, TfliteFile(payload, trust=trust).flex),
    }
    checks[artifact.target.format]()
    return artifact


def _check_onnx(path: Path) -> None:
    model = parse_onnx(path)
    check_external(model, path)
    OnnxFile(model, path).check_nodes()


def _check_flex_record(artifact: Artifact, flex: Sequence[str]) -> None:
    """Raise BadRequest if the record, which decides the interpreter that opens the file, lists other Flex operators."""
    if tuple(flex) != artifact.flex:
        recorded, held = (", ".join(names) or "none" for names in (artifact.flex, flex))
        raise BadRequest(
            f"{artifact.path} needs TensorFlow's Flex delegate for {held}, its record says {recorded}", fix=_MAKE_AGAIN
        )


def _with_recorded_names(declared: Signature, recorded: Signature | None) -> Signature:
    """Return the program's signature with the names of its record, if that has the same inputs and outputs."""
    if recorded is None or _comparable_parts(recorded) != _comparable_parts(declared):
        return declared
    inputs, outputs = (
        tuple(replace(spec, name=recorded_spec.name) for spec, recorded_spec in zip(specs, recorded_specs, strict=True))
        for specs, recorded_specs in ((declared.inputs, recorded.inputs), (declared.outputs, recorded.outputs))
    )
    try:
        return apply_request(Signature(inputs, outputs), recorded.inputs)
    except BadRequest:  # the record has other axes
        return declared


def _comparable_parts(signature: Signature) -> list[object]:
    """Return what a record must share with a program; sizes of outputs are not always known."""
    inputs = [
        (spec.dtype, [None if isinstance(axis, str) else axis for axis in spec.shape]) for spec in signature.inputs
    ]
    return [inputs, [(spec.dtype, len(spec.shape)) for spec in signature.outputs]]


def apply_request(declared: Signature, requested: Sequence[TensorSpec], unnamed: Collection[str] = ()) -> Signature:
    """Return a file's signature with the names or sizes that `--input` gives to its dynamic axes.

    `unnamed`: the inputs whose first axis is only guessed to be the batch, and may be another axis.

    Raises BadRequest if `--input` names another input, dtype, rank or size than the model has.
    """
    if not requested:
        return declared
    requested_by_name = {spec.name: spec for spec in requested}
    names = [spec.name for spec in declared.inputs]
    if sorted(requested_by_name) != sorted(names):
        raise BadRequest(
            f"the model takes the inputs {', '.join(names)}, and --input names {', '.join(requested_by_name)}",
            fix="give each input of the model once, by its name, or leave --input out",
        )
    if len({requested_by_name[name].shape[:1] for name in unnamed}) > 1:
        declared = with_own_axes(declared, unnamed)
    axes: dict[str, Axis] = {}
    for spec in declared.inputs:
        _apply_requested_axes(spec, requested_by_name[spec.name], axes)

    def renamed(spec: TensorSpec) -> TensorSpec:
        shape = tuple(axes.get(axis, axis) if isinstance(axis, str) else axis for axis in spec.shape)
        kept_bounds = {axis: bounds[axis] for axis in shape if isinstance(axis, str) and axis in bounds}
        values = requested_by_name[spec.name].values if spec in declared.inputs else None
        return replace(spec, shape=shape, bounds=tuple(kept_bounds.items()), values=values)

    bounds = {str(axes[axis]): limits for axis, limits in declared.bounds.items()} | bounds_of(requested)
    return Signature(tuple(map(renamed, declared.inputs)), tuple(map(renamed, declared.outputs)))


def _apply_requested_axes(spec: TensorSpec, requested: TensorSpec, axes: dict[str, Axis]) -> None:
    """Add the requested names or sizes of the dynamic axes of `spec` to `axes`; raise BadRequest if they do not fit."""
    fits = requested.dtype == spec.dtype and len(requested.shape) == len(spec.shape)
    for declared_axis, requested_axis in zip(spec.shape, requested.shape, strict=False):
        fits = fits and requested_axis == (
            axes.setdefault(declared_axis, requested_axis) if isinstance(declared_axis, str) else declared_axis
        )
    if not fits:
        raise BadRequest(f"--input {requested} does not fit the model, which takes {spec}", fix=f"write --input {spec}")


def _checked_file(job: Job, expected: Format) -> tuple[FileOptions, Path]:
    options = FileOptions.from_json(job.options)
    path = Path(options.path)
    check_file(path, options.sha256)
    check_content(path, expected)
    return options, path


def _leave_out(folder: Path, left_out: Collection[str]) -> Callable[[str, list[str]], list[str]]:
    """Return what copytree ignores: these files of the folder itself, which are no part of the artifact."""
    return lambda place, names: [name for name in names if Path(place) == folder and name in left_out]


def _checked_folder(options: FileOptions) -> Path:
    folder = Path(options.path)
    if digest_of(folder, without=BESIDE) != options.sha256:
        raise BadRequest(f"{folder} has changed since this command began", fix="run again when it is finished")
    return folder
