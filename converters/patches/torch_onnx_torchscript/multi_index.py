"""Several indices at once (`h[rows, lengths - 1]`) for torch's TorchScript exporter.

It makes one index of them by multiplication, so that a negative one becomes a place in another row.
"""

from __future__ import annotations

from typing import Any

from .. import private_torch
from ..ledger import symbolics
from ..torch_shared.graph_types import TracedGraph, TracedValue
from ..torch_shared.traced_symbolics import constant, helper


def _index(g: TracedGraph, self: TracedValue, places: TracedValue) -> Any:
    indices = helper._unpack_list(places) if helper._is_packed_list(places) else [places]
    if sum(not helper._is_none(index) for index in indices) > 1:
        counted = [_from_the_front(g, self, axis, index) for axis, index in enumerate(indices)]
        places = g.op("prim::ListConstruct", *counted)
    return private_torch.symbolic_opset11.index(g, self, places)


def _from_the_front(g: TracedGraph, self: TracedValue, axis: int, places: TracedValue) -> TracedValue:
    """Write the places along an axis, the negative ones counted from its end; a mask stays as it is."""
    if helper._is_none(places) or helper._is_bool(places) or _never_negative(places):
        return places
    size = g.op("Gather", g.op("Shape", self), constant(g, axis), axis_i=0)
    size, zero = (g.op("CastLike", number, places) for number in (size, constant(g, 0)))
    return g.op("Where", g.op("Less", places, zero), g.op("Add", places, size), places)


def _never_negative(places: TracedValue) -> bool:
    node = places.node()
    while node.kind() in ("onnx::Cast", "onnx::Unsqueeze"):
        node = node.inputsAt(0).node()
    if node.kind() == "onnx::Range":
        first, step = node.inputsAt(0).node(), node.inputsAt(2).node()
        return all(bound.kind() == "onnx::Constant" and bool(bound.t("value") >= 0) for bound in (first, step))
    return node.kind() == "onnx::Constant" and bool((node.t("value") >= 0).all())


PATCHES = symbolics(
    {"aten::index": _index},
    why="Multiplies several indices into one, so that a negative one becomes a place in another row.",
    upstream="torch/onnx/_internal/torchscript_exporter/symbolic_opset11.py (index)",
    until="the TorchScript exporter is no longer used",
)
