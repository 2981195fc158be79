"""Keras to SavedModel by Keras's own exporter, under the model's own names.

`model.export(FOLDER)` alone calls outputs output_0 and so on. A tf.Module around the model keeps the names and leaves
variables in TFLite that no runtime reads; ExportArchive with a function of ours keeps the names and leaves none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..models.artifact import read_artifact, write_artifact
from ..models.formats import PAYLOAD, Format, Target
from ..models.job import Job
from ..models.keras_model import function_of_keras, load_keras
from .saved_model import rename_inputs

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")  # what TensorFlow takes as the name of an argument


def saved_model_from_keras(job: Job) -> Mapping[str, Any]:
    """Export the model in inputs["source"] with a `serving_default` of its names, layout and dynamic axes."""
    import keras
    import tensorflow as tf

    source = read_artifact(job.inputs["source"])
    signature = source.signature
    model = load_keras(source.path)
    aliases = {
        spec.name: spec.name if _PLAIN.fullmatch(spec.name) and spec.name != "self" else f"input_of_{at}"
        for at, spec in enumerate(signature.inputs)
    }
    specs = [
        tf.TensorSpec([None if isinstance(axis, str) else axis for axis in spec.shape], spec.dtype, aliases[spec.name])
        for spec in signature.inputs
    ]
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", function_of_keras(model, signature), input_signature=specs)
    path = job.out / PAYLOAD[Format.SAVED_MODEL]
    archive.write_out(str(path), verbose=False)
    rename_inputs(path, {alias: name for name, alias in aliases.items() if alias != name})
    write_artifact(job.out, Target(Format.SAVED_MODEL), signature)
    return {"layers": len(model.layers), "version": keras.__version__}
