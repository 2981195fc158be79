"""Running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable

from ...lazy_tensorflow import tf
from ...lowerings import INDICES, SUMMABLE, lowers
from ...operator_context import OperatorContext
from ...values import Layout, Size, TfTensor, Value, as_int32, computed


@lowers("CumSum", since=11, T=SUMMABLE, T2=INDICES)
def cumulative_sum(op: OperatorContext) -> Value:
    """Lower CumSum: the running sum along an axis, with the element itself or without, from either end."""
    return _accumulate_along(op, tf.cumsum)


@lowers("CumProd", since=26, until=28, T=SUMMABLE, T2=INDICES)
def cumulative_product(op: OperatorContext) -> Value:
    """Lower CumProd: the running product along an axis, with the element itself or without, from either end."""
    return _accumulate_along(op, op.kernels.cumprod)


def _accumulate_along(op: OperatorContext, function: Callable[[TfTensor, Size, bool, bool], TfTensor]) -> Value:
    value, axis = op.value(0), op.value(1)
    exclusive, reverse = op.flag("exclusive"), op.flag("reverse")
    layout = Layout.LOGICAL if axis.computing else value.layout
    if axis.computing:
        place: Size = as_int32(tf.reshape(axis.tensor(), []))
    else:
        place = layout.place(op.integers(1, "axis")[0] % value.rank, value.rank)
    return computed(function(value.tensor(layout), place, exclusive, reverse), layout).with_sizes_of(value)
