"""Reductions over axes, and running sums and products along one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from ....onnx_graph.semantics.axis_lists import reduced_axes
from ...kernels.dialects import Kernels
from ...lazy_tensorflow import tf
from ...lowerings import ANY, FLOATS, INDICES, NUMBERS, SUMMABLE, lowers
from ...operator_context import OperatorContext
from ...values import Layout, Size, TfTensor, Value, as_int32, computed, map_elements, product, reshape, with_rank

Axes = Sequence[int] | TfTensor
Over = Callable[[Kernels, TfTensor, Axes, bool], TfTensor]


@dataclass(frozen=True)
class Reduction:
    """The dtypes of an operator, its function over axes, and its function of each element where no axis is reduced."""

    dtypes: frozenset[str]
    over: Over
    alone: Callable[[TfTensor], TfTensor] | None = None


def _magnitude(t: TfTensor) -> TfTensor:
    return t if t.dtype.is_unsigned else tf.abs(t)


def _log(t: TfTensor) -> TfTensor:
    return tf.math.log(t)


def _square(t: TfTensor) -> TfTensor:
    return tf.square(t)


def _norm(_: Kernels, t: TfTensor, axes: Axes, keep: bool) -> TfTensor:
    """Return the root of the sum of squares; of integers by way of float32, as the specification's body has it."""
    total = tf.reduce_sum(tf.square(t), axes, keep)
    return tf.sqrt(total) if t.dtype.is_floating else tf.cast(tf.sqrt(tf.cast(total, tf.float32)), t.dtype)


def _log_sum_exp(kernels: Kernels, t: TfTensor, axes: Axes, keep: bool) -> TfTensor:
    """Return log(sum(exp(t))), less the largest unless it is infinite; integers in float64, as in the spec's body."""
    if not t.dtype.is_floating:
        return tf.cast(_log_sum_exp(kernels, tf.cast(t, tf.float64), axes, keep), t.dtype)
    largest = kernels.reduce_max(t, axes, True)
    shift = tf.where(tf.abs(largest) <= t.dtype.max, largest, tf.zeros_like(largest))
    total = tf.math.log(tf.reduce_sum(tf.exp(t - shift), axes, True)) + shift
    return total if keep else tf.reduce_sum(total, axes)


def _mean(_: Kernels, t: TfTensor, axes: Axes, keep: bool) -> TfTensor:
    """Return the mean, cut towards zero for integers."""
    if t.dtype.is_floating:
        return tf.reduce_mean(t, axes, keep)
    count = tf.reduce_sum(tf.ones_like(t), axes, keep)
    return tf.truncatediv(tf.reduce_sum(t, axes, keep), count)


def _largest(kernels: Kernels, t: TfTensor, axes: Axes, keep: bool) -> TfTensor:
    """Return the largest; False lies before True."""
    return tf.reduce_any(t, axes, keep) if t.dtype == tf.bool else kernels.reduce_max(t, axes, keep)


def _smallest(kernels: Kernels, t: TfTensor, axes: Axes, keep: bool) -> TfTensor:
    return tf.reduce_all(t, axes, keep) if t.dtype == tf.bool else kernels.reduce_min(t, axes, keep)


# Over no elements they return what the specification says, as TensorFlow does: 0, 1, the lowest or highest of the
# dtype (of floats the infinities), False and True, and the logarithm of 0.
_REDUCTIONS = {
    "ReduceL1": Reduction(SUMMABLE, lambda _, t, axes, keep: tf.reduce_sum(_magnitude(t), axes, keep), _magnitude),
    "ReduceL2": Reduction(SUMMABLE, _norm, _magnitude),
    "ReduceLogSum": Reduction(FLOATS, lambda _, t, axes, keep: tf.math.log(tf.reduce_sum(t, axes, keep)), _log),
    "ReduceLogSumExp": Reduction(SUMMABLE, _log_sum_exp),
    "ReduceMax": Reduction(ANY, _largest),
    "ReduceMean": Reduction(SUMMABLE, _mean),
    "ReduceMin": Reduction(ANY, _smallest),
    "ReduceProd": Reduction(SUMMABLE, lambda _, t, axes, keep: tf.reduce_prod(t, axes, keep)),
    "ReduceSum": Reduction(SUMMABLE, lambda _, t, axes, keep: tf.reduce_sum(t, axes, keep)),
    "ReduceSumSquare": Reduction(SUMMABLE, lambda _, t, axes, keep: tf.reduce_sum(_square(t), axes, keep), _square),
}


def _register(name: str, reduction: Reduction) -> None:
    @lowers(name, since=1, until=28, T=reduction.dtypes)
    def lowering(op: OperatorContext) -> Value:
        axes = op.optional(1)
        if axes is not None and axes.computing and axes.shape != (0,):
            return _over_computed(op, axes, reduction, noop=op.flag("noop_with_empty_axes"))
        named = reduced_axes(op)
        if named.noop:
            return op.value(0) if reduction.alone is None else map_elements(op.value(0), reduction.alone)
        return reduce_axes(op, named.axes, reduction.over, keep=named.keepdims)


