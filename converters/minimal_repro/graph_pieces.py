"""Pieces of a graph whose operators read and write tensors by name: an operator's predecessors, a piece's inputs and
outputs, and their dynamic axes. Shared by the kinds of graph (onnx_pieces.py, saved_model_pieces.py, tflite_pieces.py).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...models.artifact import write_artifact
from ...models.errors import Refused
from ...models.formats import Format, Target
from ...models.signature import Array, Axis, Signature, TensorSpec
from ...models.store import size_of

_MAX_BYTES = 1_500_000_000  # pieces hold copies of weights, and protobuf is limited to 2 GB
_MAX_SIZES = 8  # elements of an integer vector that counts as sizes, which converters want as constants


@dataclass(frozen=True)
class Piece(ABC):
    """A part of a model as a model; `expected` is what the full model computes for `feeds`."""

    signature: Signature
    feeds: Mapping[str, Array]
    expected: Mapping[str, Array]

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write the input of a step."""


@dataclass(frozen=True)
class GraphPiece(Piece):
    """Some operators of a graph as a model."""

    form: ClassVar[Format]
    suffix: ClassVar[str] = ""  # of the file that `save` writes beside a script; none if the script has its code
    operators: int  # how many of the full model's

    def save(self, path: Path) -> None:
        """Write the model to a file."""
        raise NotImplementedError

    def write(self, folder: Path) -> None:
        """Write the model as an artifact, the input of a step."""
        self.save(folder / self.form.spec.payload)
        write_artifact(folder, Target(self.form), self.signature)


class Cutter(ABC):
    """A model that can be cut into pieces. Operators have indices in a topological order."""

    nodes: Sequence[Any]
    operators: Sequence[tuple[str, str]] = ()  # type and name of each, where messages mention them

    def full_model(self) -> GraphPiece | None:
        """Return the full model as a piece."""
        return self.piece(range(len(self.nodes)))

    @abstractmethod
    def piece(self, chosen: Iterable[int]) -> GraphPiece | None:
        """Return these operators as a model; None without inputs, or if an input or output is no recorded tensor."""

    @abstractmethod
    def with_predecessors(self, index: int, limit: int) -> list[int]:
        """Return an operator and those that it depends on, nearest first, up to `limit` of them."""

    @abstractmethod
    def describe(self, index: int) -> tuple[str, str, str | None]:
        """Return an operator's type, a description of it for a user, and the model's line of it, if known."""


class GraphCutter(Cutter):
    """A graph whose operators read and write tensors by name, with the values of these in one run (`record`).
    `is_typed`: the dtypes of operators' values say in which precision they compute, and not those of weights alone."""

    is_typed = False

    def __init__(self, reads: Sequence[Sequence[str]], writes: Sequence[Sequence[str]], final: Collection[str]) -> None:
        self._reads, self._writes, self._results = reads, writes, frozenset(final)
        self._producers = {name: index for index, names in enumerate(writes) for name in names}
        self._values: dict[str, Array] = {}

    @property
    def reads(self) -> Sequence[Sequence[str]]:
        """The tensors that each operator reads."""
        return self._reads

    @property
    def writes(self) -> Sequence[Sequence[str]]:
        """The tensors that each operator writes."""
        return self._writes

    @property
    def values(self) -> Mapping[str, Array]:
        """The recorded tensors."""
        return self._values

    def output_values(self, names: Sequence[str]) -> dict[str, str]:
        """Return the tensor of each output of the model."""
        return {name: name for name in names}

    @abstractmethod
    def record(self, feeds: Mapping[str, Array]) -> None:
        """Run the full model once, and keep every tensor that an array can hold."""

    def record_until_failure(self, feeds: Mapping[str, Array]) -> int | None:  # noqa: ARG002  (formats that can)
        """Keep every tensor that can be computed, and return the first operator that fails; None if none is known."""
        return None

    @abstractmethod
    def _spec(self, name: str, plain: str) -> TensorSpec: ...

    def with_predecessors(self, index: int, limit: int) -> list[int]:
        """Return an operator and those that it depends on, nearest first, up to `limit` of them."""
        chosen: list[int] = []
        pending = [index]
        while pending and len(chosen) < limit:
            node = pending.pop(0)
            chosen.append(node)
            before = sorted(
                {self._producers[name] for name in self._reads[node] if name in self._producers}, reverse=True
            )
            pending += [source for source in before if source not in chosen and source not in pending]
        return chosen

    def _inputs_of(self, kept: Iterable[int]) -> list[str]:
        """Return what some operators read that none of them writes: weights, and the inputs of a piece."""
        inside = set(kept)
        names = dict.fromkeys(name for index in sorted(inside) for name in self._reads[index])
        return [name for name in names if self._producers.get(name) not in inside]

    def _outputs_of(self, kept: Sequence[int]) -> list[str]:
        """Return what other operators read of a piece, and outputs of the graph; else what its last operator writes."""
        inside = set(kept)
        outside = {name for index, names in enumerate(self._reads) if index not in inside for name in names}
        used = outside | self._results
        outputs = [name for index in kept for name in self._writes[index] if name in used]
        return list(dict.fromkeys(outputs)) or list(self._writes[kept[-1]])

    def _is_sizes(self, name: str) -> bool:
        """Return whether a tensor counts as sizes that the model computes. An input of the model never does."""
        value = self._values[name]
        return name in self._producers and value.dtype.kind in "iu" and value.ndim <= 1 and value.size <= _MAX_SIZES

    def _ends_of(
        self, kept: Sequence[int], constants: Collection[str]
    ) -> tuple[list[str], list[str], list[str]] | None:
        """Return the inputs of a piece, the sizes that it holds as constants, and its outputs.
        None if one of them is no recorded tensor, or there are no inputs or no outputs."""
        needed = [name for name in self._inputs_of(kept) if name not in constants]
        outputs = self._outputs_of(kept)
        if any(name not in self._values for name in (*needed, *outputs)):
            return None
        sizes = [name for name in needed if self._is_sizes(name)]
        inputs = [name for name in needed if name not in sizes]
        return (inputs, sizes, outputs) if inputs and outputs else None

    def _recorded(
        self, inputs: Sequence[str], outputs: Sequence[str], plain: Mapping[str, str]
    ) -> tuple[Signature, dict[str, Array], dict[str, Array]]:
        """Return the signature of a piece, its feeds and the expected outputs; `plain`: names in the signature."""
        sides = inputs, outputs
        signature = Signature(*(tuple(self._spec(name, plain[name]) for name in names) for names in sides))
        feeds, expected = ({plain[name]: self._values[name] for name in names} for names in sides)
        return signature, feeds, expected


def check_size(path: Path) -> None:
    """Raise Refused for a model that is too large to be cut into pieces."""
    if size_of(path) > _MAX_BYTES:
        raise Refused("the model is too large to be cut into pieces", fix="try it with fewer layers of a kind")


def spec_of(name: str, value: Array, declared: Sequence[int | str | None] | None) -> TensorSpec:
    """Return the spec of a recorded tensor; axes that the model declares dynamic stay so if the rank fits.
    Raises ValueError for a dtype that the formats lack."""
    if declared is None or len(declared) != value.ndim:
        return TensorSpec(name, value.dtype.name, value.shape)
    axes: list[Axis] = [
        size if isinstance(axis, int) else re.sub(r"\W", "_", axis or f"{name}_{at}")
        for at, (axis, size) in enumerate(zip(declared, value.shape, strict=True))
    ]
    return TensorSpec(name, value.dtype.name, tuple(axes))
