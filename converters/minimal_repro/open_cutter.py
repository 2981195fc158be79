"""Open an artifact of any format whose graph can be cut. Worker only."""

from __future__ import annotations

from ...models.artifact import Artifact
from ...models.errors import BadRequest
from ...models.formats import Format
from .graph_pieces import GraphCutter


def open_cutter(artifact: Artifact) -> GraphCutter:
    """Open the graph of an artifact.
    Raises BadRequest for a format whose graphs cannot be cut."""
    form = artifact.target.format
    if form is Format.ONNX:
        from .onnx_pieces import OnnxCutter

        return OnnxCutter(artifact.path)
    raise BadRequest(f"no values inside {form} can be captured", fix=f"locate the error in {Format.ONNX}")
