"""TopK, Clip and Constant: numbers that were attributes in their first wordings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import numpy as np

from ....models.signature import Array
from ..node_reader import NodeReader, S, V


@dataclass(frozen=True, slots=True)
class TopKArguments(Generic[S]):
    """How many of the largest or smallest elements along an axis TopK takes."""

    count: S | int
    axis: int
    largest: bool


def top_k_arguments(op: NodeReader[V, S]) -> TopKArguments[S]:
    """Read TopK: k was an attribute before opset 10; before 11 it always took the largest, in order."""
    count: S | int
    (count,) = (op.integer("k"),) if op.version < 10 else op.sizes(1, "number")
    op.ignore("sorted", because="without it any order will do, also the sorted one")
    return TopKArguments(count, op.axis("axis", rank=op.value(0).rank), op.flag("largest", True))


def clip_bounds(op: NodeReader[V, S]) -> tuple[V | None, V | None]:
    """Return the least and the largest value of Clip, where it has any: attributes before opset 11."""
    if op.version >= 11:
        return op.optional(1), op.optional(2)
    dtype = op.value(0).dtype
    low, high = (op.known(np.array(op.real(name), dtype)) if op.has(name) else None for name in ("min", "max"))
    return low, high


def constant_array(op: NodeReader[V, S]) -> Array:
    """Return what a Constant holds: a tensor, a number or a list of numbers."""
    if op.has("value"):
        return op.tensor_attribute("value")
    if op.has("value_float") or op.has("value_floats"):
        return np.array(op.real("value_float") if op.has("value_float") else op.floats("value_floats"), np.float32)
    if op.has("value_int") or op.has("value_ints"):
        return np.array(op.integer("value_int") if op.has("value_int") else op.ints("value_ints"), np.int64)
    return op.refuse("it holds neither a tensor nor numbers")
