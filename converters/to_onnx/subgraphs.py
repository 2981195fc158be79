"""Bodies of loops and branches in an ONNX model of torch's older exporter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx


def forget_sizes(graph: onnx.GraphProto) -> None:
    """Leave the names of sizes out of every body: the exporter gives one name to sizes that differ (to the widths of
    two states of a loop), and ONNX Runtime then lays the one tensor where the other is."""
    for body in _bodies(graph):
        for value in (*body.input, *body.output, *body.value_info):
            for size in value.type.tensor_type.shape.dim:
                if size.dim_param:
                    size.Clear()


def _bodies(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
                yield from _bodies(attribute.g)
