"""From samples to calls of a model: what a data file holds for each input, and what one call is fed.

Samples lie along the first axis of every array. For an input with the batch axis that is the batch, brought to the
front; for any other input it is an axis more than the input has: a whole value for each sample. A call of several
samples gathers the former, and takes the latter from its first sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..dataset import Dataset
from ..errors import BadRequest
from ..signature import Array, Signature, TensorSpec, batch_axis, check_feeds
from .lengths import is_length, longest
from .sizes import other_axes

SAMPLES = "*samples"  # the axis that an input without the batch has more; no axis of a model is called so
_RULE = "samples lie along the first axis of every array, also of an input that has no batch axis (docs/convert.md)"


def sample_spec(spec: TensorSpec, batch: str | None) -> TensorSpec:
    """What a data file holds for an input: its samples along axis 0, then what one sample has."""
    rest = tuple(axis for axis in spec.shape if axis != batch)
    bounds = tuple((axis, each) for axis, each in spec.bounds if axis != batch)
    first = SAMPLES if batch is None or batch not in spec.shape else batch
    return TensorSpec(spec.name, spec.dtype, (first, *rest), bounds)


def sample_specs(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """`sample_spec` of every input of a model."""
    batch = batch_axis(specs)
    return tuple(sample_spec(spec, batch) for spec in specs)


def check_samples(specs: Sequence[TensorSpec], data: Dataset) -> None:
    """Hold samples against the inputs: names, dtypes, shapes, and that an axis has one size, within its bounds.

    Raises BadRequest.
    """
    wanted = sample_specs(specs)
    for spec, want in zip(specs, wanted, strict=True):
        array = data.inputs.get(spec.name)
        if array is not None and array.ndim != len(want.shape):
            raise BadRequest(
                f"the array {spec.name} has the shape {_dims(array.shape)}, and holds no samples of the input {spec}",
                fix=f"give it the shape {_dims(('samples', *want.shape[1:]))}: {_RULE}",
            )
    check_feeds(wanted, data.inputs)


def gathered(specs: Sequence[TensorSpec], data: Dataset) -> Dataset:
    """Samples as one has them, put together into calls for a model that has no batch axis and takes so many at a time
    as the first axis of its inputs is fixed to: (20, 3) for an input of (4, 3) makes 5 calls. Other data comes back as
    it is. What is left over makes no call.

    Raises BadRequest where there are too few for one call.
    """
    here = [(spec, data.inputs[spec.name]) for spec in specs if spec.name in data.inputs]
    single = {spec.name for spec, array in here if spec.shape and array.ndim == len(spec.shape)}
    sizes = {spec.shape[0] for spec in specs if spec.name in single}
    size = sizes.pop() if len(sizes) == 1 else None
    if batch_axis(specs) is not None or not isinstance(size, int) or size < 1:
        return data
    if len(data) < size:
        raise BadRequest(
            f"the model takes {size} samples in a call, and the file holds {len(data)}", fix=f"give {size} or more"
        )
    calls = {name: _by(array, size) for name, array in data.inputs.items() if name in single}
    others = {name: _by(array, size)[:, 0] for name, array in data.inputs.items() if name not in single}
    return Dataset({**calls, **others}, None if data.labels is None else _by(data.labels, size))


def _by(array: Array, size: int) -> Array:
    """Rows of `array` in groups of `size`, along a new first axis."""
    count = len(array) // size
    return array[: count * size].reshape(count, size, *array.shape[1:])


def feeds_of(
    data: Dataset, rows: Array, signature: Signature, sizes: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """The inputs that a model takes, of the samples `rows`, each in memory of its own.

    `sizes`: axes that are to have another size than the data has, or the batch than there are rows. They are cropped to
    it, or begin again, so that all values are the samples' own; alike in every input that has the axis. Lengths of what
    is cropped are shorter, too.

    Raises BadRequest where the data has no input of that name.
    """
    lacking = [spec.name for spec in signature.inputs if spec.name not in data.inputs]
    if lacking:
        raise BadRequest(
            f"the model takes the inputs {', '.join(spec.name for spec in signature.inputs)}, "
            f"and the data has {', '.join(data.inputs)}",
            fix="name the arrays of the data as the model's inputs are named",
        )
    batch = batch_axis(signature.inputs)
    values = {spec.name: _value(data.inputs[spec.name], rows, spec, batch, sizes or {}) for spec in signature.inputs}
    for spec in signature.inputs if sizes else ():
        if is_length(spec):
            most = longest(spec, signature.inputs, {**sizes_in(data, signature), **(sizes or {})})
            least = np.minimum(values[spec.name], np.asarray(most, spec.dtype))
            values[spec.name] = np.asarray(least)  # of a single number it is no array
    return values


def _value(array: Array, rows: Array, spec: TensorSpec, batch: str | None, sizes: Mapping[str, int]) -> Array:
    value = np.moveaxis(array[rows], 0, spec.shape.index(batch)) if batch in spec.shape else array[rows[0]]
    for at, axis in spec.dynamic_axes.items():
        if axis in sizes:
            value = np.take(value, np.arange(sizes[axis]) % value.shape[at], axis=at)
    return np.array(value, order="C")  # a scalar stays one, which ascontiguousarray would not leave it


def sizes_in(data: Dataset, signature: Signature) -> dict[str, int]:
    """How large the dynamic axes other than the batch are in the data."""
    sizes: dict[str, int] = {}
    specs = sample_specs(signature.inputs)
    for spec in specs:
        array = data.inputs.get(spec.name)
        for at, axis in spec.dynamic_axes.items():
            if at > 0 and array is not None and array.ndim == len(spec.shape):
                sizes.setdefault(axis, array.shape[at])
    return {axis: sizes[axis] for axis in other_axes(signature.inputs) if axis in sizes}


def whole(samples: int, batch: int, least: int = 1) -> Iterator[Array]:
    """The samples of each call, so that every sample is seen once. The last call may be shorter, but for models that
    take no fewer than `least`: it is then filled up from the start."""
    for start in range(0, samples, batch):
        stop = max(min(start + batch, samples), start + least)
        yield np.arange(start, stop) % samples


def _dims(shape: Sequence[int | str]) -> str:
    return f"[{','.join(map(str, shape))}]"
