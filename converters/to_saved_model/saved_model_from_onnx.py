"""SavedModel from ONNX by our own lowering (onnx_to_tf/), and writing of SavedModels."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.artifact import Artifact, read_artifact
from ...models.errors import Refused
from ...models.formats import Format, Target
from ...models.job import Job
from ...models.signature import Signature
from ..lazy_import import tf
from ..onnx_to_tf.kernels.dialects import TENSORFLOW, Kernels
from ..onnx_to_tf.lower_model import LoweredModel, lower
from ..write_converted import write_converted

if TYPE_CHECKING:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

SIGNATURE = "serving_default"
_PROGRAM = "saved_model.pb"


def saved_model_from_onnx(job: Job) -> Mapping[str, Any]:
    """Lower the artifact in inputs["source"] and save it with its names, order, layout and dynamic axes.

    Raises Refused if an operator cannot be lowered.
    """
    source = read_artifact(job.inputs["source"])
    lowered = lowered_with_names(source, TENSORFLOW)
    save(lowered, job.out / Format.SAVED_MODEL.spec.payload)
    write_converted(job, Target(Format.SAVED_MODEL), source.signature)
    return {"operators": lowered.operators, "opset": lowered.opset, "weights": len(lowered.module.weights)}


def lowered_with_names(source: Artifact, kernels: Kernels) -> LoweredModel:
    """Lower an ONNX artifact and compare its names with its record.

    Raises Refused if an operator cannot be lowered, or a name differs.
    """
    lowered = lower(source.path, kernels)
    _check_names(lowered, source.signature)
    return lowered


def _check_names(lowered: LoweredModel, signature: Signature) -> None:
    """Raise Refused if the names differ from the record's, which is written beside the new model too."""
    for side, names, recorded in (
        ("inputs", [spec.name for spec in lowered.inputs], [spec.name for spec in signature.inputs]),
        ("outputs", list(lowered.outputs), [spec.name for spec in signature.outputs]),
    ):
        if names != recorded:
            raise Refused(
                f"the ONNX model's {side} are {', '.join(names)}, its record says {', '.join(recorded)}",
                fix="convert the source to ONNX anew",
            )


def save(lowered: LoweredModel, path: Path) -> None:
    """Write a lowered model as a SavedModel whose signature has the ONNX names.

    TensorFlow's graph refuses names like `self` or `a.b`: there the inputs have aliases.
    """
    tf.saved_model.save(lowered.module, str(path), signatures={SIGNATURE: lowered.module.serve})
    names = {alias: spec.name for alias, spec in zip(lowered.arguments, lowered.inputs, strict=True)}
    rename_inputs(path, {alias: name for alias, name in names.items() if alias != name})


def rename_inputs(path: Path, names: Mapping[str, str]) -> None:
    """Replace aliases of the inputs of `serving_default` by names.

    A SavedModel keeps them in the signature, which servers and converters read, and in the function that Python calls.
    """
    model = read_program(path)
    (graph,) = model.meta_graphs
    inputs = graph.signature_def[SIGNATURE].inputs
    renamed = {name: deepcopy(inputs[alias]) for alias, name in names.items()}
    for alias in names:
        del inputs[alias]
    for name, info in renamed.items():  # after all aliases are gone, since a name may equal another input's alias
        inputs[name].CopyFrom(info)
    for node in graph.object_graph_def.nodes:
        wrapper = node.bare_concrete_function
        if wrapper.concrete_function_name.startswith("__inference_signature_wrapper"):
            wrapper.argument_keywords[:] = [names.get(alias, alias) for alias in wrapper.argument_keywords]
    _write_program(path, model)


def read_program(path: Path) -> SavedModel:
    """Parse the program of the SavedModel at `path`: all of it but the weights and assets."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    return SavedModel.FromString((path / _PROGRAM).read_bytes())


def _write_program(folder: Path, model: SavedModel) -> None:
    (folder / _PROGRAM).write_bytes(model.SerializeToString(deterministic=True))


def write_with_links(path: Path, model: SavedModel, folder: Path) -> None:
    """Write `model` to `folder` with links to the weights and assets of the SavedModel at `path`."""
    folder.mkdir(exist_ok=True)
    for entry in path.iterdir():
        if entry.is_dir():
            (folder / entry.name).symlink_to(entry.absolute())
    _write_program(folder, model)
