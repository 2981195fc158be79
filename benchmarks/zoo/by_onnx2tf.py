"""SavedModel from ONNX by onnx2tf, which stands beside our own lowering (docs/design/onnx2tf.md).

It is a step as those of a third party. onnx2tf.txt has what it needs.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from transload.converters.lazy_import import tf
from transload.converters.steps import Step
from transload.converters.write_converted import write_converted
from transload.models.artifact import read_artifact
from transload.models.errors import Refused
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature

if TYPE_CHECKING:
    import tf_keras

PACKAGES = Path(__file__).resolve().parent / ".onnx2tf"  # where `make zoo` installs onnx2tf.txt
# onnx2tf looks for this file in its cwd before it downloads it, for checks of its own that are not used here.
_SAMPLE_IMAGES = "calibration_image_sample_data_20x128x128x3_float32.npy"

STEP = Step(
    "onnx2tf", Target(Format.ONNX), Target(Format.SAVED_MODEL), "by_onnx2tf:saved_model_by_onnx2tf",
    ("onnx", "onnxsim", "tensorflow"), 5, package="onnx2tf 1.28.8",
)  # fmt: skip


def saved_model_by_onnx2tf(job: Job) -> Mapping[str, Any]:
    """Convert with onnx2tf, every input's layout kept as declared, and save under the model's own names."""
    sys.path.append(str(PACKAGES))
    import onnx2tf

    source = read_artifact(job.inputs["source"])
    copied = Path("given")
    shutil.copytree(source.folder, copied)  # onnx2tf has onnxsim write over its input file
    np.save(_SAMPLE_IMAGES, np.random.default_rng(0).random((20, 128, 128, 3), dtype=np.float32))
    keras_model = onnx2tf.convert(
        input_onnx_file_path=str(copied / source.path.name),
        output_folder_path=str(Path("onnx2tf-out")),
        keep_shape_absolutely_input_names=[spec.name for spec in source.signature.inputs],
        output_signaturedefs=True,
        disable_model_save=True,
        non_verbose=True,
    )
    _save(keras_model, source.signature, job.out / Format.SAVED_MODEL.spec.payload)
    write_converted(job, Target(Format.SAVED_MODEL), source.signature)
    return {"version": onnx2tf.__version__}


def _save(keras_model: tf_keras.Model, signature: Signature, path: Path) -> None:
    """Save the Keras model with a `serving_default` of the signature's names, in its order."""
    specs = [
        tf.TensorSpec([axis if isinstance(axis, int) else None for axis in spec.shape], spec.dtype, name=spec.name)
        for spec in signature.inputs
    ]
    if len(keras_model.inputs) != len(specs) or len(keras_model.outputs) != len(signature.outputs):
        raise Refused(
            f"onnx2tf made {len(keras_model.inputs)} inputs and {len(keras_model.outputs)} outputs "
            f"of {len(specs)} and {len(signature.outputs)}",
            fix="use another route for this model",
        )

    class Served(tf.Module):  # type: ignore[misc]  # tensorflow has no types
        def __init__(self) -> None:
            super().__init__()
            self.model = keras_model

        @tf.function(input_signature=specs, autograph=False)  # type: ignore[untyped-decorator]
        def serve(self, *inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            outputs = self.model(list(inputs), training=False)
            listed = outputs if isinstance(outputs, list | tuple) else [outputs]
            return {spec.name: tf.identity(output) for spec, output in zip(signature.outputs, listed, strict=True)}

    served = Served()
    tf.saved_model.save(served, str(path), signatures={"serving_default": served.serve.get_concrete_function()})
