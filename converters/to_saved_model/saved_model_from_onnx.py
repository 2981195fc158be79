"""ONNX to SavedModel by our own lowering (onnx_to_tf/)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...models.artifact import Artifact, read_artifact, write_artifact
from ...models.errors import Refused
from ...models.formats import PAYLOAD, Format, Target
from ...models.job import Job
from ...models.signature import Signature
from ..onnx_to_tf.kernels import TENSORFLOW, Kernels
from ..onnx_to_tf.lower_model import LoweredModel, lower

SIGNATURE = "serving_default"


def saved_model_from_onnx(job: Job) -> Mapping[str, Any]:
    """Lower the artifact in inputs["source"] and save it with a `serving_default` of the model's own names, order,
    layout and dynamic axes.

    Raises Refused where an operator cannot be carried.
    """
    source = read_artifact(job.inputs["source"])
    lowered = lowered_with_names(source, TENSORFLOW)
    save(lowered, job.out / PAYLOAD[Format.SAVED_MODEL])
    write_artifact(job.out, Target(Format.SAVED_MODEL), source.signature)
    return {"operators": lowered.operators, "opset": lowered.opset, "weights": len(lowered.module.weights)}


def lowered_with_names(source: Artifact, kernels: Kernels) -> LoweredModel:
    """An ONNX artifact, lowered, after its names were held against its record.

    Raises Refused where an operator cannot be carried, or a name differs.
    """
    lowered = lower(source.path, kernels)
    _check_names(lowered, source.signature)
    return lowered


def _check_names(lowered: LoweredModel, signature: Signature) -> None:
    """The record is written beside the model: it must not promise other names."""
    for side, have, want in (
        ("inputs", [spec.name for spec in lowered.inputs], [spec.name for spec in signature.inputs]),
        ("outputs", list(lowered.outputs), [spec.name for spec in signature.outputs]),
    ):
        if have != want:
            raise Refused(
                f"the ONNX model's {side} are {', '.join(have)}, its record says {', '.join(want)}",
                fix="convert the source to ONNX anew",
            )


def save(lowered: LoweredModel, path: Path) -> None:
    """Write a lowered model as a SavedModel. Its inputs have aliases in TensorFlow's graph, which takes no name like
    `self` or `a.b`; the signature has the ONNX names."""
    import tensorflow as tf

    tf.saved_model.save(lowered.module, str(path), signatures={SIGNATURE: lowered.module.serve})
    names = {alias: spec.name for alias, spec in zip(lowered.arguments, lowered.inputs, strict=True)}
    rename_inputs(path, {alias: name for alias, name in names.items() if alias != name})


def rename_inputs(path: Path, names: Mapping[str, str]) -> None:
    """Give the inputs of `serving_default` their names, in both places that a SavedModel keeps them: the signature
    that servers and converters read, and the function that Python calls."""
    from tensorflow.core.protobuf.meta_graph_pb2 import TensorInfo
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    file = path / "saved_model.pb"
    model = SavedModel.FromString(file.read_bytes())
    (graph,) = model.meta_graphs
    inputs = graph.signature_def[SIGNATURE].inputs
    kept = {name: TensorInfo.FromString(inputs[alias].SerializeToString()) for alias, name in names.items()}
    for alias in names:
        del inputs[alias]
    for name, info in kept.items():  # one may be called as another's alias is
        inputs[name].CopyFrom(info)
    for node in graph.object_graph_def.nodes:
        wrapper = node.bare_concrete_function
        if wrapper.concrete_function_name.startswith("__inference_signature_wrapper"):
            wrapper.argument_keywords[:] = [names.get(alias, alias) for alias in wrapper.argument_keywords]
    file.write_bytes(model.SerializeToString(deterministic=True))


def write_beside(path: Path, model: Any, folder: Path) -> None:
    """The SavedModel at `path` once more, in `folder`, with another graph: its weights and assets are links."""
    folder.mkdir(exist_ok=True)
    for each in path.iterdir():
        if each.is_dir():
            (folder / each.name).symlink_to(each.absolute())
    (folder / "saved_model.pb").write_bytes(model.SerializeToString(deterministic=True))
