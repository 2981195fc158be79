"""Indices of several axes for torch's TorchScript exporter.

Of several at once (`h[rows, lengths - 1]`) it makes one by multiplication, so that a negative one becomes a place in
another row. Of `x[a, b, :] = y` it writes the indices of one axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from .. import private_torch
from ..ledger import RETIRED, swapped, swaps, symbolics
from ..torch_shared.traced_graph import TracedBlock, TracedGraph, TracedNode, TracedValue, constant, helper


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


def without_idle_slices() -> AbstractContextManager[None]:
    """Remove slices that keep everything (`x[a, b, :]`), which compiled source holds, while a model is exported."""
    return swapped(_IDLE_SLICES)


def _after_removal(own: Callable[[TracedBlock, object], None]) -> Callable[[TracedBlock, object], None]:
    def prepare(graph: TracedBlock, module: object) -> None:
        for node in [*_nodes(graph)]:
            if node.kind() == "aten::slice" and _is_idle(node):
                node.output().replaceAllUsesWith(node.inputsAt(0))
                node.destroy()
        own(graph, module)

    return prepare


def _is_idle(node: TracedNode) -> bool:
    import torch

    self, *_, start, end, step = node.inputs()
    is_tensor = self.type().isSubtypeOf(torch.TensorType.get())  # the slice of a list is another list
    return is_tensor and _number(start) in (None, 0) and _number(end) is None and _number(step) == 1


def _number(value: TracedValue) -> object:
    """Return the number of a constant, and any other value itself."""
    return value.toIValue() if value.node().kind() == "prim::Constant" else value


def _nodes(block: TracedBlock) -> Iterator[TracedNode]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


_IDLE_SLICES = swaps(
    "torch._C",
    {"_jit_pass_onnx_remove_inplace_ops_for_onnx": _after_removal},
    why="An assignment to `x[a, b, :]` gets the indices of one axis alone.",
    upstream="torch/csrc/jit/passes/onnx/remove_inplace_ops_for_onnx.cpp",
    until=RETIRED,
)
PATCHES = (
    *_IDLE_SLICES,
    *symbolics(
        {"aten::index": _index},
        why="Multiplies several indices into one, so that a negative one becomes a place in another row.",
        upstream="torch/onnx/_internal/torchscript_exporter/symbolic_opset11.py (index)",
    ),
)
