"""Pieces of a graph whose operators read and make tensors by name: what is behind an operator, what a piece is fed and
gives, and what of it stays dynamic. Shared by the kinds of graph (onnx.py, saved_model.py, tflite.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from ...models.signature import Array, Axis, TensorSpec

_SMALL = 8  # elements of a vector of integers that is taken for sizes, which converters want to know


class Graph:
    """Operators by their numbers, in a topological order: what each reads and makes, and what the whole gives."""

    def __init__(
        self, reads: Sequence[Sequence[str]], makes: Sequence[Sequence[str]], results: Collection[str]
    ) -> None:
        self.reads, self.makes = reads, makes
        self.made = {name: at for at, names in enumerate(makes) for name in names}
        self._results = frozenset(results)

    def behind(self, at: int, most: int) -> list[int]:
        """An operator and those before it that it depends on, nearest first, up to `most` of them."""
        found: list[int] = []
        waiting = [at]
        while waiting and len(found) < most:
            node = waiting.pop(0)
            found.append(node)
            before = sorted({self.made[name] for name in self.reads[node] if name in self.made}, reverse=True)
            waiting += [each for each in before if each not in found and each not in waiting]
        return found

    def fed(self, kept: Iterable[int]) -> list[str]:
        """What some operators read that none of them makes: weights, and what a piece is fed."""
        inside = set(kept)
        names = dict.fromkeys(name for at in sorted(inside) for name in self.reads[at])
        return [name for name in names if self.made.get(name) not in inside]

    def given(self, kept: Sequence[int]) -> list[str]:
        """What a piece gives: what others read of it, and outputs of the whole; else what its last operator makes."""
        inside = set(kept)
        outside = {name for at, names in enumerate(self.reads) if at not in inside for name in names}
        wanted = outside | self._results
        given = [name for at in kept for name in self.makes[at] if name in wanted]
        return list(dict.fromkeys(given)) or list(self.makes[kept[-1]])

    def is_sizes(self, name: str, value: Array) -> bool:
        """Whether a tensor is taken for sizes that the model works out. An input of the model stays one."""
        return name in self.made and value.dtype.kind in "iu" and value.ndim <= 1 and value.size <= _SMALL


def spec_of(name: str, value: Array, declared: Sequence[int | str | None] | None) -> TensorSpec:
    """The axes that a model calls dynamic stay so, by their names where they have any, if that fits what was seen.

    Raises ValueError where nothing here carries the dtype.
    """
    if declared is None or len(declared) != value.ndim:
        return TensorSpec(name, value.dtype.name, value.shape)
    sizes = enumerate(zip(declared, value.shape, strict=True))
    return TensorSpec(name, value.dtype.name, tuple(_axis(name, at, axis, size) for at, (axis, size) in sizes))


def _axis(name: str, at: int, axis: int | str | None, size: int) -> Axis:
    if isinstance(axis, int):
        return size
    return re.sub(r"\W", "_", axis or f"{name}_{at}")
