"""A SavedModel of a user's model, written by their own TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .trees import decode_tree

if TYPE_CHECKING:
    import numpy as np

    from .captures import CaptureRequest
    from .tensorflow_model import TensorFlowModel

_SIGNATURE = "serving_default"


def write_saved_model(
    model: TensorFlowModel, request: CaptureRequest, arrays: Sequence[np.ndarray[Any, Any]]
) -> dict[str, Any]:
    """Write the model to the request's path with one signature of the request's names, its named axes open.
    Raises what their TensorFlow raises: some layers compute with the size of an axis in Python."""
    import tensorflow as tf

    specs = [
        tf.TensorSpec([None if str(at) in axes else size for at, size in enumerate(array.shape)], array.dtype, name)
        for name, axes, array in zip(request.inputs, request.axes, arrays)
    ]

    def serve(*tensors: Any) -> dict[str, Any]:
        places = list(tensors)
        outputs = model.outputs(decode_tree(request.arguments, places), decode_tree(request.keywords, places))
        return {name: outputs[name] for name in request.outputs}

    _keep_from_cudnn(model.model)
    function = tf.function(serve, input_signature=specs, autograph=False)
    concrete = function.get_concrete_function()
    held = tf.Module()
    # The variables alone: others of the model, such as an optimizer's, would be in every copy, and read by none.
    held.used = list(concrete.graph.variables)
    try:
        tf.saved_model.save(held, request.path, signatures={_SIGNATURE: function})
    except (AssertionError, KeyError) as error:  # it uses more than variables, such as a table
        print(f"saved with the whole model: {error}")
        held.model = model.model
        tf.saved_model.save(held, request.path, signatures={_SIGNATURE: function})
    return {"note": "", "tensorflow": str(tf.__version__)}


def _keep_from_cudnn(model: Any) -> None:
    """Let the LSTM and GRU of Keras 2 write their loop alone: they would put a kernel for GPUs beside it, and let each
    machine choose."""
    for part in getattr(model, "submodules", ()):
        if hasattr(part, "_could_use_gpu_kernel"):
            part._could_use_gpu_kernel = False
