"""Operators that name axes: reductions, Squeeze and Unsqueeze, DFT, and softmax before opset 13.

Axes were attributes before opset 13, of reductions other than ReduceSum before 18, and are inputs since then.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..node_reader import NodeReader, S, V

_NEWER_REDUCTIONS = 18  # the opset in which the reductions other than ReduceSum took axes as an input


def named_axes(op: NodeReader[V, S]) -> tuple[int, ...] | None:
    """Return the axes that a node names in any wording, as they stand there; None where it names none."""
    since = 13 if op.op_type in ("Squeeze", "Unsqueeze", "ReduceSum") else _NEWER_REDUCTIONS
    if op.version >= since:
        return op.integers(1, "axes") if op.has_input(1) else None
    return tuple(op.ints("axes")) if op.has("axes") else None


def squeezed_axes(op: NodeReader[V, S]) -> list[int]:
    """Return the axes that Squeeze drops, in order: those named, or else all of size 1."""
    axes, shape = named_axes(op), op.value(0).shape
    if axes is None and None in shape:
        op.refuse("which axes have size 1 is known only when the model runs", fix="name the axes to squeeze")
    named = [axis for axis, size in enumerate(shape) if size == 1] if axes is None else axes
    dropped = sorted({op.placed(axis, len(shape)) for axis in named})
    if any(shape[axis] not in (1, None) for axis in dropped):
        op.refuse(f"it squeezes the axes {dropped} of the shape {shape}", fix="check the model")
    return dropped


def unsqueezed_axes(op: NodeReader[V, S]) -> list[int]:
    """Return the places in the output where Unsqueeze adds axes of size 1, in order."""
    axes = op.integers(1, "axes") if op.version >= 13 else tuple(op.ints("axes"))
    rank = op.value(0).rank + len(axes)
    added = sorted({op.placed(axis, rank) for axis in axes})
    if len(added) != len(axes):
        op.refuse(f"its axes {list(axes)} name one axis twice", fix="check the model")
    return added


@dataclass(frozen=True, slots=True)
class ReducedAxes:
    """What a reduction does: over these axes, in order; over none where `noop`."""

    axes: tuple[int, ...]
    keepdims: bool
    noop: bool = False  # each element is reduced by itself


def reduced_axes(op: NodeReader[V, S]) -> ReducedAxes:
    """Read a reduction: over the axes named, or over all where none are, unless noop_with_empty_axes is set."""
    rank, named = op.value(0).rank, named_axes(op)
    if op.flag("noop_with_empty_axes") and not named:
        op.ignore("keepdims", because="no axis is reduced")
        return ReducedAxes((), keepdims=True, noop=True)
    axes = sorted({op.placed(axis, rank) for axis in named or ()}) or range(rank)
    return ReducedAxes(tuple(axes), op.flag("keepdims"))


@dataclass(frozen=True, slots=True)
class SoftmaxAxes:
    """The axis along which a softmax runs, or the first of those that it takes as one."""

    axis: int
    flattens: bool  # whether all axes from `axis` on are one


def softmax_axes(op: NodeReader[V, S]) -> SoftmaxAxes:
    """Read Softmax, LogSoftmax or Hardmax: before opset 13 all axes from `axis` on were as one."""
    rank = op.value(0).rank
    if op.version >= 13:
        return SoftmaxAxes(op.axis("axis", rank=rank), flattens=False)
    if rank <= 1:
        op.ignore("axis", because="of one axis, or none, it can name no other")
        return SoftmaxAxes(0, flattens=False)
    axis = op.axis("axis", rank=rank)
    return SoftmaxAxes(axis, flattens=axis < rank - 1)


def transformed_axis(op: NodeReader[V, S]) -> int:
    """Return the axis that DFT transforms: an attribute before opset 20, and an input since; the last is refused."""
    rank = op.value(0).rank
    named = op.integer("axis") if op.version < 20 else op.integers(2, "axis")[0] if op.has_input(2) else -2
    axis = op.placed(named, rank)
    if axis == rank - 1:
        op.refuse("its axis is the one of real and imaginary parts", fix="check the model")
    return axis
