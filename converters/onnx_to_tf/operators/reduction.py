"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable

from ..lazy import tf
from ..reader import Op
from ..registry import FLOATS, NUMBERS, lowers
from ..values import Layout, TfTensor, Value, computed

Reduction = Callable[[TfTensor, "list[int]", bool], TfTensor]

_SUMMABLE = FLOATS | {"int32", "int64", "uint32", "uint64"}


def _named(name: str) -> Reduction:
    """A reduction of TensorFlow's, imported when it is called."""

    def reduction(tensor: TfTensor, axes: list[int], keep: bool) -> TfTensor:
        return getattr(tf, name)(tensor, axes, keep)

    return reduction


# by operator: what it takes, the function, and whether it changes a tensor that it does not reduce at all
_REDUCTIONS: dict[str, tuple[frozenset[str], Reduction, bool]] = {
    "ReduceL1": (_SUMMABLE, lambda t, axes, keep: tf.reduce_sum(tf.abs(t), axes, keep), True),
    "ReduceL2": (FLOATS, lambda t, axes, keep: tf.sqrt(tf.reduce_sum(tf.square(t), axes, keep)), True),
    "ReduceLogSum": (FLOATS, lambda t, axes, keep: tf.math.log(tf.reduce_sum(t, axes, keep)), True),
    "ReduceLogSumExp": (FLOATS, _named("reduce_logsumexp"), True),
    "ReduceMax": (NUMBERS, _named("reduce_max"), False),
    "ReduceMean": (FLOATS, _named("reduce_mean"), False),
    "ReduceMin": (NUMBERS, _named("reduce_min"), False),
    "ReduceProd": (_SUMMABLE, _named("reduce_prod"), False),
    "ReduceSum": (_SUMMABLE, _named("reduce_sum"), False),
    "ReduceSumSquare": (_SUMMABLE, lambda t, axes, keep: tf.reduce_sum(tf.square(t), axes, keep), True),
}
_AXES_BY_INPUT = {"ReduceSum": 13}  # the others took their axes as an input from opset 18 on


def _reduction(name: str, dtypes: frozenset[str], function: Reduction, changes: bool) -> None:
    by_input = _AXES_BY_INPUT.get(name, 18)

    @lowers(name, since=by_input, T=dtypes)
    def lowering(op: Op) -> Value:
        axes = [] if op.optional(1) is None else list(op.integers(1, "axes"))
        if not axes and op.flag("noop_with_empty_axes"):
            if changes:
                op.refuse("its attribute noop_with_empty_axes is not carried", fix="leave the operator out")
            op.flag("keepdims", True)
            return op.value(0)
        op.ignore("noop_with_empty_axes", because="there are axes, or all are reduced")
        return reduced(op, axes, function)

    @lowers(name, since=1, until=by_input - 1, T=dtypes)
    def lowering_by_attribute(op: Op) -> Value:
        return reduced(op, op.ints("axes", []), function)


def reduced(op: Op, axes: list[int], function: Reduction) -> Value:
    """Over the axes, or over all where none are named; they stay with size 1 unless keepdims is 0."""
    value, keep = op.value(0), op.flag("keepdims", True)
    gone = {axis % value.rank for axis in axes} or set(range(value.rank))
    left = [axis for axis in range(value.rank) if axis not in gone]
    layout, after = (value.layout, value.layout) if keep else _layouts(value.layout, left)
    places = sorted(layout.place(axis, value.rank) for axis in gone)
    return computed(function(value.tensor(layout), places, keep), after)


def _layouts(layout: Layout, left: list[int]) -> tuple[Layout, Layout]:
    """In which layout to reduce, and in which the axes that are left then lie, of which `left` names the old places.

    Without channels the others are in order. With batch and channels, these are still the first and the last.
    """
    if layout is Layout.LOGICAL or 1 not in left:
        return layout, Layout.LOGICAL
    return (layout, layout) if 0 in left else (Layout.LOGICAL, Layout.LOGICAL)


for _name, (_dtypes, _function, _changes) in _REDUCTIONS.items():
    _reduction(_name, _dtypes, _function, _changes)


@lowers("ArgMax", "ArgMin", since=1, T=NUMBERS)
def arg_extreme(op: Op) -> Value:
    """Where the largest or smallest lies along an axis: the first of equals, or the last."""
    value, axis, keep = op.value(0), op.integer("axis", 0) % op.value(0).rank, op.flag("keepdims", True)
    last = op.flag("select_last_index")
    function = tf.argmax if op.node.op_type == "ArgMax" else tf.argmin
    tensor = value.tensor()
    if last:
        tensor = tf.reverse(tensor, [axis])
    found = function(tensor, axis, output_type=tf.int64)
    if last:
        found = tf.cast(value.size(axis) - 1, tf.int64) - found
    return computed(tf.expand_dims(found, axis) if keep else found)


@lowers("CumSum", since=11, T=_SUMMABLE, T2=frozenset({"int32", "int64"}))
def cumulative_sum(op: Op) -> Value:
    """The running sum along an axis: with the element itself or without, from either end."""
    value = op.value(0)
    (axis,) = op.integers(1, "axis")
    exclusive, reverse = op.flag("exclusive"), op.flag("reverse")
    native = value.tensor(value.layout)
    place = value.place(axis % value.rank)
    return computed(tf.cumsum(native, place, exclusive=exclusive, reverse=reverse), value.layout)
