"""The largest elements, and parts of matrices."""

from __future__ import annotations

from ....onnx_graph.semantics.selection_arguments import top_k_arguments
from ...operator_context import CodegenContext
from ...writers import HELD, NUMBERS, ORDINARY, OutputCode, writes


@writes("TopK", since=1, T=NUMBERS)
def top_k(op: CodegenContext) -> OutputCode:
    """Write TopK: sorted, and of equals the first."""
    x, choice = op.value(0), top_k_arguments(op)
    return op.unpack(f"largest_first({x}, {choice.count}, {choice.axis}, {choice.largest})", 2)


@writes("ArgMax", "ArgMin", since=1, T=NUMBERS)
def arg_extreme(op: CodegenContext) -> OutputCode:
    """Write ArgMax or ArgMin: the first of equals, or the last."""
    x, keep = op.value(0), op.flag("keepdims", True)
    axis, largest = op.axis("axis", 0, rank=x.rank), op.node.op_type == "ArgMax"
    if op.flag("select_last_index"):
        return f"last_extreme({x}, {axis}, {keep}, {largest})"
    return f"{x}.{'argmax' if largest else 'argmin'}({axis}, {keep})"


@writes("Trilu", since=14, T=HELD)
def triangle(op: CodegenContext) -> OutputCode:
    """Write Trilu: the upper or lower triangle of matrices, the rest zero."""
    x, upper = op.value(0), op.flag("upper", True)
    (k,) = op.sizes(1, "diagonal") if op.has_input(1) else (0,)
    return f"torch.{'triu' if upper else 'tril'}({x}, {k})" if k != 0 else f"torch.{'triu' if upper else 'tril'}({x})"


@writes("CumSum", since=11, T=NUMBERS)
def cumulated(op: CodegenContext) -> OutputCode:
    """Write CumSum."""
    x = op.value(0)
    (axis,) = op.integers(1, "axis")
    exclusive, backwards, axis = op.flag("exclusive"), op.flag("reverse"), op.placed(axis, x.rank)
    if not exclusive and not backwards:
        return f"torch.cumsum({x}, {axis}, dtype=torch.{x.dtype})"
    return f"running_sum({x}, {axis}, {exclusive}, {backwards})"


@writes("Unique", since=11, until=28, T=ORDINARY)
def unique(op: CodegenContext) -> OutputCode:
    """Write Unique: distinct elements, or slices along an axis, sorted or in order of first occurrence.

    Further outputs: where each first occurs, which of them each element is, and how often each occurs.
    """
    x, in_order = op.value(0), not op.flag("sorted", True)
    axis = op.axis("axis", rank=x.rank) if op.has("axis") else None
    if not in_order and not any(op.wants(at) for at in (1, 2, 3)):
        return f"torch.unique({x})" if axis is None else f"torch.unique({x}, dim={axis})"
    return op.unpack(f"distinct({x}, {axis}, {in_order})", 4)
