"""The shape of one sample, as sources of single samples give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import BadRequest
from ..probes.feeds import sample_specs
from ..signature import Array, Axis, TensorSpec, batch_axis, shape_text


def item_specs(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Return the inputs with the axes of one sample.
    A model without a batch axis whose inputs share a fixed first axis takes so many samples in a call; they come one by
    one here (feeds.group_into_calls)."""
    firsts = {spec.shape[0] for spec in specs if spec.shape}
    grouped = batch_axis(specs) is None and len(firsts) == 1 and isinstance(next(iter(firsts)), int)
    wanted = [spec.shape[1:] for spec in specs] if grouped else [spec.shape[1:] for spec in sample_specs(specs)]
    pairs = zip(specs, wanted, strict=True)
    return tuple(replace(spec, shape=shape, bounds=()) for spec, shape in pairs)


def reshape_rows(rows: Array, item: TensorSpec, source: str, fix: str) -> Array:
    """Return rows of numbers, shape (samples, numbers), in the shape of the input, the last axis fastest.
    Raises BadRequest where the input takes another number of them."""
    free: list[Axis] = [axis for axis in item.shape if isinstance(axis, str)]
    fixed = int(np.prod([axis for axis in item.shape if isinstance(axis, int)], dtype=np.int64))
    fits = rows.shape[1] % max(1, fixed) == 0 if len(free) == 1 else rows.shape[1] == fixed and not free
    if not fits:
        raise BadRequest(
            f"{source} has {rows.shape[1]} number{'s' * (rows.shape[1] != 1)} in a row for the input {item.name}, "
            f"which takes {shape_text(item.shape)}",
            fix=fix,
        )
    return rows.reshape(len(rows), *(-1 if isinstance(axis, str) else axis for axis in item.shape))


def cast_rows(rows: Array, item: TensorSpec, name: str) -> Array:
    """Return numbers of a table in the dtype of the input, where that keeps them: floats may be rounded.
    Raises BadRequest where an integer is out of range, or a number is no integer."""
    dtype = np.dtype(item.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        cast = rows.astype(dtype)
        back = cast.astype(rows.dtype)
    lost = back != rows if dtype.kind in "iub" else np.isfinite(rows) & ~np.isfinite(cast)
    if np.any(lost):
        value = rows[lost][0]
        raise BadRequest(f"{name} holds {value}, which is no {dtype}", fix=f"give {item.name} what {dtype} can hold")
    return cast
