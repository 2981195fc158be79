"""ONNX: a file, which may have its weights in others beside it."""

from __future__ import annotations

from .format_spec import FileHead, FormatSpec, Snippet

_VERSIONS = range(3, 32)  # the format's version is the first field of a file; a SavedModel's is 1
_FIELDS = b"\x12\x1a\x22\x28\x32\x3a\x42"  # the fields that may come next (onnx.proto)
_SNIPPET = Snippet(
    array="np.full({shape}, {value}, {dtype!r})",
    text="""import numpy as np
import onnxruntime
inputs = {inputs}
session = onnxruntime.InferenceSession({file})
outputs = dict(zip({names}, session.run({names}, inputs)))
""",
)


def _has_content(head: FileHead) -> bool:
    data = head.data
    return data[:1] == b"\x08" and len(data) > 2 and data[1] in _VERSIONS and data[2] in _FIELDS


SPEC = FormatSpec(
    name="onnx",
    title="ONNX",
    payload="model.onnx",
    runtime="onnxruntime",
    suffixes=(".onnx",),
    requires=("onnx",),
    has_content=_has_content,
    snippet=lambda **_: _SNIPPET,
    has_data_beside=True,
    reader="transload.converters.readers.onnx.onnx_reader:import_onnx",
    checker="transload.converters.readers.onnx.onnx_reader:check_onnx",
    describer="transload.converters.readers.onnx.describe_onnx:describe_onnx",
    recorder="transload.converters.minimal_repro.onnx_pieces:open_onnx",
    cutter="transload.converters.minimal_repro.onnx_pieces:open_onnx",
    stored_precision="transload.converters.stored_weights:onnx_precision",
    calibrated_ranges="transload.converters.calibrated_ranges:onnx_ranges",
    table_sizes="transload.converters.readers.onnx.onnx_file:gather_tables",
    embedder="transload.converters.embedded_metadata:embed_in_onnx",
    mlflow="onnx",
)
