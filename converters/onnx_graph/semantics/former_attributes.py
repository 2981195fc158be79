"""Attributes that became inputs: of Slice, Pad and Split since opsets 10, 11 and 13, of TopK and Clip; and Constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from ....models.signature import Array
from ..node_reader import NodeReader, S, V

PAD_MODES = ("constant", "reflect", "edge", "wrap")


@dataclass(frozen=True, slots=True)
class SliceArguments(Generic[S]):
    """From starts to ends by steps, along axes that are counted from the first."""

    starts: Sequence[S | int]
    ends: Sequence[S | int]
    axes: tuple[int, ...]
    steps: tuple[int, ...]


def slice_arguments(op: NodeReader[V, S]) -> SliceArguments[S]:
    """Read Slice, whose axes and steps are known: the first axes where none are named, and the step 1."""
    starts: Sequence[S | int]
    ends: Sequence[S | int]
    if op.version < 10:
        starts, ends = op.ints("starts"), op.ints("ends")
        axes: Sequence[int] = op.ints("axes", range(len(starts)))
        steps: Sequence[int] = [1] * len(starts)
    else:
        starts, ends = op.sizes(1, "starts"), op.sizes(2, "ends")
        axes = op.integers(3, "axes") if op.has_input(3) else range(len(starts))
        steps = op.integers(4, "steps") if op.has_input(4) else [1] * len(starts)
    rank = op.value(0).rank
    return SliceArguments(starts, ends, tuple(op.placed(axis, rank) for axis in axes), tuple(steps))


@dataclass(frozen=True, slots=True)
class PadArguments(Generic[V, S]):
    """How wide each named axis is padded, and with what. Negative pads cut."""

    mode: str
    axes: Sequence[S | int]
    widths: Sequence[tuple[S | int, S | int]]  # before and after each of `axes`
    number: V | None  # None is 0


def pad_arguments(op: NodeReader[V, S]) -> PadArguments[V, S]:
    """Read Pad: all axes where none are named. A back-end may take axes that the model computes."""
    rank = op.value(0).rank
    axes: Sequence[S | int] = range(rank)
    pads: Sequence[S | int]
    number: V | None
    if op.version < 11:
        pads, number = op.ints("pads"), op.known(np.array(op.real("value"), op.value(0).dtype))
    else:
        pads, number = op.sizes(1, "pads"), op.optional(2)
    if op.has_input(3):
        named = op.sizes(3, "axes") if op.reads_computed_axes else op.integers(3, "axes")
        axes = [op.placed(axis, rank) if isinstance(axis, int) else axis % rank for axis in named]  # type: ignore[operator]
    mode, count = op.word("mode", "constant", PAD_MODES), len(axes)
    if len(pads) != 2 * count:
        op.refuse(f"it has {len(pads)} pads for {count} axes", fix="check the model")
    return PadArguments(mode, axes, list(zip(pads[:count], pads[count:], strict=True)), number)


@dataclass(frozen=True, slots=True)
class SplitArguments:
    """Where a tensor is split: by lengths, or into `count` equal parts of which the last may be shorter."""

    axis: int
    lengths: tuple[int, ...] | None  # where they are an attribute
    lengths_at: int | None  # the input that has them
    count: int


def split_arguments(op: NodeReader[V, S]) -> SplitArguments:
    """Read Split: lengths were an attribute before opset 13, and since 18 num_outputs says how many equal parts."""
    axis = op.axis("axis", rank=op.value(0).rank)
    if op.version < 13:
        return SplitArguments(axis, tuple(op.ints("split")) if op.has("split") else None, None, op.outputs)
    if op.has_input(1):
        return SplitArguments(axis, None, 1, op.outputs)
    count = op.integer("num_outputs", op.outputs) if op.version >= 18 else op.outputs
    if count != op.outputs:
        op.refuse(f"it has {op.outputs} outputs and num_outputs {count}", fix="check the model with onnx.checker")
    return SplitArguments(axis, None, None, count)


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
