"""Inputs by name, with labels where there are any, kept as one .npz file.

The keys of the file are the input names, and `labels`; `labels_` where an input is called `labels`, and so on. The same
form is what `--data FILE.npz` takes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .errors import BadRequest
from .signature import Array, TensorSpec

TEST, CALIBRATION = "test.npz", "calibration.npz"  # the files of a data folder
CALIBRATION_SAMPLES = 256  # at most
MADE_BY = "make it with numpy.savez(FILE, INPUT_NAME=array, labels=array)"


@dataclass(frozen=True)
class Dataset:
    """Samples lie along axis 0 of every array."""

    inputs: Mapping[str, Array]
    labels: Array | None = None

    def __post_init__(self) -> None:
        for name, array in self.inputs.items():
            if array.ndim == 0:
                raise ValueError(f"{name} is a single number: samples lie along the first axis of every array")
        arrays = [*self.inputs.values(), *([] if self.labels is None else [self.labels])]
        if len({len(array) for array in arrays}) != 1:
            raise ValueError(f"arrays of unlike length: {[array.shape for array in arrays]}")

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    def rows(self, start: int, stop: int) -> Dataset:
        """Return the samples start..stop-1, without a copy."""
        return take(self, slice(start, stop))


def shuffled(data: Dataset, seed: int) -> Dataset:
    """Return the same samples in an order that depends on the seed alone."""
    return take(data, np.random.default_rng(seed).permutation(len(data)))


def take(data: Dataset, rows: Array | slice) -> Dataset:
    """Return the samples at `rows`: copies, but for those of a slice."""
    labels = None if data.labels is None else data.labels[rows]
    return Dataset({name: array[rows] for name, array in data.inputs.items()}, labels)


def labels_key(inputs: Collection[str]) -> str:
    """Return the name of the labels in a file beside inputs of these names."""
    key = "labels"
    while key in inputs:
        key += "_"
    return key


def write_dataset(path: Path, data: Dataset) -> None:
    """Write `data` to an .npz file."""
    labels = {} if data.labels is None else {labels_key(data.inputs): data.labels}
    write_arrays(path, {**data.inputs, **labels})


def read_dataset(path: Path, inputs: Sequence[TensorSpec] = ()) -> Dataset:
    """Read an .npz file. Nothing in it is ever unpickled.

    `inputs` are those of the model that it is for: an array with the name of one is that input, and no label.
    Raises BadRequest where it is no such file."""
    arrays = read_arrays(path)
    labels = arrays.pop(labels_key([spec.name for spec in inputs]), None)
    try:
        return Dataset(arrays, labels)
    except (ValueError, StopIteration) as error:
        raise BadRequest(f"{path}: {error or 'it is empty'}", fix=MADE_BY) from error


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name, as numpy.savez does, which takes no array with the name "file"."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def read_arrays(path: Path) -> dict[str, Array]:
    """Read the arrays of an .npz file by name. Raises BadRequest where it is no such file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError as error:
        raise BadRequest(f"no such file: {path}", fix="check the path") from error
    except (ValueError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        why = "it holds pickled objects" if "allow_pickle" in str(error) else str(error)
        raise BadRequest(f"{path} is not an .npz file of plain arrays: {why}", fix=MADE_BY) from error
