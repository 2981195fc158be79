"""Slices that keep everything (`x[a, b, :]`), left out of what torch's older exporter reads: of `x[a, b, :] = y` with
places of several axes it else makes those of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from ..torch_shared.replaced import Instead, replaced


def without_idle_slices() -> AbstractContextManager[None]:
    """While a model is exported. Only compiled source says of a slice that it has no end."""
    import torch

    name = "_jit_pass_onnx_remove_inplace_ops_for_onnx"
    own: Any = getattr(torch._C, name)

    def prepared(graph: Any, module: Any) -> None:
        for node in [*_nodes(graph)]:
            if node.kind() == "aten::slice" and _is_idle(node):
                node.output().replaceAllUsesWith(node.inputsAt(0))
                node.destroy()
        own(graph, module)

    return replaced([Instead(torch._C, name, prepared)])


def _is_idle(node: Any) -> bool:
    self, *_, start, end, step = node.inputs()
    is_tensor = self.type().isSubtypeOf(_tensor_type())  # of a list it is another one
    return is_tensor and _number(start) in (None, 0) and _number(end) is None and _number(step) == 1


def _tensor_type() -> Any:
    import torch

    return torch.TensorType.get()


def _number(value: Any) -> Any:
    """A constant; something else where it is none."""
    return value.toIValue() if value.node().kind() == "prim::Constant" else value


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)
