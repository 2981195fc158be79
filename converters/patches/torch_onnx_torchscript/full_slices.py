"""Leave out slices that keep everything (`x[a, b, :]`) before torch's TorchScript exporter reads a graph.

Of `x[a, b, :] = y` with indices of several axes it otherwise writes the indices of one axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from ..ledger import swapped, swaps
from ..torch_shared.graph_types import TracedBlock, TracedNode, TracedValue


def without_idle_slices() -> AbstractContextManager[None]:
    """Remove idle slices while a model is exported. Only compiled source holds slices without an end."""
    return swapped(PATCHES)


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


PATCHES = swaps(
    "torch._C",
    {"_jit_pass_onnx_remove_inplace_ops_for_onnx": _after_removal},
    why="An assignment to `x[a, b, :]` gets the indices of one axis alone.",
    upstream="torch/csrc/jit/passes/onnx/remove_inplace_ops_for_onnx.cpp",
    until="the TorchScript exporter is no longer used",
)