for _name, _reduction in _REDUCTIONS.items():
    _register(_name, _reduction)


def reduce_axes(op: OperatorContext, reduced_axes: Sequence[int], over: Over, *, keep: bool) -> Value:
    """Reduce over the axes, which stay with size 1 unless keepdims is 0."""
    value = op.value(0)
    if value.only_parts is not None and op.node.op_type == "ReduceProd":
        return op.sized([product(value.only_parts)], scalar=not (keep and value.rank), dtype=value.dtype)
    left = [axis for axis in range(value.rank) if axis not in reduced_axes]
    layout, after = (value.layout, value.layout) if keep else _layouts(value.layout, left)
    places = sorted(layout.place(axis, value.rank) for axis in reduced_axes)
    if value.rank > _MOST_REDUCED:
        result = _in_fewer_axes(op, value, layout, places, over, keep=keep)
    else:
        result = over(op.kernels, value.tensor(layout), places, keep)
    answer = computed(result, after)
    return answer.with_sizes_of(value, zip(left, left, strict=True) if keep else enumerate(left))


_MOST_REDUCED = 6  # axes that XNNPACK reduces; seven end the interpreter's process


def _in_fewer_axes(
    op: OperatorContext, value: Value, layout: Layout, places: Sequence[int], over: Over, *, keep: bool
) -> TfTensor:
    """Reduce over places of a layout, with neighbours of which all are reduced, or none is, merged into one axis."""
    sizes = [value.size(axis) for axis in layout.order(value.rank)]
    runs = [list(run) for _, run in groupby(range(value.rank), lambda place: place in places)]
    merged = reshape(value.tensor(layout), [product([sizes[place] for place in run]) for run in runs])
    result = over(op.kernels, merged, [at for at, run in enumerate(runs) if run[0] in places], False)
    left = [1 if place in places else size for place, size in enumerate(sizes) if keep or place not in places]
    return reshape(result, left)


def _over_computed(op: OperatorContext, axes: Value, reduction: Reduction, *, noop: bool) -> Value:
    """Reduce over axes that the model computes. None at all are all of them, unless `noop`."""
    value, keep = op.value(0), op.flag("keepdims")
    places, count = as_int32(tf.reshape(axes.tensor(), [-1])), axes.shape[0] if axes.rank else 1
    if count is None:
        if not keep or (noop and reduction.alone is not None):
            op.refuse("the number of its axes is known only when the model runs", fix="make the axes constants")
        if not noop:
            every = tf.range(tf.where(tf.equal(tf.size(places), 0), value.rank, 0))
            places = tf.concat([places, every], 0)
    result = reduction.over(op.kernels, value.tensor(), places, keep)
    return computed(with_rank(result, value.rank if keep else value.rank - (count or 0)))


def _layouts(layout: Layout, left: list[int]) -> tuple[Layout, Layout]:
    """Return the layout to reduce in, and the layout of the axes that are left, of which `left` names the old places.

    Without channels the others are in order. With batch and channels, these are still the first and the last.
    """
    if layout is Layout.LOGICAL or 1 not in left:
        return layout, Layout.LOGICAL
    return (layout, layout) if 0 in left else (Layout.LOGICAL, Layout.LOGICAL)


@lowers("ArgMax", "ArgMin", since=1, T=NUMBERS)
def arg_extreme(op: OperatorContext) -> Value:
    """Lower ArgMax and ArgMin: where the largest or smallest lies along an axis, the first of equals or the last."""
    value, axis, keep = op.value(0), op.integer("axis", 0) % op.value(0).rank, op.flag("keepdims", True)
    last = op.flag("select_last_index")
    function = tf.argmax if op.node.op_type == "ArgMax" else tf.argmin
    tensor = value.tensor()
    if last:
        tensor = tf.reverse(tensor, [axis])
    index = function(tensor, axis, output_type=tf.int64)
    if last:
        index = tf.cast(value.size(axis) - 1, tf.int64) - index
    return computed(tf.expand_dims(index, axis) if keep else index)


@lowers("CumSum", since=11, T=SUMMABLE, T2=INDICES)
@lowers("CumProd", since=26, until=28, T=SUMMABLE, T2=INDICES)
def accumulate_along(op: OperatorContext) -> Value:
    """Lower CumSum and CumProd: running along an axis, with the element itself or without, from either end."""
    function = tf.cumsum if op.op_type == "CumSum" else op.kernels.cumprod
    value, axis = op.value(0), op.value(1)
    exclusive, reverse = op.flag("exclusive"), op.flag("reverse")
    layout = Layout.LOGICAL if axis.computing else value.layout
    if axis.computing:
        place: Size = as_int32(tf.reshape(axis.tensor(), []))
    else:
        place = layout.place(op.integers(1, "axis")[0] % value.rank, value.rank)
    return computed(function(value.tensor(layout), place, exclusive, reverse), layout).with_sizes_of(value)
