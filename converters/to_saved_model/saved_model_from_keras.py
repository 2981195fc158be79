"""Keras to SavedModel by Keras's own exporter, under the model's own names.

`model.export(FOLDER)` alone calls outputs output_0 and so on. A tf.Module around the model keeps the names and leaves
variables in TFLite that no runtime reads; ExportArchive with a function of ours keeps the names and leaves none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...models.artifact import read_artifact, write_artifact
from ...models.errors import Refused
from ...models.foreign_errors import first_line
from ...models.formats import PAYLOAD, Format, Target
from ...models.job import Job
from ...models.keras_model import function_of_keras, load_keras
from ...models.probes.sizes import other_axes, with_sizes
from ...models.signature import Signature
from .saved_model_from_onnx import rename_inputs

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")  # what TensorFlow takes as the name of an argument
_NO_SCOPE = re.compile(r"[^A-Za-z0-9_.>/-]")  # what it does not, in the name of a scope


def saved_model_from_keras(job: Job) -> Mapping[str, Any]:
    """Export the model in inputs["source"] with a `serving_default` of its names, layout and dynamic axes.

    Raises Refused where one of Keras's layers cannot be called without knowing a size that is open.
    """
    import keras
    import tensorflow as tf

    source = read_artifact(job.inputs["source"])
    signature = source.signature
    model = load_keras(source.path)
    _name_scopes(model)
    aliases = {
        spec.name: spec.name if _PLAIN.fullmatch(spec.name) and spec.name != "self" else f"input_of_{at}"
        for at, spec in enumerate(signature.inputs)
    }
    specs = [
        tf.TensorSpec([None if isinstance(axis, str) else axis for axis in spec.shape], spec.dtype, aliases[spec.name])
        for spec in signature.inputs
    ]
    serve = tf.function(function_of_keras(model, signature), input_signature=specs, autograph=False)
    with _naming_layers(signature), _stepping_over_time():
        serve.get_concrete_function()
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", serve)
    path = job.out / PAYLOAD[Format.SAVED_MODEL]
    archive.write_out(str(path), verbose=False)
    rename_inputs(path, {alias: name for name, alias in aliases.items() if alias != name})
    write_artifact(job.out, Target(Format.SAVED_MODEL), signature)
    return {"layers": len(model.layers), "version": keras.__version__}


def _name_scopes(model: Any) -> None:
    """TensorFlow names scopes after layers and their variables, and takes fewer names than Keras."""
    for layer in model._flatten_layers():  # the model, too
        layer.name = _scope(layer.name)
    for variable in model.variables:
        variable.value._handle_name = f"{_scope(variable.value._handle_name.removesuffix(':0'))}:0"


def _scope(name: str) -> str:
    return _NO_SCOPE.sub("_", name).lstrip("_") or "layer"


@contextmanager
def _naming_layers(signature: Signature) -> Iterator[None]:
    """Some layers compute with sizes in Python, which a graph whose sizes are open does not have."""
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
def _stepping_over_time() -> Iterator[None]:
    """TimeDistributed as it answers where it is called with an array, with each step of each sample as a sample.

    Where the number of steps is open, Keras 3.15 takes as many as there are samples: it asks for the first size before
    it turns batch and time around. And what it does at each step has no ranks for who reads the graph.
    """
    from keras import ops, tree
    from keras.layers import TimeDistributed

    known = TimeDistributed.call

    def call(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        if inputs.shape[1] is not None:
            return known(self, inputs, training=training, mask=mask)
        sizes = ops.shape(inputs)[:2]

        def apart(each: Any) -> Any:
            return ops.reshape(each, (-1, *ops.shape(each)[2:]))

        options: dict[str, Any] = {}
        if mask is not None and self.layer._call_has_mask_arg:
            options["mask"] = apart(mask)
        if self.layer._call_has_training_arg:
            options["training"] = training
        made = self.layer.call(apart(inputs), **options)
        return tree.map_structure(lambda each: ops.reshape(each, (*sizes, *ops.shape(each)[1:])), made)

    TimeDistributed.call = call
    try:
        yield
    finally:
        TimeDistributed.call = known
