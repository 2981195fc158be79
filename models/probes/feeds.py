"""Samples and calls: what a data file holds for each input, and the arrays that one call is fed.

Samples lie along the first axis of every array. For an input with the batch axis that is the batch, brought to the
front. For any other input it is one axis more than the input has: a whole value for each sample. A call of several
samples gathers the former, and takes the latter from its first sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..dataset import Dataset
from ..errors import BadRequest
from ..signature import ANY_SIZE, Array, Bounds, Signature, TensorSpec, batch_axis, check_feeds, shape_text
from .evidence import CallSequence
from .random_inputs import is_length, max_length
from .sizes import other_axes
from .value_range import AxisRange

_CALL_BYTES = 8 << 20  # of samples in a call of the whole test set
_SAMPLES = 256  # in such a call
_MOST_TINY = 4096  # tiny samples in such a call
_TINY_CALL = 1 << 16  # numbers, up to which the inputs and outputs of these may go
SAMPLES = "*samples"  # the samples' axis of an input without the batch; no axis of a model is called so
_RULE = "samples lie along the first axis of every array, also of an input that has no batch axis (docs/convert.md)"


def sample_spec(spec: TensorSpec, batch: str | None) -> TensorSpec:
    """Return what a data file holds for an input: its samples along axis 0, then the axes of one sample."""
    rest = tuple(axis for axis in spec.shape if axis != batch)
    bounds = tuple((axis, limits) for axis, limits in spec.bounds if axis != batch)
    first = SAMPLES if batch is None or batch not in spec.shape else batch
    return TensorSpec(spec.name, spec.dtype, (first, *rest), bounds, spec.values)


def sample_specs(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Return `sample_spec` of every input of a model."""
    batch = batch_axis(specs)
    return tuple(sample_spec(spec, batch) for spec in specs)


def check_samples(specs: Sequence[TensorSpec], data: Dataset) -> None:
    """Check samples against the inputs: names, dtypes, shapes, and that an axis has one size, within its bounds.
    Raises BadRequest."""
    wanted = sample_specs(specs)
    for spec, want in zip(specs, wanted, strict=True):
        array = data.inputs.get(spec.name)
        if array is not None and array.ndim != len(want.shape):
            raise BadRequest(
                f"the array {spec.name} has the shape {shape_text(array.shape)}, "
                f"and holds no samples of the input {spec}",
                fix=f"give it the shape {shape_text(('samples', *want.shape[1:]))}: {_RULE}",
            )
        if array is not None and array.dtype.name != spec.dtype:
            raise BadRequest(
                f"the array {spec.name} is of {array.dtype}, and the input {spec} takes {spec.dtype}",
                fix=f"convert it where the samples are made, as in {spec.name}={spec.name}.astype({spec.dtype!r})",
            )
    check_feeds(wanted, data.inputs)
    sizes = _sizes_of(data, specs)
    for spec in specs:
        if isinstance(spec.values, AxisRange) and (array := data.inputs[spec.name]).size:
            limits = spec.values.at(sizes)
            if array.min() < limits.low or array.max() > limits.high:
                raise BadRequest(
                    f"{spec.name} holds {array.min()} to {array.max()}, and {spec.values} is {limits} in these samples",
                    fix="give samples within that, or declare what they hold",
                )


def group_into_calls(specs: Sequence[TensorSpec], data: Dataset) -> Dataset:
    """Put single samples together into calls of a model that has no batch axis.

    It takes so many at a time as the first axis of its inputs is fixed to: (20, 3) for an input of (4, 3) makes 5
    calls. Samples that do not fill a call are left out. Data that has such calls, or a batch axis, is returned as it
    is.
    Raises BadRequest where there are too few samples for one call."""
    arrays = [(spec, data.inputs[spec.name]) for spec in specs if spec.name in data.inputs]
    single = {spec.name for spec, array in arrays if spec.shape and array.ndim == len(spec.shape)}
    sizes = {spec.shape[0] for spec in specs if spec.name in single}
    size = sizes.pop() if len(sizes) == 1 else None
    if batch_axis(specs) is not None or not isinstance(size, int) or size < 1:
        return data
    if len(data) < size:
        raise BadRequest(
            f"the model takes {size} samples in a call, and the file holds {len(data)}", fix=f"give {size} or more"
        )
    calls = {name: _grouped(array, size) for name, array in data.inputs.items() if name in single}
    values = {name: _grouped(array, size)[:, 0] for name, array in data.inputs.items() if name not in single}
    return Dataset({**calls, **values}, None if data.labels is None else _grouped(data.labels, size))


def _grouped(array: Array, size: int) -> Array:
    """Return the rows of `array` in groups of `size`, along a new first axis."""
    count = len(array) // size
    return array[: count * size].reshape(count, size, *array.shape[1:])


