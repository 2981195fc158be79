"""How an artifact is called in its runtime: Python that runs in the artifact's folder, with its requirements alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...models.formats import PAYLOAD, Format
from ...models.signature import Signature, TensorSpec, ValueRange

_LINE = 100  # letters; inputs that need more have a line each


def snippet(form: Format, signature: Signature, *, flex: bool = False, named: bool = True) -> str:
    """Return the program that calls an artifact with made-up inputs, and has its answers in `outputs`.
    `named`: its file has a signature by which inputs and outputs are named, as all files that transload writes."""
    if form is Format.TFLITE and not named:
        return _tflite_by_position(signature, flex=flex)
    return _WRITERS[form](signature) if not flex else _tflite(signature, flex=True)


def _onnx(signature: Signature) -> str:
    names = [spec.name for spec in signature.outputs]
    return f"""import numpy as np
import onnxruntime
inputs = {_arrays(signature, "np.full({shape}, {value}, {dtype!r})")}
session = onnxruntime.InferenceSession({PAYLOAD[Format.ONNX]!r})
outputs = dict(zip({names!r}, session.run({names!r}, inputs)))
"""


def _saved_model(signature: Signature) -> str:
    inputs = _arrays(signature, "tf.fill({shape}, tf.constant({value}, {dtype!r}))")
    return f"""import tensorflow as tf
inputs = {inputs}
model = tf.saved_model.load({PAYLOAD[Format.SAVED_MODEL]!r})
answers = model.signatures["serving_default"](**inputs)
outputs = {{name: tensor.numpy() for name, tensor in answers.items()}}
"""


def _interpreter(*, flex: bool) -> tuple[str, str]:
    """Return the import of an interpreter, and how it is opened."""
    file = PAYLOAD[Format.TFLITE]
    if flex:  # LiteRT comes without the Flex delegate
        return "import tensorflow as tf", f"tf.lite.Interpreter({file!r})"
    return "from ai_edge_litert.interpreter import Interpreter", f"Interpreter({file!r})"


def _tflite(signature: Signature, *, flex: bool = False) -> str:
    imported, opened = _interpreter(flex=flex)
    return f"""import numpy as np
{imported}
inputs = {_arrays(signature, "np.full({shape}, {value}, {dtype!r})")}
serve = {opened}.get_signature_runner()
outputs = serve(**inputs)
"""


def _tflite_by_position(signature: Signature, *, flex: bool) -> str:
    imported, opened = _interpreter(flex=flex)
    names = [spec.name for spec in signature.outputs]
    return f"""import numpy as np
{imported}
inputs = {_arrays(signature, "np.full({shape}, {value}, {dtype!r})")}
interpreter = {opened}
for place, array in zip(interpreter.get_input_details(), inputs.values()):
    interpreter.resize_tensor_input(place["index"], array.shape)
interpreter.allocate_tensors()
for place, array in zip(interpreter.get_input_details(), inputs.values()):
    interpreter.set_tensor(place["index"], array)
interpreter.invoke()
answers = [interpreter.get_tensor(place["index"]) for place in interpreter.get_output_details()]
outputs = dict(zip({names!r}, answers))
"""


def _torch(signature: Signature, loaded: str) -> str:
    names = [spec.name for spec in signature.outputs]
    answers = "model(*inputs.values())" if len(names) > 1 else "[model(*inputs.values())]"
    return f"""import torch
inputs = {_arrays(signature, "torch.full({shape}, {value}, dtype=torch.{dtype})")}
model = {loaded}
with torch.inference_mode():
    outputs = dict(zip({names!r}, {answers}))
"""


def _torchscript(signature: Signature) -> str:
    return _torch(signature, f"torch.jit.load({PAYLOAD[Format.TORCHSCRIPT]!r})")


def _pt2(signature: Signature) -> str:
    return _torch(signature, f"torch.export.load({PAYLOAD[Format.PT2]!r}).module()")


def _keras(signature: Signature) -> str:
    inputs = _arrays(signature, "np.full({shape}, {value}, {dtype!r})")
    return f"""import keras
import numpy as np
inputs = {inputs}
model = keras.saving.load_model({PAYLOAD[Format.KERAS]!r})
outputs = model(list(inputs.values()) if len(inputs) > 1 else next(iter(inputs.values())))
"""


_WRITERS: Mapping[Format, Callable[[Signature], str]] = {
    Format.ONNX: _onnx, Format.SAVED_MODEL: _saved_model, Format.TFLITE: _tflite,
    Format.TORCHSCRIPT: _torchscript, Format.PT2: _pt2, Format.KERAS: _keras,
}  # fmt: skip


def _arrays(signature: Signature, form: str) -> str:
    """Return a dict of the inputs, each an array of the least size and value that the signature allows."""
    sizes = {axis: _least_size(signature, axis) for spec in signature.inputs for axis in spec.dynamic_axes.values()}
    parts = []
    for spec in signature.inputs:
        shape = spec.sized(sizes)
        parts.append(f"{spec.name!r}: {form.format(shape=shape, value=_value(spec), dtype=spec.dtype)}")
    line = f"{{{', '.join(parts)}}}"
    return line if len(line) <= _LINE else "{\n" + "".join(f"    {part},\n" for part in parts) + "}"


def _least_size(signature: Signature, axis: str) -> int:
    """Return 1 where that is allowed, else the least size that is."""
    bounds = signature.bounds.get(axis)
    return 1 if bounds is None else bounds.filled.at_least(1)


def _value(spec: TensorSpec) -> str:
    """Return a number that the input may hold, as Python writes it."""
    if spec.dtype == "bool":
        return "True"
    low = spec.values.low if isinstance(spec.values, ValueRange) else 1 if spec.values else 0
    return repr(float(low) if spec.dtype.startswith(("float", "bfloat")) else int(low))
