"""Sequences of tensors as lists that exist while lowering only: their lengths and the places in them must be known.

torch's exporter writes a split as SplitToSequence and SequenceAt. The tensors of a sequence may be computed; their
number, and which of them is meant, may not. The exception is a sequence that a loop appends to, which is one tensor of
rows. An optional value is the value that it holds, as far as it is known while lowering whether there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....onnx_graph.semantics.loops_and_sequences import check_mapped, common_dtype, part_lengths, place_among
from ...common.tensor_sequence import GrownSequence, TensorSequence
from ...lazy_tensorflow import tf
from ...lowerings import ANY, INDICES, lowers
from ...operator_context import OperatorContext
from ...values import Size, Value, computed, product, reshape, transpose
from ..math.casting import dtype_named
from ..tensor.indexing import from_start

STATIC = "give the axes that the sequence is made along a fixed size, or stack the tensors instead of listing them"


def as_sequence(op: OperatorContext, elements: list[Value]) -> TensorSequence:
    """Return tensors as a sequence; they must share their dtype."""
    return TensorSequence(common_dtype(op, elements), elements=tuple(elements))


@lowers("SequenceEmpty", since=11)
def sequence_empty(op: OperatorContext) -> TensorSequence:
    """Lower SequenceEmpty: no tensors, of a dtype."""
    return TensorSequence(dtype_named(op, op.integer("dtype", 1)))


@lowers("SequenceConstruct", since=11, T=ANY)
def sequence_construct(op: OperatorContext) -> TensorSequence:
    """Lower SequenceConstruct: the inputs as a sequence."""
    return as_sequence(op, op.values())


@lowers("SequenceLength", since=11, S=ANY)
def sequence_length(op: OperatorContext) -> Value:
    """Lower SequenceLength: the number of tensors."""
    grown = op.grown_sequence(0)
    if grown is not None:
        return computed(tf.cast(grown.size(0), tf.int64))
    return op.known(np.array(len(op.sequence(0).elements), np.int64))


@lowers("SequenceAt", since=11, S=ANY, I=INDICES)
def sequence_at(op: OperatorContext) -> Value:
    """Lower SequenceAt: the tensor at a place."""
    grown = op.grown_sequence(0)
    if grown is not None:
        return computed(tf.gather(grown.tensor(), from_start(op, op.value(1), grown.size(0))))
    elements = op.sequence(0).elements
    return elements[_place(op, 1, len(elements))]


@lowers("SequenceInsert", since=11, S=ANY, T=ANY, I=INDICES)
def sequence_insert(op: OperatorContext) -> TensorSequence:
    """Lower SequenceInsert: one more tensor, at the end or before a place."""
    grown, new = op.anything(0), op.value(1)
    if isinstance(grown, GrownSequence) and op.optional(2) is None:
        return append_rows(op, grown, computed(tf.expand_dims(new.tensor(), 0)))
    sequence = op.sequence(0)
    if new.dtype != sequence.dtype:
        op.refuse(f"it puts {new.dtype} into a sequence of {sequence.dtype}", fix="cast it in the model")
    elements = list(sequence.elements)
    at = len(elements) if op.optional(2) is None else _place(op, 2, len(elements), end=True)
    elements.insert(at, new)
    return TensorSequence(sequence.dtype, elements=tuple(elements))


@lowers("SequenceErase", since=11, S=ANY, I=INDICES)
def sequence_erase(op: OperatorContext) -> TensorSequence:
    """Lower SequenceErase: without the last tensor, or without that at a place."""
    sequence = op.sequence(0)
    elements = list(sequence.elements)
    if not elements:
        op.refuse("it takes a tensor out of an empty sequence", fix="check the model")
    del elements[-1 if op.optional(1) is None else _place(op, 1, len(elements))]
    return TensorSequence(sequence.dtype, elements=tuple(elements))


def _place(op: OperatorContext, index: int, length: int, *, end: bool = False) -> int:
    return place_among(op, op.value(index).array, length, STATIC, end=end)


@lowers("SplitToSequence", since=11, T=ANY, I=INDICES)
def split_to_sequence(op: OperatorContext) -> TensorSequence:
    """Lower SplitToSequence: the parts along an axis, of one length, of listed lengths, or without the axis."""
    value, split = op.value(0), op.optional(1)
    axis = op.axis("axis", rank=value.rank)
    keeps = op.flag("keepdims", True) or split is not None  # the specification: ignored where lengths are given
    lengths = _lengths(op, value.shape[axis], axis, split)
    if not keeps:
        parts = unstack(op, value, axis, len(lengths)) if lengths else []
    elif value.array is not None:
        parts = [op.known(part) for part in np.split(value.array, np.cumsum(lengths)[:-1], axis)]
    else:
        cut = tf.split(value.tensor(value.layout), lengths, value.place(axis)) if lengths else []
        parts = [computed(part, value.layout, dtype=value.dtype) for part in cut]
    return TensorSequence(value.dtype, elements=tuple(parts))


def unstack(op: OperatorContext, value: Value, axis: int, size: int) -> list[Value]:
    """Return the parts of a tensor at each place of an axis of this size, without that axis."""
    if value.only_parts is not None:
        return [op.sized([part], scalar=True, dtype=value.dtype) for part in value.only_parts]
    if value.array is not None:
        return [op.known(part) for part in np.moveaxis(value.array, axis, 0)]
    return [computed(part, dtype=value.dtype) for part in tf.unstack(value.tensor(), size, axis)]


def stack_values(op: OperatorContext, values: Sequence[Value], axis: int) -> Value:
    """Stack tensors of one shape along a new axis."""
    if all(value.array is not None for value in values):
        return op.known(np.stack([value.array for value in values if value.array is not None], axis))
    sizes = _sizes(values, 0)
    if sizes is not None:
        return op.sized(sizes, dtype=values[0].dtype)
    return computed(tf.stack([value.tensor() for value in values], axis), dtype=values[0].dtype)


def append_rows(op: OperatorContext, sequence: Value, rows: Value) -> GrownSequence:
    """Append to a sequence the places along the first axis of a tensor, which are known only when it runs."""
    if rows.dtype != sequence.dtype:
        op.refuse("it appends tensors of another dtype than its sequence has", fix="cast them in the model")
    before = sequence.stack if isinstance(sequence, GrownSequence) else _stack_elements(op, sequence, rows.shape[1:])
    if before is None:
        return GrownSequence(rows.dtype, stack=rows)
    # Of a loop without steps nobody has seen how large a row would have been.
    nothing = tf.equal(rows.size(0), 0)
    sizes = [
        tf.where(nothing, before.size(at), rows.size(at)) if rows.shape[at] is None else rows.size(at)
        for at in range(1, rows.rank)
    ]
    after = reshape(rows.tensor(), [rows.size(0), *sizes])
    return GrownSequence(rows.dtype, stack=computed(tf.concat([before.tensor(), after], 0)))


def _stack_elements(op: OperatorContext, sequence: Value, shape: Sequence[int | None]) -> Value | None:
    """Stack tensors that all have this shape along a new first axis; None where there are none."""
    elements = sequence.elements if isinstance(sequence, TensorSequence) else ()
    for element in elements:
        if element.rank != len(shape) or any(
            a != b for a, b in zip(element.shape, shape, strict=True) if None not in (a, b)
        ):
            op.refuse(
                f"it appends a tensor of the shape {tuple(shape)} to a sequence that has one of {element.shape}, "
                "and how often is known only when the model runs",
                fix="append tensors of one shape",
            )
    return stack_values(op, list(elements), 0) if elements else None


def _sizes(values: Sequence[Value], rank: int) -> list[Size] | None:
    """Return all numbers in a row, where the values are sizes of this rank."""
    parts = [value.size_parts(exact=True) for value in values if value.rank == rank]
    if len(parts) < len(values) or None in parts or not any(value.parts is not None for value in values):
        return None
    return [part for value in parts for part in value or ()]


def _lengths(op: OperatorContext, size: int | None, axis: int, split: Value | None) -> list[int]:
    """Return the lengths of the parts. The size along the axis may be open where the lengths are listed."""
    if split is not None and split.array is None:
        op.refuse("its split is computed by the model", fix=STATIC)
    if split is not None and split.rank == 1:
        lengths = list(op.integers(1, "split"))
        if min(lengths, default=0) < 0 or size not in (None, sum(lengths)):
            op.refuse(f"its split {lengths} is not that of {size} elements", fix="check the model")
        return lengths
    return part_lengths(op, size, axis, STATIC)


@lowers("ConcatFromSequence", since=11, S=ANY)
def concat_from_sequence(op: OperatorContext) -> Value:
    """Lower ConcatFromSequence: all tensors as one, joined along an axis or stacked along a new one."""
    grown = op.grown_sequence(0)
    if grown is not None:
        return _join_rows(op, grown, op.integer("axis"), new=op.flag("new_axis"))
    elements, new = op.sequence(0).elements, op.flag("new_axis")
    if not elements:
        op.refuse("it joins an empty sequence", fix="check the model")
    axis = op.axis("axis", rank=elements[0].rank + new)
    if new:
        return stack_values(op, elements, axis)
    sizes = _sizes(elements, 1)
    if sizes is not None:
        return op.sized(sizes, dtype=elements[0].dtype)
    return computed(tf.concat([element.tensor() for element in elements], axis), dtype=elements[0].dtype)


def _join_rows(op: OperatorContext, stack: Value, axis: int, *, new: bool) -> Value:
    """Join the places along the first axis of a tensor as `concat_from_sequence` joins them."""
    rank = stack.rank - 1
    axis = op.placed(axis, rank + new)
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank + 1)]
    moved = transpose(stack.tensor(), order)
    if new:
        return computed(moved)
    sizes = [stack.size(1 + at) for at in range(rank)]
    return computed(reshape(moved, [*sizes[:axis], product([stack.size(0), sizes[axis]]), *sizes[axis + 1 :]]))


@lowers("SequenceMap", since=17, S=ANY, V=ANY)
def sequence_map(op: OperatorContext) -> list[Value]:
    """Lower SequenceMap: its body for each place of the first sequence; tensors are passed in full every time."""
    count, body = len(op.sequence(0).elements), op.graph("body")
    inputs = op.everything()
    check_mapped(op, [count, *(len(value.elements) for value in inputs if isinstance(value, TensorSequence))])
    results = [
        op.branch(body, [value.elements[at] if isinstance(value, TensorSequence) else value for value in inputs])
        for at in range(count)
    ]
    return [as_sequence(op, list(parts)) for parts in zip(*results, strict=True)]


@lowers("Optional", since=15, until=28, V=ANY)
def optional(op: OperatorContext) -> Value:
    """Lower Optional: its input."""
    value = op.anything(0)
    if value is None:
        op.refuse("it makes an empty optional value")
    op.ignore("type", because="it says what an empty one would hold")
    return value


@lowers("OptionalHasElement", since=15, until=28, O=ANY)
def optional_has_element(op: OperatorContext) -> Value:
    """Lower OptionalHasElement: whether it has an input."""
    return op.known(np.array(op.anything(0) is not None))
