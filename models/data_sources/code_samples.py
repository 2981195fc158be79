"""Samples that the user's code gives: a torch Dataset, a DataLoader, or anything that can be iterated. Worker only."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..dataset import labels_key
from ..errors import BadRequest
from ..loading.code_refs import load_named
from ..loading.user_code import user_code, working_in_root
from ..signature import Array, TensorSpec, shape_text
from ..sources import CodeRef
from .item_shapes import item_specs
from .sample_writer import Chunk

_FORMS = "(inputs, labels); inputs are an array, a tuple of arrays in the model's order, or a dict by name"


def read_code(ref: CodeRef, inputs: Sequence[TensorSpec]) -> Iterator[Chunk]:
    """Yield what an object of the user's gives, or what a function gives that makes it.

    An item is one sample, or several along the first axis, as the rank of its arrays says.
    Raises BadRequest where the code raises, or an item does not fit the inputs."""
    reader = _ItemReader(ref, inputs)
    count = 0
    with working_in_root(ref):
        source = _make(ref)
        items = _iterate(source, ref)
        while True:
            with user_code(f"{ref.text}, after {count} items,", ref):
                try:
                    item = next(items)
                except StopIteration:
                    return
                chunk = reader.read(item, count)
            yield chunk
            count += 1


def _make(ref: CodeRef) -> Any:
    named = load_named(ref)
    if not callable(named):
        return named
    if needed := _needed_arguments(named):
        raise BadRequest(
            f"{ref.text} takes {', '.join(needed)}, and is called without arguments",
            fix="give them defaults, or name a function without arguments that makes it",
        )
    with user_code(ref.text, ref):
        return named()


def _needed_arguments(function: Callable[..., Any]) -> list[str]:
    """Return the parameters that have no default; none of a function that does not tell its parameters."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        row.name
        for row in parameters
        if row.default is row.empty and row.kind not in (row.VAR_POSITIONAL, row.VAR_KEYWORD)
    ]


def _iterate(source: Any, ref: CodeRef) -> Iterator[Any]:
    """Iterate over `source`; a map-style Dataset of torch ends at its length, and not by an IndexError."""
    if hasattr(source, "__iter__") or hasattr(source, "__next__"):
        with user_code(ref.text, ref):
            return iter(source)
    if hasattr(source, "__len__") and hasattr(source, "__getitem__"):
        return (source[at] for at in range(len(source)))
    raise BadRequest(
        f"{ref.text} gives a {type(source).__name__}, which holds no samples",
        fix=f"let it give a torch Dataset, a DataLoader, or anything that can be iterated, of {_FORMS}",
    )


class _ItemReader:
    """Turns items into chunks of samples."""

    def __init__(self, ref: CodeRef, inputs: Sequence[TensorSpec]) -> None:
        self._ref = ref
        self._items = item_specs(inputs)
        self._names = [spec.name for spec in inputs]

    def read(self, item: Any, count: int) -> Chunk:
        """Return the samples of an item, and their labels where it has any."""
        values, labels = self._split(item, count)
        arrays = {name: _array(value) for name, value in values.items()}
        several = self._holds_several(arrays, count)
        if several is False:
            arrays = {name: array[np.newaxis] for name, array in arrays.items()}
        if labels is None:
            return arrays, None
        rows = _array(labels) if several else _array(labels)[np.newaxis]
        length = len(next(iter(arrays.values())))
        if rows.ndim == 0 or len(rows) != length:
            raise self._misfit(count, f"{length} samples and {len(rows) if rows.ndim else 1} labels")
        return arrays, rows

    def _split(self, item: Any, count: int) -> tuple[dict[str, Any], Any]:
        """Return the inputs by name, and the labels or None."""
        if isinstance(item, Mapping):
            return self._by_name(item, count, labels_key(self._names), "label")
        if not isinstance(item, tuple | list):
            return self._in_order([item], count), None
        parts = list(item)
        if len(parts) == 2 and isinstance(parts[0], Mapping):
            return self._by_name(parts[0], count)[0], parts[1]
        if len(parts) == 2 and isinstance(parts[0], tuple | list) and len(parts[0]) == len(self._names):
            return self._in_order(list(parts[0]), count), parts[1]
        if len(parts) == len(self._names) + 1:
            return self._in_order(parts[:-1], count), parts[-1]
        return self._in_order(parts, count), None

    def _by_name(self, values: Mapping[str, Any], count: int, *label_names: str) -> tuple[dict[str, Any], Any]:
        missing = [name for name in self._names if name not in values]
        if missing:
            raise self._misfit(count, f"a dict of {', '.join(map(str, values))} and no {missing[0]}")
        label = next((name for name in label_names if name in values and name not in self._names), None)
        return {name: values[name] for name in self._names}, None if label is None else values[label]

    def _in_order(self, values: list[Any], count: int) -> dict[str, Any]:
        if len(values) != len(self._names):
            raise self._misfit(count, f"{len(values)} arrays")
        return dict(zip(self._names, values, strict=True))

    def _holds_several(self, arrays: Mapping[str, Array], count: int) -> bool:
        """Return whether the arrays of an item have an axis more than one sample has."""
        more = {arrays[item.name].ndim - len(item.shape) for item in self._items}
        if more not in ({0}, {1}):
            shapes = ", ".join(f"{name} of the shape {shape_text(array.shape)}" for name, array in arrays.items())
            raise self._misfit(count, shapes)
        return more == {1}

    def _misfit(self, count: int, shapes: str) -> BadRequest:
        wanted = ", ".join(f"{item.name} {shape_text(item.shape)}" for item in self._items)
        return BadRequest(
            f"{self._ref.text} gives {shapes} in item {count + 1}, and one sample is {wanted}",
            fix=f"give one sample, or several along a first axis, as {_FORMS}",
        )


def _array(value: Any) -> Array:
    """Return a tensor of any framework, an array or numbers as an array of the same dtype."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise BadRequest(
            f"the code gives a {type(value).__name__} where an array of numbers belongs", fix=f"give {_FORMS}"
        )
    return array
