"""Inputs by name, with labels where there are any, kept as one .npz file.

The keys of the file are the input names, and `labels`; `labels_` where an input is called `labels`, and so on. The same
form is what `--data FILE.npz` takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .array_file import MADE_BY, map_arrays, release, write_arrays
from .errors import BadRequest
from .signature import Array, TensorSpec

TEST, CALIBRATION = "test.npz", "calibration.npz"  # the files of a data folder
CALIBRATION_SAMPLES = 256  # at most
_LOOKED_AT = 4096  # samples, for those with the largest floats


@dataclass(frozen=True)
class Dataset:
    """Samples lie along axis 0 of every array.
    Arrays that were read from a file are mapped: only the samples that are used are ever in memory."""

    inputs: Mapping[str, Array]
    labels: Array | None = None

    def __post_init__(self) -> None:
        for name, array in self.inputs.items():
            if array.ndim == 0:
                raise ValueError(f"{name} is a single number: samples lie along the first axis of every array")
        lengths = {name: len(array) for name, array in self.inputs.items()}
        lengths |= {} if self.labels is None else {labels_key(self.inputs): len(self.labels)}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"its arrays hold different numbers of samples: {counts}")
        if not self.inputs:
            raise ValueError("it holds no inputs")

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    @property
    def arrays(self) -> dict[str, Array]:
        """The inputs, and the labels where there are any, by the names that a file has them under."""
        labels = {} if self.labels is None else {labels_key(self.inputs): self.labels}
        return {**self.inputs, **labels}

    def release(self) -> None:
        """Let go of samples that were read from a file; they are read anew where they are used again."""
        release(self.arrays.values())

    def rows(self, start: int, stop: int | None) -> Dataset:
        """Return the samples start..stop-1, without a copy; None is the end."""
        return take(self, slice(start, stop))


def shuffled(data: Dataset, seed: int) -> Dataset:
    """Return the same samples in an order that depends on the seed alone."""
    return take(data, np.random.default_rng(seed).permutation(len(data)))


def take(data: Dataset, rows: Array | slice) -> Dataset:
    """Return the samples at `rows`: copies, but for those of a slice."""
    labels = None if data.labels is None else data.labels[rows]
    return Dataset({name: array[rows] for name, array in data.inputs.items()}, labels)


def telling_rows(data: Dataset, first: int, largest: int) -> Array:
    """Return the rows of the `first` samples, and of as many with the `largest` finite floats of those looked at."""
    looked_at = data.rows(0, _LOOKED_AT)
    size = np.zeros(len(looked_at))
    for array in looked_at.inputs.values():
        if array.dtype.kind == "f" and array.size:
            finite = np.nan_to_num(np.abs(array.reshape(len(array), -1)), nan=0.0, posinf=0.0)
            size = np.maximum(size, finite.max(axis=1))
    order = np.argsort(-size, kind="stable")[:largest]
    return np.unique(np.concatenate([np.arange(min(first, len(data))), order]))


def labels_key(inputs: Collection[str]) -> str:
    """Return the name of the labels in a file beside inputs of these names."""
    key = "labels"
    while key in inputs:
        key += "_"
    return key


def write_dataset(path: Path, data: Dataset) -> None:
    """Write `data` to an .npz file."""
    write_arrays(path, data.arrays)


def read_dataset(path: Path, inputs: Sequence[TensorSpec] = (), scratch: Path | None = None) -> Dataset:
    """Read an .npz file. Its arrays are mapped, and nothing in it is ever unpickled.

    `inputs` are those of the model that it is for: an array with the name of one is that input, and no label. `scratch`
    is where a compressed file is unpacked.
    Raises BadRequest where it is no such file."""
    arrays = map_arrays(path, scratch)
    labels = arrays.pop(labels_key([spec.name for spec in inputs]), None)
    try:
        return Dataset(arrays, labels)
    except (ValueError, TypeError) as error:
        raise BadRequest(f"{path}: {error}", fix=MADE_BY) from error
