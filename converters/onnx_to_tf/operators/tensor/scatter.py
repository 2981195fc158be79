"""Elements set at indices, or reduced with the updates for them."""

from __future__ import annotations

from ...lowerings import ANY, INDICES, lowers
from ...operator_context import OperatorContext
from ...values import Value, computed
from .indexing import element_places, nd_places

_REDUCTIONS = ("none", "add", "mul", "max", "min")


@lowers("ScatterND", since=11, T=ANY)
def scatter_nd(op: OperatorContext) -> Value:
    """Lower ScatterND: x with the slices at the index vectors set to the updates, or reduced with them."""
    value, indices, updates = op.value(0), op.value(1), op.value(2)
    mode = op.word("reduction", "none", _REDUCTIONS)
    places = nd_places(op, value, indices)
    return computed(op.kernels.scatter(mode, value.tensor(), places, updates.tensor())).with_sizes_of(value)


@lowers("ScatterElements", since=11, T=ANY, Tind=INDICES)
def scatter_elements(op: OperatorContext) -> Value:
    """Lower ScatterElements: x[i, indices[i, j, k], k] = updates[i, j, k] for a middle axis, or reduced with it."""
    return _scatter_elements(op, op.word("reduction", "none", _REDUCTIONS))


@lowers("Scatter", since=9, T=ANY, Tind=INDICES)
def scatter(op: OperatorContext) -> Value:
    """Lower Scatter, the name of ScatterElements before opset 11."""
    return _scatter_elements(op, "none")


def _scatter_elements(op: OperatorContext, mode: str) -> Value:
    value, indices, updates = op.value(0), op.value(1), op.value(2)
    places = element_places(op, value, indices, op.integer("axis", 0) % value.rank)
    return computed(op.kernels.scatter(mode, value.tensor(), places, updates.tensor())).with_sizes_of(value)