def make_feeds(
    data: Dataset, rows: Array, signature: Signature, sizes: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Make the inputs of a call from the samples `rows`, each in memory of its own.

    `sizes` are axes that get another size than the data has, or a batch that gets another than there are rows. They are
    cropped, or begin again, so that all values are the samples' own; alike in every input that has the axis. Lengths of
    what is cropped become shorter, too.
    Raises BadRequest where the data has no input of that name."""
    lacking = [spec.name for spec in signature.inputs if spec.name not in data.inputs]
    if lacking:
        raise BadRequest(
            f"the model takes the inputs {', '.join(spec.name for spec in signature.inputs)}, "
            f"and the data has {', '.join(data.inputs)}",
            fix="name the arrays of the data as the model's inputs are named",
        )
    values = resize_samples(data, rows, signature.inputs, sizes or {})
    data.release()
    return values


def resize_samples(
    data: Dataset, rows: Array, specs: Sequence[TensorSpec], sizes: Mapping[str, int]
) -> dict[str, Array]:
    """Return the samples `rows` of data that has every input, with axes of other `sizes` as in `make_feeds`."""
    batch = batch_axis(specs)
    values = {spec.name: _value(data.inputs[spec.name], rows, spec, batch, sizes) for spec in specs}
    before = _sizes_of(data, specs)
    after = {**before, **({batch: len(rows)} if batch else {}), **sizes}
    for spec in specs:
        if isinstance(spec.values, AxisRange):
            values[spec.name] = spec.values.moved(values[spec.name], before, after)
        elif sizes and is_length(spec):
            most = max_length(spec, specs, {**axis_sizes_in(data, specs), **sizes})
            shortened = np.minimum(values[spec.name], np.asarray(most, spec.dtype))
            values[spec.name] = np.asarray(shortened)  # numpy.minimum of a 0-d array is no array
    return values


def _sizes_of(data: Dataset, specs: Sequence[TensorSpec]) -> dict[str, int]:
    """Return the sizes of all dynamic axes in the data, the batch too: that is all of the samples."""
    batch = batch_axis(specs)
    return {**axis_sizes_in(data, specs), **({batch: len(data)} if batch else {})}


def _value(array: Array, rows: Array, spec: TensorSpec, batch: str | None, sizes: Mapping[str, int]) -> Array:
    value = np.moveaxis(array[rows], 0, spec.shape.index(batch)) if batch in spec.shape else array[rows[0]]
    for at, axis in spec.dynamic_axes.items():
        if axis in sizes:
            value = np.take(value, np.arange(sizes[axis]) % value.shape[at], axis=at)
    return np.array(value, order="C")  # ascontiguousarray would make an array of rank 1 of a scalar


def sizes_in(data: Dataset, signature: Signature) -> dict[str, int]:
    """Return the sizes that the dynamic axes other than the batch have in the data."""
    return axis_sizes_in(data, signature.inputs)


def axis_sizes_in(data: Dataset, specs: Sequence[TensorSpec]) -> dict[str, int]:
    """Return `sizes_in` for the inputs alone."""
    sizes: dict[str, int] = {}
    for spec in sample_specs(specs):
        array = data.inputs.get(spec.name)
        for at, axis in spec.dynamic_axes.items():
            if at > 0 and array is not None and array.ndim == len(spec.shape):
                sizes.setdefault(axis, array.shape[at])
    return {axis: sizes[axis] for axis in other_axes(specs) if axis in sizes}


def most_per_call(signature: Signature) -> int:
    """Return how many samples a call of the whole test set may have: 256, and up to 4,096 where inputs and outputs
    are no more than 65,536 numbers. A call with few numbers takes most of its time for itself."""
    specs = sample_specs((*signature.inputs, *signature.outputs))
    if signature.batch is None or any(len(spec.dynamic_axes) != 1 for spec in specs):
        return _SAMPLES
    numbers = sum(math.prod(size for size in spec.shape if isinstance(size, int)) for spec in specs)
    return max(_SAMPLES, min(_MOST_TINY, _TINY_CALL // max(1, numbers)))


def samples_per_call(data: Dataset, most: int) -> int:
    """Return how many samples a call of the whole test set has: `most`, where they are not above 8 MB.
    A call of 256 photographs would take gigabytes of activations, and no less time."""
    sample_bytes = sum(array[:1].nbytes for array in data.inputs.values())
    return min(most, len(data), max(1, _CALL_BYTES // max(1, sample_bytes)))


@dataclass(frozen=True)
class CallRows(CallSequence[Array]):
    """The rows of each call that together see every sample once; none is kept.
    The last call may be shorter. Where the model takes no such batch, it is filled up from the start."""

    samples: int
    batch: int
    batches: Bounds = ANY_SIZE

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def _starts(self) -> range:
        return range(0, self.samples, self.batch)

    def read_call(self, number: int) -> Array:
        """Return the rows of one call."""
        start = self._starts[number]
        stop = start + self.batches.at_least(min(self.batch, self.samples - start))
        return np.arange(start, stop) % self.samples
