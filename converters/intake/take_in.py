"""A model in a file or a folder of the user's, taken in: checked, its signature found, and kept as an artifact.

Nothing of it has been parsed before, and nothing but a worker parses it. What is wrong with a file ends in one
sentence; what reading it would run (a pickle, a compiled library) is refused and never run.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...models.artifact import Artifact, read_artifact, write_artifact
from ...models.errors import BadRequest
from ...models.exported_program import recorded_signature
from ...models.formats import PAYLOAD, Format, Target
from ...models.job import Job
from ...models.keras_model import signature_of_keras
from ...models.loading.code_refs import load_named, ref_of
from ...models.probes.samples import check_file, check_inputs
from ...models.recipe import Recipe
from ...models.signature import Axis, Signature, TensorSpec, bounds_of
from ...models.store import digest_of
from ..to_pytorch.pt2_signature import check_axes, describe_program, write_flat
from .content_type import check_content
from .keras_file import check_keras, load_given_keras
from .onnx_file import OnnxFile, check_external, parse_onnx
from .pt2_file import check_pt2, load_pt2
from .saved_model_folder import read_saved_model, signature_of_saved_model
from .shared_batch import (
    check_one_batch,
    keras_runner,
    onnx_runner,
    saved_model_runner,
    unnamed_firsts,
    with_own_firsts,
)
from .tflite_file import TfliteFile
from .torchscript_file import check_torchscript, describe_torchscript, load_torchscript, write_flat_torchscript

_AGAIN = "make the artifact again"


def describe_code(job: Job) -> Mapping[str, Any]:
    """What the code that a model names is. Options: ref, root. Facts: recipe, what it says of itself, or null where it
    is a class, a function or an instance.

    Raises BadRequest where there is no such code, or importing it raises.
    """
    found = load_named(ref_of(job))
    return {"recipe": found.describe() if isinstance(found, Recipe) else None}


def onnx_given(job: Job) -> Mapping[str, Any]:
    """Take in an .onnx file. Options: path (absolute), sha256, inputs (specs as JSON; they rename dynamic axes or give
    them a size), external (digests of its data files, where they are known).

    Facts: signature, external (the data files beside it by name, with their digests).

    Raises BadRequest where it is no whole model, or its data lies outside of its own folder.
    """
    path = _file(job, Format.ONNX)
    asked = _asked(job)
    given = OnnxFile(parse_onnx(path), path)
    external = check_external(given.model, path)
    for name, digest in job.options.get("external", {}).items():
        check_file(path.parent / name, digest)
    given.load_external()
    given.sort()
    found = given.signature(asked)
    signature = fit(found, asked, given.unnamed)
    check_inputs(signature.inputs)
    given.declare(signature)
    given.check()
    given.write(job.out)
    if not asked:
        check_one_batch(path, signature.inputs, given.unnamed, lambda: onnx_runner(job.out / PAYLOAD[Format.ONNX]))
    write_artifact(job.out, Target(Format.ONNX), signature)
    return {"signature": signature.to_json(), "external": {name: digest_of(path.parent / name) for name in external}}


def pt2_given(job: Job) -> Mapping[str, Any]:
    """Take in a file of torch.export.save. Options: path (absolute), sha256, inputs. Facts: signature.

    Raises BadRequest where it is no whole one, or reading it would run code.
    """
    path = _file(job, Format.PT2)
    check_pt2(path)
    program = load_pt2(path)
    found, call = describe_program(program, path)
    if call is None:
        found = _with_own_names(found, recorded_signature(path))
    signature = fit(found, _asked(job))
    check_inputs(signature.inputs)
    check_axes(program, signature, path)
    if call is None:
        shutil.copyfile(path, job.out / PAYLOAD[Format.PT2])
    else:
        write_flat(program, signature, call, job.out)
    write_artifact(job.out, Target(Format.PT2), signature)
    return {"signature": signature.to_json()}


def torchscript_given(job: Job) -> Mapping[str, Any]:
    """Take in a file of torch.jit.save. Options: path (absolute), sha256, inputs (what forward takes: the file does not
    say it), trust. Facts: signature.

    Raises BadRequest where it is no whole one, is weights without code, or could reach beyond PyTorch's operators.
    """
    path = _file(job, Format.TORCHSCRIPT)
    check_torchscript(path, trust=_trust(job))
    asked = _asked(job)
    check_inputs(asked)
    module = load_torchscript(path)
    signature, call = describe_torchscript(module, asked, path)
    if call is None:
        return _keep(job, path, Target(Format.TORCHSCRIPT), signature)
    write_flat_torchscript(module, signature, call, job.out / PAYLOAD[Format.TORCHSCRIPT])
    write_artifact(job.out, Target(Format.TORCHSCRIPT), signature)
    return {"signature": signature.to_json()}


def saved_model_given(job: Job) -> Mapping[str, Any]:
    """Take in the folder of a SavedModel. Options: path (absolute), sha256 (of the folder), inputs, trust. Facts:
    signature.

    Raises BadRequest where it is no whole one, or holds operators that may do more than compute.
    """
    folder = _folder(job)
    asked = _asked(job)
    graph = read_saved_model(folder, trust=_trust(job))
    found = signature_of_saved_model(graph, folder, asked)
    signature = fit(found, asked, unnamed_firsts(found))
    check_inputs(signature.inputs)
    payload = job.out / PAYLOAD[Format.SAVED_MODEL]
    payload.mkdir()
    shutil.copyfile(folder / "saved_model.pb", payload / "saved_model.pb")
    for part in ("variables", "assets"):  # whatever else lies there is nothing that serving reads
        if (folder / part).is_dir():
            shutil.copytree(folder / part, payload / part)
    if not asked:
        check_one_batch(folder, signature.inputs, unnamed_firsts(found), lambda: saved_model_runner(payload))
    write_artifact(job.out, Target(Format.SAVED_MODEL), signature)
    return {"signature": signature.to_json()}


def keras_given(job: Job) -> Mapping[str, Any]:
    """Take in a .keras file. Options: path (absolute), sha256, inputs. Facts: signature.

    Raises BadRequest where it is no whole one, holds code, or classes that are not Keras's own.
    """
    path = _file(job, Format.KERAS)
    check_keras(path)
    model, asked = load_given_keras(path), _asked(job)
    found = signature_of_keras(model, path)
    signature = fit(found, asked, unnamed_firsts(found))
    check_inputs(signature.inputs)
    if not asked:
        check_one_batch(path, signature.inputs, unnamed_firsts(found), lambda: keras_runner(model, found))
    return _keep(job, path, Target(Format.KERAS), signature)


def tflite_given(job: Job) -> Mapping[str, Any]:
    """Take in a .tflite file, quantised or not. Options: path (absolute), sha256, inputs, trust. Facts: signature.

    Raises BadRequest where it is no whole one, or needs operators that LiteRT does not have.
    """
    path = _file(job, Format.TFLITE)
    given = TfliteFile(path, trust=_trust(job))
    if given.flex:
        raise BadRequest(
            f"{path} needs TensorFlow's Flex delegate for {', '.join(given.flex)}, and LiteRT, which is asked what a "
            "file gives, has none",
            fix="convert it again with TFLITE_BUILTINS alone, or name the SavedModel that it was made from",
        )
    found = given.inputs()
    asked, unnamed = _asked(job), unnamed_firsts(Signature(found, found))
    inputs = fit(Signature(found, found), asked, unnamed).inputs  # what it gives is found by calling it
    check_inputs(inputs)
    if not asked:
        check_one_batch(path, inputs, unnamed, lambda: TfliteFile(path, trust=_trust(job)).shapes_of)
    return _keep(job, path, Target(Format.TFLITE), given.signature(inputs))


def _keep(job: Job, path: Path, target: Target, signature: Signature) -> Mapping[str, Any]:
    """The file as it is, as the payload of an artifact."""
    shutil.copyfile(path, job.out / PAYLOAD[target.format])
    write_artifact(job.out, target, signature)
    return {"signature": signature.to_json()}


def artifact_given(job: Job) -> Mapping[str, Any]:
    """Take in an artifact folder of a former run. Options: path (absolute), sha256 (of the folder). Facts: target,
    signature.

    Raises BadRequest where it is none, is not whole, or reading it would leave the folder or run code.
    """
    folder = Path(job.options["path"])
    artifact = read_checked(folder, trust=_trust(job))
    _folder(job)
    check_inputs(artifact.signature.inputs)
    shutil.copytree(folder, job.out, dirs_exist_ok=True)
    facts = {"target": str(artifact.target), "signature": artifact.signature.to_json()}
    return {**facts, "flex": list(artifact.flex)}


def check_artifact(job: Job) -> Mapping[str, Any]:
    """Hold the artifact in inputs["artifact"] against what `artifact_given` refuses. Facts: target."""
    return {"target": str(read_checked(job.inputs["artifact"]).target)}


def read_checked(folder: Path, *, trust: bool = False) -> Artifact:
    """The artifact in a folder that nobody vouches for; `trust` lets its operators do more than compute. Raises
    BadRequest."""
    artifact = read_artifact(folder)
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise BadRequest(f"{path} is a link, and may lead anywhere", fix="copy the artifact with its files")
    if not artifact.path.exists():
        raise BadRequest(f"{folder} lacks its {artifact.path.name}", fix=_AGAIN)
    form = artifact.target.format
    if form is Format.ONNX:
        check_external(parse_onnx(artifact.path), artifact.path)
    elif form is Format.PT2:
        check_pt2(artifact.path)
    elif form is Format.TORCHSCRIPT:
        check_torchscript(artifact.path, trust=trust)
    elif form is Format.SAVED_MODEL:
        read_saved_model(artifact.path, trust=trust)
    elif form is Format.KERAS:
        check_keras(artifact.path)
    elif form is Format.TFLITE:
        _check_flex_record(artifact, TfliteFile(artifact.path, trust=trust).flex)
    return artifact


def _check_flex_record(artifact: Artifact, found: Sequence[str]) -> None:
    """The record decides which interpreter opens the file. Raises BadRequest."""
    if tuple(found) != artifact.flex:
        said, there = (", ".join(names) or "none" for names in (artifact.flex, found))
        raise BadRequest(
            f"{artifact.path} needs TensorFlow's Flex delegate for {there}, its record says {said}", fix=_AGAIN
        )


def _with_own_names(found: Signature, record: Signature | None) -> Signature:
    """The signature of a program by the names in its record, where that is of the same inputs and outputs."""
    if record is None or _kinds(record) != _kinds(found):
        return found
    inputs, outputs = (
        tuple(replace(spec, name=own.name) for spec, own in zip(specs, owns, strict=True))
        for specs, owns in ((found.inputs, record.inputs), (found.outputs, record.outputs))
    )
    try:
        return fit(Signature(inputs, outputs), record.inputs)
    except BadRequest:  # its axes are others
        return found


def _kinds(signature: Signature) -> list[object]:
    """What a record must share with a program. The sizes of outputs are not always known."""
    inputs = [
        (spec.dtype, [None if isinstance(axis, str) else axis for axis in spec.shape]) for spec in signature.inputs
    ]
    return [inputs, [(spec.dtype, len(spec.shape)) for spec in signature.outputs]]


def fit(found: Signature, asked: Sequence[TensorSpec], unnamed: Collection[str] = ()) -> Signature:
    """The signature of a file with the names, or the sizes, that `--input` gives to its dynamic axes. `unnamed`: the
    inputs whose first axis is the batch by our guess, and may be another.

    Raises BadRequest where another input, dtype, rank or size is asked for than the model has.
    """
    if not asked:
        return found
    given = {spec.name: spec for spec in asked}
    wanted = [spec.name for spec in found.inputs]
    if sorted(given) != sorted(wanted):
        raise BadRequest(
            f"the model takes the inputs {', '.join(wanted)}, and --input names {', '.join(given)}",
            fix="give each input of the model once, by its name, or leave --input out",
        )
    if len({given[name].shape[:1] for name in unnamed}) > 1:
        found = with_own_firsts(found, unnamed)
    axes: dict[str, Axis] = {}
    for spec in found.inputs:
        _fit_axes(spec, given[spec.name], axes)

    def renamed(spec: TensorSpec) -> TensorSpec:
        shape = tuple(axes.get(axis, axis) if isinstance(axis, str) else axis for axis in spec.shape)
        kept = {axis: bounds[axis] for axis in shape if isinstance(axis, str) and axis in bounds}
        return replace(spec, shape=shape, bounds=tuple(kept.items()))

    bounds = {str(axes[axis]): each for axis, each in found.bounds.items()} | bounds_of(asked)
    return Signature(tuple(map(renamed, found.inputs)), tuple(map(renamed, found.outputs)))


def _fit_axes(spec: TensorSpec, asked: TensorSpec, axes: dict[str, Axis]) -> None:
    """What `asked` makes of the dynamic axes of `spec`, added to `axes`."""
    fits = asked.dtype == spec.dtype and len(asked.shape) == len(spec.shape)
    for ours, theirs in zip(spec.shape, asked.shape, strict=False):
        fits = fits and theirs == (axes.setdefault(ours, theirs) if isinstance(ours, str) else ours)
    if not fits:
        raise BadRequest(f"--input {asked} does not fit the model, which takes {spec}", fix=f"write --input {spec}")


def _file(job: Job, expected: Format) -> Path:
    path = Path(job.options["path"])
    check_file(path, job.options["sha256"])
    check_content(path, expected)
    return path


def _folder(job: Job) -> Path:
    folder = Path(job.options["path"])
    if digest_of(folder) != job.options["sha256"]:
        raise BadRequest(f"{folder} has changed since this command began", fix="run again when it is finished")
    return folder


def _trust(job: Job) -> bool:
    return bool(job.options.get("trust"))


def _asked(job: Job) -> tuple[TensorSpec, ...]:
    return tuple(map(TensorSpec.from_json, job.options.get("inputs") or ()))
