"""TFLite: a flatbuffer, for phones and microcontrollers."""

from __future__ import annotations

from .format_spec import FileHead, FormatSpec, Snippet

_ARRAY = "np.full({shape}, {value}, {dtype!r})"
# LiteRT comes without the Flex delegate, which TensorFlow's operators need.
_INTERPRETERS = {
    False: ("from ai_edge_litert.interpreter import Interpreter", "Interpreter"),
    True: ("import tensorflow as tf", "tf.lite.Interpreter"),
}
_BY_NAME = """serve = @OPEN({file}).get_signature_runner()
outputs = serve(**inputs)
"""
_BY_POSITION = """interpreter = @OPEN({file})
for place, array in zip(interpreter.get_input_details(), inputs.values()):
    interpreter.resize_tensor_input(place["index"], array.shape)
interpreter.allocate_tensors()
for place, array in zip(interpreter.get_input_details(), inputs.values()):
    interpreter.set_tensor(place["index"], array)
interpreter.invoke()
answers = [interpreter.get_tensor(place["index"]) for place in interpreter.get_output_details()]
outputs = dict(zip({names}, answers))
"""


def _snippet(*, flex: bool, named: bool) -> Snippet:
    imported, opened = _INTERPRETERS[flex]
    call = (_BY_NAME if named else _BY_POSITION).replace("@OPEN", opened)
    return Snippet(_ARRAY, f"import numpy as np\n{imported}\ninputs = {{inputs}}\n{call}")


def _has_content(head: FileHead) -> bool:
    return head.data[4:8] == b"TFL3"


SPEC = FormatSpec(
    name="tflite",
    title="TFLite",
    payload="model.tflite",
    runtime="tflite",
    suffixes=(".tflite",),
    requires=("ai_edge_litert",),
    has_content=_has_content,
    snippet=_snippet,
    least_quantised=1024,
    reader="transload.converters.readers.tflite.tflite_reader:import_tflite",
    checker="transload.converters.readers.tflite.tflite_reader:check_tflite",
    describer="transload.converters.readers.tflite.describe_tflite:describe_tflite",
    recorder="transload.converters.minimal_repro.tflite_pieces:open_tflite",
    cutter="transload.converters.minimal_repro.tflite_pieces:open_tflite",
    stored_precision="transload.converters.stored_weights:tflite_precision",
    calibrated_ranges="transload.converters.calibrated_ranges:tflite_ranges",
    embedder="transload.converters.embedded_metadata:embed_in_tflite",
    mlflow="python_function",
)
