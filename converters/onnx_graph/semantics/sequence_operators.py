"""What operators on sequences of tensors say."""

from __future__ import annotations

from collections.abc import Sequence

from ....models.signature import Array
from ..node_reader import NodeReader, S, V


def place_among(op: NodeReader[V, S], position: Array | None, length: int, fix: str, *, end: bool = False) -> int:
    """Return a place in a sequence of `length` tensors, counted from the start.

    `position`: as the model has it, None where it computes it, which is refused with `fix`. `end`: behind the last one
    is a place, too.
    """
    if position is None:
        op.refuse("its position is computed by the model", fix=fix)
    place = int(position.reshape(()))
    if not -length <= place < length + end:
        op.refuse(f"its position is {place}, and the sequence has {length} tensors", fix="check the model")
    return place + length if place < 0 else place


def common_dtype(op: NodeReader[V, S], tensors: Sequence[V]) -> str:
    """Return the dtype of tensors that become one sequence; several are refused."""
    dtypes = sorted({tensor.dtype for tensor in tensors})
    if len(dtypes) != 1:
        op.refuse(f"it puts {', '.join(dtypes)} into one sequence", fix="cast them to one dtype in the model")
    return dtypes[0]


def check_mapped(op: NodeReader[V, S], lengths: Sequence[int]) -> None:
    """Refuse a SequenceMap over sequences of several lengths, or over none, of which the dtypes are not known."""
    if len(set(lengths)) > 1:
        op.refuse("its sequences are not of one length", fix="check the model")
    if not lengths[0]:
        op.refuse("its sequences are empty, and the dtypes of its answers not known", fix="check the model")


def part_lengths(op: NodeReader[V, S], size: int | None, axis: int, fix: str) -> list[int]:
    """Return the lengths of the parts that SplitToSequence makes of an axis: of one length, or one by one."""
    length = op.integers(1, "split")[0] if op.has_input(1) else 1
    if size is None:
        op.refuse(f"the size of axis {axis}, and so the number of its parts, is known only when it runs", fix=fix)
    if length < 1:
        op.refuse(f"its split is {length}", fix="check the model")
    return [min(length, size - start) for start in range(0, size, length)]
