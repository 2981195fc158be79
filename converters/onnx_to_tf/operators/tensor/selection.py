"""Elements selected by their values: the largest, the different, those that are not zero."""

from __future__ import annotations

from ....onnx_graph.semantics.former_attributes import top_k_arguments
from ...common.sortable_integers import ascending_order, reverse_keys, sort_keys
from ...lazy_tensorflow import tf
from ...lowerings import ANY, BOOL, NUMBERS, lowers
from ...operator_context import OperatorContext
from ...values import Layout, TfTensor, Value, computed, pack_sizes, product


@lowers("TopK", since=1, T=NUMBERS)
def top_k(op: OperatorContext) -> list[Value]:
    """Lower TopK: the k largest or smallest along an axis, in order, of equals the first; and where they lay."""
    value, choice = op.value(0), top_k_arguments(op)
    axis, last = choice.axis, value.rank - 1
    layout = value.layout if value.place(axis) == last else Layout.LOGICAL
    place = layout.place(axis, value.rank)
    order = [at for at in range(value.rank) if at != place] + [place]
    back = [order.index(at) for at in range(value.rank)]
    tensor = value.tensor(layout) if place == last else tf.transpose(value.tensor(layout), order)
    ordered = sort_keys(tensor)
    _, places = tf.math.top_k(ordered if choice.largest else reverse_keys(ordered), choice.count)
    extremes = tf.gather(tensor, places, batch_dims=last)
    outputs = [extremes, tf.cast(places, tf.int64)]
    return [computed(output if place == last else tf.transpose(output, back), layout) for output in outputs]


@lowers("NonZero", since=9, T=ANY)
def non_zero(op: OperatorContext) -> Value:
    """Lower NonZero: the places of elements that are not zero, (rank, count), in row-major order."""
    tensor = op.tensor(0)
    return computed(tf.transpose(op.kernels.places_where(tf.not_equal(tensor, tf.zeros_like(tensor)))))


@lowers("Compress", since=9, until=28, T=ANY, T1=BOOL)
def compress(op: OperatorContext) -> Value:
    """Lower Compress: the slices along an axis, or the elements, for which a condition, which may be shorter, holds."""
    value, chosen = op.value(0), tf.where(op.tensor(1))[:, 0]
    if not op.has("axis"):
        return computed(tf.gather(tf.reshape(value.tensor(), [-1]), chosen))
    place = value.place(op.integer("axis") % value.rank)
    return computed(tf.gather(value.tensor(value.layout), chosen, axis=place), value.layout)


@lowers("Unique", since=11, until=28, T=ANY)
def unique(op: OperatorContext) -> list[Value]:
    """Lower Unique: different elements or slices, ascending or as they come; first places, groups and their sizes."""
    value, ascend = op.value(0), op.flag("sorted", True)
    axis = op.integer("axis") % value.rank if op.has("axis") else None
    elements = tf.reshape(value.tensor(), [-1]) if axis is None else value.tensor()
    first, inverse, counts = _group_rows(sort_keys(_comparable_rows(value, axis)))
    if not ascend:
        by = ascending_order(first)
        inverse = tf.gather(_invert(by), inverse)
        first, counts = tf.gather(first, by), tf.gather(counts, by)
    uniques = tf.gather(elements, first, axis=axis or 0)
    return [computed(uniques), *(computed(tf.cast(output, tf.int64)) for output in (first, inverse, counts))]


def _comparable_rows(value: Value, axis: int | None) -> TfTensor:
    """Return what is compared, one a row: (count, elements)."""
    if axis is None:
        return tf.reshape(value.tensor(), [-1, 1])
    other_axes = [at for at in range(value.rank) if at != axis]
    rows = tf.transpose(value.tensor(), [axis, *other_axes])
    return tf.reshape(rows, pack_sizes([value.size(axis), product([value.size(at) for at in other_axes])]))


def _group_rows(rows: TfTensor) -> tuple[TfTensor, TfTensor, TfTensor]:
    """Group equal rows, ascending, stable: first place of each group, group of each row, group sizes; all int32."""
    count = tf.shape(rows)[0]
    order = _lexical_order(rows)
    ordered = tf.gather(rows, order)
    differs = tf.reduce_any(tf.not_equal(ordered[1:], ordered[:-1]), axis=1)
    begins = tf.concat([tf.fill([tf.minimum(count, 1)], True), differs], 0)
    starts = tf.cast(tf.where(begins)[:, 0], tf.int32)
    group = tf.gather(tf.cumsum(tf.cast(begins, tf.int32)) - 1, _invert(order))
    return tf.gather(order, starts), group, tf.concat([starts[1:], [count]], 0) - starts


def _lexical_order(rows: TfTensor) -> TfTensor:
    """Return the places of rows in lexical order: sorted by the last column, then by the one before it, and so on."""
    columns = rows.shape[1] if rows.shape[1] is not None else tf.shape(rows)[1]
    if isinstance(columns, int) and columns == 1:
        return ascending_order(rows[:, 0])

    def by_one_more(at: TfTensor, order: TfTensor) -> tuple[TfTensor, TfTensor]:
        column = tf.gather(rows[:, at], order)
        return at - 1, tf.gather(order, ascending_order(column))

    start = (tf.constant(columns - 1) if isinstance(columns, int) else columns - 1, tf.range(tf.shape(rows)[0]))
    invariants = (tf.TensorShape([]), tf.TensorShape([None]))
    return tf.while_loop(lambda at, _: at >= 0, by_one_more, start, shape_invariants=invariants)[1]


def _invert(order: TfTensor) -> TfTensor:
    """Return the inverse of a permutation."""
    return tf.scatter_nd(order[:, None], tf.range(tf.shape(order)[0]), tf.shape(order))
