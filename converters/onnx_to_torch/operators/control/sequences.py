"""Sequences of tensors as lists that exist while writing only: their lengths and the places in them must be known.

Optional values are what they hold; whether there is anything must be known while writing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....onnx_graph.semantics.loops_and_sequences import common_dtype, part_lengths, place_among
from ...values import Expression, ExpressionSequence, LoopSequence, SizeTerm, as_tuple, express_size_terms
from ...writers import HELD, INDICES, CodegenContext, OutputCode, writes

STATIC = "give the axes that the sequence is made along a fixed size, or stack the tensors instead of listing them"


def sequence_of(op: CodegenContext, tensors: Sequence[Expression]) -> ExpressionSequence:
    """Return tensors as a sequence; they must share their dtype."""
    return ExpressionSequence(tensors[0].writer, common_dtype(op, tensors), tensors)


@writes("SequenceEmpty", since=11, folds=False)
def sequence_empty(op: CodegenContext) -> OutputCode:
    """Write SequenceEmpty: no tensors, of a dtype."""
    return ExpressionSequence(op.writer, op.dtype("dtype", 1), ())


@writes("SequenceConstruct", since=11, folds=False, T=HELD)
def sequence_construct(op: CodegenContext) -> OutputCode:
    """Write SequenceConstruct: the inputs."""
    return sequence_of(op, op.values())


@writes("SequenceLength", since=11, folds=False, S=HELD)
def sequence_length(op: CodegenContext) -> OutputCode:
    """Write SequenceLength."""
    sequence = op.any_sequence(0)
    if isinstance(sequence, LoopSequence):
        return op.sized(express_size_terms([sequence.stack.size(0)]))
    return op.known(np.array(len(sequence.tensors), np.int64))


@writes("SequenceAt", since=11, folds=False, S=HELD, I=INDICES)
def sequence_at(op: CodegenContext) -> OutputCode:
    """Write SequenceAt."""
    elements = op.sequence(0).tensors
    return elements[_place(op, 1, len(elements))]


@writes("SequenceInsert", since=11, folds=False, S=HELD, T=HELD, I=INDICES)
def sequence_insert(op: CodegenContext) -> OutputCode:
    """Write SequenceInsert: at the end, or before a place."""
    sequence, new = op.sequence(0), op.value(1)
    if new.dtype != sequence.dtype:
        op.refuse(f"it puts {new.dtype} into a sequence of {sequence.dtype}", fix="cast it in the model")
    elements = list(sequence.tensors)
    elements.insert(_place(op, 2, len(elements), end=True) if op.has_input(2) else len(elements), new)
    return ExpressionSequence(op.writer, sequence.dtype, elements)


@writes("SequenceErase", since=11, folds=False, S=HELD, I=INDICES)
def sequence_erase(op: CodegenContext) -> OutputCode:
    """Write SequenceErase: the last tensor, or that at a place."""
    sequence = op.sequence(0)
    elements = list(sequence.tensors)
    if not elements:
        op.refuse("it takes a tensor out of an empty sequence", fix="check the model")
    del elements[_place(op, 1, len(elements)) if op.has_input(1) else -1]
    return ExpressionSequence(op.writer, sequence.dtype, elements)


def _place(op: CodegenContext, index: int, length: int, *, end: bool = False) -> int:
    return place_among(op, op.value(index).array, length, STATIC, end=end)


@writes("SplitToSequence", since=11, folds=False, T=HELD, I=INDICES)
def split_to_sequence(op: CodegenContext) -> OutputCode:
    """Write SplitToSequence: parts of one length, of listed lengths, or one by one and then without the axis."""
    value = op.value(0)
    axis = op.axis("axis", 0, rank=value.rank)
    keeps = op.flag("keepdims", True) or op.has_input(1)  # the specification: ignored where lengths are given
    lengths = _lengths(op, value.shape[axis], axis)
    return ExpressionSequence(op.writer, value.dtype, _parts(op, value, axis, lengths, keeps=keeps))


def _parts(
    op: CodegenContext, value: Expression, axis: int, lengths: Sequence[SizeTerm], *, keeps: bool
) -> list[Expression]:
    """Return a tensor taken apart. Parts of known numbers and of sizes stay such."""
    held = value.elements() if value.array is None else value.array
    if held is not None and all(isinstance(length, int) for length in lengths):
        cut = np.split(held, np.cumsum(np.array(lengths, int))[:-1], axis) if lengths else []
        cut = [part if keeps else part.squeeze(axis) for part in cut]
        return [op.known(part) if value.array is not None else op.sized(part, value.dtype) for part in cut]
    if not lengths:
        return []
    if not keeps:
        return [op.let(f"{value}.select({axis}, {at})", op.node.outputs[0]) for at in range(len(lengths))]
    if len(lengths) == 1:
        return [value]
    return op.writer.unpack(f"torch.split({value}, {as_tuple(lengths)}, {axis})", [op.node.outputs[0]] * len(lengths))


def _lengths(op: CodegenContext, size: int | None, axis: int) -> Sequence[SizeTerm]:
    """Return the lengths of the parts. The size along the axis may be open where the lengths are listed."""
    if op.has_input(1) and op.value(1).rank == 1:
        lengths = op.sizes(1, "split")
        known = [length for length in lengths if isinstance(length, int)]
        if size is not None and len(known) == len(lengths) and sum(known) != size:
            op.refuse(f"its split {list(lengths)} is not that of {size} elements", fix="check the model")
        return lengths
    return part_lengths(op, size, axis, STATIC)


@writes("ConcatFromSequence", since=11, folds=False, S=HELD)
def concat_from_sequence(op: CodegenContext) -> OutputCode:
    """Write ConcatFromSequence: joined along an axis, or stacked along a new one."""
    sequence, new = op.any_sequence(0), op.flag("new_axis")
    if isinstance(sequence, LoopSequence):
        axis = op.axis("axis", rank=sequence.stack.rank - 1 + new)
        moved = f"{sequence.stack}.movedim(0, {axis})"
        return moved if new else f"{moved}.flatten({axis}, {axis + 1})"
    elements = sequence.tensors
    if not elements:
        op.refuse("it joins an empty sequence", fix="check the model")
    axis = op.axis("axis", rank=elements[0].rank + new)
    parts = [sizes.size_parts() if sizes.rank == 1 - new else None for sizes in elements]
    if not any(sizes is None for sizes in parts):
        return op.sized([size for sizes in parts for size in sizes or ()], elements[0].dtype)
    return f"torch.{'stack' if new else 'cat'}([{', '.join(map(str, elements))}], {axis})"


@writes("Optional", since=15, until=28, folds=False, V=HELD)
def optional(op: CodegenContext) -> OutputCode:
    """Write Optional: its input."""
    value = op.anything(0)
    if value is None:
        op.refuse("it makes an empty optional value")
    op.ignore("type", because="it says what an empty one would hold")
    return value


@writes("OptionalHasElement", since=15, until=28, folds=False, O=HELD)
def optional_has_element(op: CodegenContext) -> OutputCode:
    """Write OptionalHasElement: known while writing."""
    return op.known(np.array(op.anything(0) is not None))
