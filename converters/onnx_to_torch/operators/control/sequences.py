"""Sequences of tensors as lists that exist while writing only: their lengths and the places in them must be known.

Optional values are what they hold, as far as it is known while writing whether there is anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....onnx_graph.semantics.sequence_operators import part_lengths, place_among
from ...common.tensor_sequence import GrownSequence, TensorSequence, listed
from ...operator_context import Op
from ...values import Part, Value, as_parts
from ...writers import HELD, INDICES, Written, writes
from ..tensor.shape import as_tuple

STATIC = "give the axes that the sequence is made along a fixed size, or stack the tensors instead of listing them"


@writes("SequenceEmpty", since=11, folds=False)
def sequence_empty(op: Op) -> Written:
    """No tensors, of a dtype."""
    return TensorSequence(op.page, op.dtype("dtype", 1), ())


@writes("SequenceConstruct", since=11, folds=False, T=HELD)
def sequence_construct(op: Op) -> Written:
    """The inputs."""
    return listed(op, op.values())


@writes("SequenceLength", since=11, folds=False, S=HELD)
def sequence_length(op: Op) -> Written:
    """How many there are."""
    found = op.any_sequence(0)
    if isinstance(found, GrownSequence):
        return op.sized(as_parts([found.stack.size(0)]))
    return op.known(np.array(len(found.tensors), np.int64))


@writes("SequenceAt", since=11, folds=False, S=HELD, I=INDICES)
def sequence_at(op: Op) -> Written:
    """One of them."""
    elements = op.sequence(0).tensors
    return elements[_place(op, 1, len(elements))]


@writes("SequenceInsert", since=11, folds=False, S=HELD, T=HELD, I=INDICES)
def sequence_insert(op: Op) -> Written:
    """One more, at the end or before a place."""
    sequence, new = op.sequence(0), op.value(1)
    if new.dtype != sequence.dtype:
        op.refuse(f"it puts {new.dtype} into a sequence of {sequence.dtype}", fix="cast it in the model")
    elements = list(sequence.tensors)
    elements.insert(_place(op, 2, len(elements), end=True) if op.given(2) else len(elements), new)
    return TensorSequence(op.page, sequence.dtype, elements)


@writes("SequenceErase", since=11, folds=False, S=HELD, I=INDICES)
def sequence_erase(op: Op) -> Written:
    """One less: the last, or that at a place."""
    sequence = op.sequence(0)
    elements = list(sequence.tensors)
    if not elements:
        op.refuse("it takes a tensor out of an empty sequence", fix="check the model")
    del elements[_place(op, 1, len(elements)) if op.given(1) else -1]
    return TensorSequence(op.page, sequence.dtype, elements)


def _place(op: Op, index: int, length: int, *, end: bool = False) -> int:
    return place_among(op, op.value(index).array, length, STATIC, end=end)


@writes("SplitToSequence", since=11, folds=False, T=HELD, I=INDICES)
def split_to_sequence(op: Op) -> Written:
    """The parts of a tensor along an axis: each of a length, of lengths, or one by one and then without the axis."""
    value = op.value(0)
    axis = op.axis("axis", 0, rank=value.rank)
    keeps = op.flag("keepdims", True) or op.given(1)  # the specification: ignored where lengths are given
    lengths = _lengths(op, value.shape[axis], axis)
    return TensorSequence(op.page, value.dtype, _parts(op, value, axis, lengths, keeps=keeps))


def _parts(op: Op, value: Value, axis: int, lengths: Sequence[Part], *, keeps: bool) -> list[Value]:
    """A tensor taken apart. Numbers that are known, or sizes, stay such."""
    held = value.elements() if value.array is None else value.array
    if held is not None and all(isinstance(each, int) for each in lengths):
        cut = np.split(held, np.cumsum(np.array(lengths, int))[:-1], axis) if lengths else []
        cut = [part if keeps else part.squeeze(axis) for part in cut]
        return [op.known(part) if value.array is not None else op.sized(part, value.dtype) for part in cut]
    if not lengths:
        return []
    if not keeps:
        return [op.let(f"{value}.select({axis}, {at})", op.node.outputs[0]) for at in range(len(lengths))]
    if len(lengths) == 1:
        return [value]
    return op.page.unpack(f"torch.split({value}, {as_tuple(lengths)}, {axis})", [op.node.outputs[0]] * len(lengths))


def _lengths(op: Op, size: int | None, axis: int) -> Sequence[Part]:
    """Of the parts. The size along the axis may be open where the lengths are listed."""
    if op.given(1) and op.value(1).rank == 1:
        given = op.sizes(1, "split")
        known = [each for each in given if isinstance(each, int)]
        if size is not None and len(known) == len(given) and sum(known) != size:
            op.refuse(f"its split {list(given)} is not that of {size} elements", fix="check the model")
        return given
    return part_lengths(op, size, axis, STATIC)


@writes("ConcatFromSequence", since=11, folds=False, S=HELD)
def concat_from_sequence(op: Op) -> Written:
    """All of them as one, joined along an axis or stacked along a new one."""
    found, new = op.any_sequence(0), op.flag("new_axis")
    if isinstance(found, GrownSequence):
        axis = op.axis("axis", rank=found.stack.rank - 1 + new)
        moved = f"{found.stack}.movedim(0, {axis})"
        return moved if new else f"{moved}.flatten({axis}, {axis + 1})"
    elements = found.tensors
    if not elements:
        op.refuse("it joins an empty sequence", fix="check the model")
    axis = op.axis("axis", rank=elements[0].rank + new)
    parts = [each.size_parts() if each.rank == 1 - new else None for each in elements]
    if not any(each is None for each in parts):
        return op.sized([part for each in parts for part in each or ()], elements[0].dtype)
    return f"torch.{'stack' if new else 'cat'}([{', '.join(map(str, elements))}], {axis})"


@writes("Optional", since=15, until=28, folds=False, V=HELD)
def optional(op: Op) -> Written:
    """What it is given."""
    found = op.anything(0)
    if found is None:
        op.refuse("it makes an empty optional value")
    op.ignore("type", because="it says what an empty one would hold")
    return found


@writes("OptionalHasElement", since=15, until=28, folds=False, O=HELD)
def optional_has_element(op: Op) -> Written:
    """Whether it is given something."""
    return op.known(np.array(op.anything(0) is not None))


@writes("OptionalGetElement", since=15, until=28, folds=False, O=HELD)
def optional_get_element(op: Op) -> Written:
    """What it is given."""
    return op.anything(0) or op.value(0)
