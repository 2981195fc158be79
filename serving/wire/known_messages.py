"""Requests that differ from an earlier one in the values of their tensors alone.

A client sends the same message again and again, with other values; parsing it takes longer than a small model. Where
the values lie follows from the bytes before them. So a message whose other bytes are those of an earlier one, at the
same places, says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ...models.errors import TransloadError
from ...models.signature import Array
from .oip_tensors import message_fields, refuse, shown

_KEY_BYTES = 12  # of the beginning of a message, by which it is looked for, with its length; before any values
_MOST_BYTES = 1 << 12  # of a message beside its values
_LONG_BYTES = 1 << 16  # of a message, that is remembered in any case: parsing copies it several times
_MOST = 64  # messages that are remembered
_TURN = 8  # one of so many is remembered: where each has an id of its own, remembering all would be in vain

Request = TypeVar("Request")
Place: TypeAlias = tuple[str, int, int]  # a tensor's name, and where its raw values begin and end in a message


class KnownMessage(NamedTuple, Generic[Request]):
    """A message without its values."""

    request: Request
    gaps: list[tuple[int, bytes]]  # what lies before, between and behind the values, and where
    tensors: list[tuple[Place, np.dtype[np.generic], tuple[int, ...]]]


class KnownMessages(Generic[Request]):
    """Requests of one kind. `find_places` returns where the values lie in a message, in their order. Thread-safe."""

    def __init__(self, find_places: Callable[[bytes], Sequence[Place]]) -> None:
        self._find_places = find_places
        self._turns = count(1)
        self._known: dict[tuple[int, bytes], KnownMessage[Request]] = {}

    def read(self, data: bytes) -> tuple[Request, dict[str, Array]] | None:
        """Return the request that a message is, and its tensors; None where it is not known."""
        known = self._known.get((len(data), data[:_KEY_BYTES]))
        if known is None:
            return None
        request, gaps, tensors = known
        for start, gap in gaps:
            if not data.startswith(gap, start):
                return None
        arrays = {}
        for (name, start, end), dtype, shape in tensors:
            arrays[name] = np.frombuffer(data[start:end], dtype).reshape(shape)
        return request, arrays

    def add(self, data: bytes, request: Request, arrays: Mapping[str, Array]) -> None:
        """Remember a message that was read as this request and these tensors, where all of them came as raw bytes.
        The request is kept, and should not hold the values."""
        if len(data) > _LONG_BYTES or not next(self._turns) % _TURN:
            with suppress(TransloadError):  # it has what the parser passes over
                self._add(data, request, arrays)

    def _add(self, data: bytes, request: Request, arrays: Mapping[str, Array]) -> None:
        places = self._find_places(data)
        sizes = [(name, end - start) for name, start, end in places]
        wanted = [(name, array.nbytes) for name, array in arrays.items()]
        is_plain = sorted(sizes) == sorted(wanted) and len(data) - sum(size for _, size in sizes) <= _MOST_BYTES
        if not is_plain or any(array.dtype.kind in "bO" for array in arrays.values()):
            return  # the bytes of bools are checked, and those of strings hold their lengths
        ends, starts = [0, *(end for *_, end in places)], [*(start for _, start, _ in places), len(data)]
        gaps = [(end, data[end:start]) for end, start in zip(ends, starts, strict=True)]
        tensors = [(place, arrays[place[0]].dtype, arrays[place[0]].shape) for place in places]
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[len(data), data[:_KEY_BYTES]] = KnownMessage(request, gaps, tensors)


def predict_places(data: bytes) -> list[Place]:
    """Return where the values of a PredictRequest lie: tensor_content (4) of the value (2) of each of its inputs (2),
    whose name is the key (1). Raises BadRequest."""
    places, names = [], set()
    for entry, end in _chosen(memoryview(data), 2):
        name = _name(entry)
        if name in names:
            raise refuse(f"input {shown(name)} comes twice")
        names.add(name)
        for tensor, tensor_end in _chosen(entry, 2):
            for values, values_end in _chosen(tensor, 4):
                stop = end - len(entry) + tensor_end - len(tensor) + values_end
                places.append((name, stop - len(values), stop))
    return places


def infer_places(data: bytes) -> list[Place]:
    """Return where the values of a ModelInferRequest lie: raw_input_contents (7), in the order of inputs (5), whose
    names are their field 1. Raises BadRequest."""
    names = [_name(row) for row, _ in _chosen(memoryview(data), 5)]
    raw = [(end - len(values), end) for values, end in _chosen(memoryview(data), 7)]
    return [(name, *place) for name, place in zip(names, raw, strict=False)]


def _name(row: memoryview) -> str:
    """Return the name in field 1, of which the last counts."""
    return bytes([b"", *(name for name, _ in _chosen(row, 1))][-1]).decode()


def _chosen(data: memoryview, number: int) -> list[tuple[memoryview, int]]:
    """Return value and end of the fields of a number. Raises BadRequest where one has an uncommon tag."""
    start, chosen = 0, []
    for field, value, end in message_fields(data):
        if field == number:
            if data[start] != number << 3 | 2:
                raise refuse(f"field {number} is tagged as no other parser would")
            chosen.append((value, end))
        start = end
    return chosen
