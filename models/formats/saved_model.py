"""TensorFlow's SavedModel: a folder."""

from __future__ import annotations

from .format_spec import FileHead, FormatSpec, Snippet

_SNIPPET = Snippet(
    array="tf.fill({shape}, tf.constant({value}, {dtype!r}))",
    text="""import tensorflow as tf
inputs = {inputs}
model = tf.saved_model.load({file})
answers = model.signatures["serving_default"](**inputs)
outputs = {{name: tensor.numpy() for name, tensor in answers.items()}}
""",
)


def _has_content(head: FileHead) -> bool:
    """Version 1, then the first graph (saved_model.proto)."""
    return head.data.startswith(b"\x08\x01\x12")


SPEC = FormatSpec(
    name="saved-model",
    title="TensorFlow SavedModel",
    payload="saved_model",
    runtime="tensorflow",
    marks=("saved_model.pb", "saved_model.pbtxt"),
    requires=("google.protobuf",),
    has_content=_has_content,
    snippet=lambda **_: _SNIPPET,
    reader="transload.converters.readers.saved_model.saved_model_reader:import_saved_model",
    checker="transload.converters.readers.saved_model.saved_model_reader:check_saved_model",
    describer="transload.converters.readers.saved_model.describe_saved_model:describe_saved_model",
    recorder="transload.converters.minimal_repro.saved_model_pieces:open_saved_model",
    cutter="transload.converters.minimal_repro.saved_model_pieces:open_saved_model",
    function_names="transload.converters.readers.saved_model.saved_model_reader:function_names",
    embedder="transload.converters.embedded_metadata:embed_in_saved_model",
    mlflow="tensorflow",
)
