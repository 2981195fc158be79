"""The user's samples in the calls that a step makes itself: to find the outputs, to capture, to compare two programs.

Made-up numbers may be none that a model takes: ids beyond the rows of a table, or ids in a tensor of floats. So a step
that has the data of `--data` in inputs["data"] draws from it. Axes of other sizes are cropped, or begin again; integers
that may point into an axis that is cropped, as a graph's edges point to its nodes, stay within it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ..dataset import TEST, Dataset, read_dataset
from ..job import Job, Work
from ..signature import Array, TensorSpec, batch_axis
from .feeds import axis_sizes_in, resize_samples, sample_specs
from .random_inputs import DrawsSamples, drawing_from
from .value_range import AxisRange

_SEEDS = 3  # different parts of the samples, one for each seed


def draws_user_samples(step: Work) -> Work:
    """Decorate a step: what it calls the model with is drawn from inputs["data"], where that is there."""

    @wraps(step)
    def drawing(job: Job) -> Mapping[str, Any]:
        if "data" not in job.inputs:
            return step(job)
        with drawing_from(draws_of(read_dataset(job.inputs["data"] / TEST))):
            return step(job)

    return drawing


def draws_of(samples: Dataset) -> DrawsSamples:
    """Return a function that draws inputs from samples, for `drawing_from`.
    It returns None for other inputs than the samples are of, as those of a part of the model."""

    def draw(specs: Sequence[TensorSpec], sizes: Mapping[str, int], seed: int) -> dict[str, Array] | None:
        if not len(samples) or not all(map(_fits, specs, sample_specs(specs), [samples] * len(specs))):
            return None
        first = seed % _SEEDS * len(samples) // _SEEDS
        count = sizes.get(batch_axis(specs) or "", 1)
        rows = (first + np.arange(max(1, count))) % len(samples)
        drawn = resize_samples(samples, rows, specs, sizes)
        known = axis_sizes_in(samples, specs)
        samples.release()
        return {spec.name: _within_axes(drawn[spec.name], spec, specs, sizes, known) for spec in specs}

    return draw


def _within_axes(
    values: Array, spec: TensorSpec, specs: Sequence[TensorSpec], sizes: Mapping[str, int], known: Mapping[str, int]
) -> Array:
    """Return integers as they are, or modulo the size of a cropped axis that they may point into.
    That is an axis of other inputs alone, in which all of them are places at its `known` size, that of the samples."""
    if isinstance(spec.values, AxisRange) or values.dtype.kind not in "iu" or not values.size or values.min() < 0:
        return values
    most, axes = values.max(), {axis for other in specs for axis in other.dynamic_axes.values()}
    cropped = [sizes[axis] for axis in axes.difference(spec.shape)
               if axis in known and 0 < sizes.get(axis, 0) <= most < known[axis]]  # fmt: skip
    return values % np.asarray(min(cropped), values.dtype) if cropped else values


def _fits(spec: TensorSpec, sample: TensorSpec, samples: Dataset) -> bool:
    array = samples.inputs.get(spec.name)
    if array is None or array.dtype.name != spec.dtype or array.ndim != len(sample.shape):
        return False
    return all(size == axis if isinstance(axis, int) else size > 0
               for size, axis in zip(array.shape[1:], sample.shape[1:], strict=True))  # fmt: skip
