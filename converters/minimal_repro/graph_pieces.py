"""Pieces of a graph whose operators read and write tensors by name: an operator's predecessors, a piece's inputs and
outputs, and their dynamic axes. Shared by the kinds of graph (onnx_pieces.py, saved_model_pieces.py, tflite_pieces.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...models.signature import Array, Axis, Signature, TensorSpec

_MAX_SIZES = 8  # elements of an integer vector that counts as sizes, which converters want as constants


@dataclass(frozen=True)
class GraphPiece:
    """Some operators of a graph as a model; `expected` is what the full model computes for `feeds`."""

    signature: Signature
    feeds: Mapping[str, Array]
    expected: Mapping[str, Array]
    operators: int  # how many of the full model's


class OperatorGraph:
    """Operators by their index, in a topological order: what each reads and writes, and the outputs of the graph."""

    def __init__(self, reads: Sequence[Sequence[str]], writes: Sequence[Sequence[str]], final: Collection[str]) -> None:
        self.reads, self.writes = reads, writes
        self.producers = {name: index for index, names in enumerate(writes) for name in names}
        self._results = frozenset(final)

    def with_predecessors(self, index: int, limit: int) -> list[int]:
        """Return an operator and those that it depends on, nearest first, up to `limit` of them."""
        chosen: list[int] = []
        pending = [index]
        while pending and len(chosen) < limit:
            node = pending.pop(0)
            chosen.append(node)
            before = sorted({self.producers[name] for name in self.reads[node] if name in self.producers}, reverse=True)
            pending += [source for source in before if source not in chosen and source not in pending]
        return chosen

    def inputs_of(self, kept: Iterable[int]) -> list[str]:
        """Return what some operators read that none of them writes: weights, and the inputs of a piece."""
        inside = set(kept)
        names = dict.fromkeys(name for index in sorted(inside) for name in self.reads[index])
        return [name for name in names if self.producers.get(name) not in inside]

    def outputs_of(self, kept: Sequence[int]) -> list[str]:
        """Return what other operators read of a piece, and outputs of the graph; else what its last operator writes."""
        inside = set(kept)
        outside = {name for index, names in enumerate(self.reads) if index not in inside for name in names}
        used = outside | self._results
        outputs = [name for index in kept for name in self.writes[index] if name in used]
        return list(dict.fromkeys(outputs)) or list(self.writes[kept[-1]])

    def is_sizes(self, name: str, value: Array) -> bool:
        """Return whether a tensor counts as sizes that the model computes. An input of the model never does."""
        return name in self.producers and value.dtype.kind in "iu" and value.ndim <= 1 and value.size <= _MAX_SIZES


def spec_of(name: str, value: Array, declared: Sequence[int | str | None] | None) -> TensorSpec:
    """Return the spec of a recorded tensor; axes that the model declares dynamic stay so if the rank fits.

    Raises ValueError for a dtype that the formats lack.
    """
    if declared is None or len(declared) != value.ndim:
        return TensorSpec(name, value.dtype.name, value.shape)
    sizes = enumerate(zip(declared, value.shape, strict=True))
    return TensorSpec(name, value.dtype.name, tuple(_axis(name, at, axis, size) for at, (axis, size) in sizes))


def _axis(name: str, at: int, axis: int | str | None, size: int) -> Axis:
    if isinstance(axis, int):
        return size
    return re.sub(r"\W", "_", axis or f"{name}_{at}")
