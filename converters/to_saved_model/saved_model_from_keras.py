"""SavedModel from Keras by Keras's own exporter, under the model's own names.

`model.export(FOLDER)` alone calls outputs output_0 and so on. A tf.Module around the model keeps the names, but leaves
variables in TFLite that no runtime reads. ExportArchive with a function of ours keeps the names and leaves none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...models.artifact import read_artifact
from ...models.errors import Refused
from ...models.formats import Format, Target
from ...models.job import Job
from ...models.keras_model import function_of_keras, load_keras
from ...models.library_messages import first_line
from ...models.probes.sizes import other_axes, with_sizes
from ...models.signature import Signature
from ..lazy_import import keras, tf
from ..write_converted import write_converted
from .saved_model_from_onnx import rename_inputs

_ARGUMENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")  # accepted by TensorFlow as an argument's name
_NOT_IN_SCOPE = re.compile(r"[^A-Za-z0-9_.>/-]")  # refused by TensorFlow in the name of a scope


def saved_model_from_keras(job: Job) -> Mapping[str, Any]:
    """Export the model in inputs["source"] with a `serving_default` of its names, layout and dynamic axes.

    Raises Refused if one of Keras's layers needs the size of an open axis.
    """
    source = read_artifact(job.inputs["source"])
    signature = source.signature
    model = load_keras(source.path)
    _name_scopes(model)
    aliases = {
        spec.name: spec.name if _ARGUMENT_NAME.fullmatch(spec.name) and spec.name != "self" else f"input_of_{at}"
        for at, spec in enumerate(signature.inputs)
    }
    specs = [
        tf.TensorSpec([None if isinstance(axis, str) else axis for axis in spec.shape], spec.dtype, aliases[spec.name])
        for spec in signature.inputs
    ]
    serve = tf.function(function_of_keras(model, signature), input_signature=specs, autograph=False)
    with _refuse_open_sizes(signature), _time_distributed_over_open_axes():
        serve.get_concrete_function()
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", serve)
    path = job.out / Format.SAVED_MODEL.spec.payload
    archive.write_out(str(path), verbose=False)
    rename_inputs(path, {alias: name for name, alias in aliases.items() if alias != name})
    write_converted(job, Target(Format.SAVED_MODEL), signature)
    return {"layers": len(model.layers), "version": keras.__version__}


def _name_scopes(model: keras.Model) -> None:
    """Rename layers and variables for TensorFlow's scopes, which take fewer names than Keras."""
    for layer in model._flatten_layers():  # includes the model
        layer.name = _scope_name(layer.name)
    for variable in model.variables:
        variable.value._handle_name = f"{_scope_name(variable.value._handle_name.removesuffix(':0'))}:0"


def _scope_name(name: str) -> str:
    return _NOT_IN_SCOPE.sub("_", name).lstrip("_") or "layer"


@contextmanager
def _refuse_open_sizes(signature: Signature) -> Iterator[None]:
    """Turn an error into Refused if axes are open: some layers compute with sizes in Python."""
    open_axes = other_axes(signature.inputs)
    try:
        yield
    except Exception as error:
        if not open_axes:
            raise
        sized = (with_sizes(spec, open_axes) for spec in signature.inputs)
        raise Refused(
            f"Keras has no graph of this model where {', '.join(open_axes)} may be of any size: {first_line(error)}",
            fix=f"give them sizes, as in {' '.join(f'--input {spec}' for spec in sized)}",
        ) from error


@contextmanager
def _time_distributed_over_open_axes() -> Iterator[None]:
    """Make TimeDistributed fold an open number of steps into the batch, with the answers of its eager calls.

    Keras 3.15 takes the number of samples for it: it reads the first size before it swaps batch and time. Besides, its
    graph of a step has no ranks for a reader of the graph.
    """
    from keras import ops, tree
    from keras.layers import TimeDistributed

    original = TimeDistributed.call

    def call(
        self: TimeDistributed, inputs: tf.Tensor, training: bool | None = None, mask: tf.Tensor | None = None
    ) -> object:
        if inputs.shape[1] is not None:
            return original(self, inputs, training=training, mask=mask)
        sizes = ops.shape(inputs)[:2]

        def join_batch_and_time(array: tf.Tensor) -> tf.Tensor:
            return ops.reshape(array, (-1, *ops.shape(array)[2:]))

        options: dict[str, Any] = {}
        if mask is not None and self.layer._call_has_mask_arg:
            options["mask"] = join_batch_and_time(mask)
        if self.layer._call_has_training_arg:
            options["training"] = training
        outputs = self.layer.call(join_batch_and_time(inputs), **options)
        return tree.map_structure(lambda array: ops.reshape(array, (*sizes, *ops.shape(array)[1:])), outputs)

    TimeDistributed.call = call
    try:
        yield
    finally:
        TimeDistributed.call = original
