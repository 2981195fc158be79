"""Keras 3: an archive of layers and weights."""

from __future__ import annotations

from .format_spec import FileHead, FormatSpec, Snippet

_SNIPPET = Snippet(
    array="np.full({shape}, {value}, {dtype!r})",
    text="""import keras
import numpy as np
inputs = {inputs}
model = keras.saving.load_model({file})
outputs = model(list(inputs.values()) if len(inputs) > 1 else next(iter(inputs.values())))
""",
)


def _has_content(head: FileHead) -> bool:
    return {"config.json", "metadata.json"} <= head.names


SPEC = FormatSpec(
    name="keras",
    title="Keras",
    payload="model.keras",
    runtime="keras",
    suffixes=(".keras",),
    requires=("keras", "tensorflow"),
    has_content=_has_content,
    snippet=lambda **_: _SNIPPET,
    is_written=False,
    reader="transload.converters.readers.keras.keras_reader:import_keras",
    checker="transload.converters.readers.keras.keras_reader:check_payload",
    describer="transload.converters.readers.keras.keras_reader:describe_keras",
)
