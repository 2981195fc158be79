"""What operators on sequences of tensors say, as both converters from ONNX read it."""

from __future__ import annotations

from ...models.signature import Array
from .node_reader import NodeReader


def place_among(op: NodeReader, given: Array | None, length: int, fix: str, *, end: bool = False) -> int:
    """A place in a sequence of `length` tensors, counted from the start; negative ones are given from the back.

    `given`: as the model has it, None where it computes it, which is refused with `fix`. `end`: behind the last is one,
    too.
    """
    if given is None:
        op.refuse("its position is computed by the model", fix=fix)
    place = int(given.reshape(()))
    if not -length <= place < length + end:
        op.refuse(f"its position is {place}, and the sequence has {length} tensors", fix="check the model")
    return place + length if place < 0 else place
