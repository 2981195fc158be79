"""Samples that come one after another are collected on disk, so that they take no memory."""

from __future__ import annotations

import math
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from ..array_file import map_raw
from ..dataset import Dataset
from ..errors import BadRequest
from ..signature import Array, shape_text

Chunk: TypeAlias = tuple[Mapping[str, Array], Array | None]  # inputs and labels of some samples, along axis 0


@dataclass
class _ColumnFile:
    """One array that grows in a file."""

    file: IO[bytes]
    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # of one sample
    samples: int = 0

    @property
    def bytes_written(self) -> int:
        """The size of the file."""
        return self.samples * math.prod(self.shape) * self.dtype.itemsize

    def add(self, name: str, rows: Array, source: str) -> None:
        if (rows.dtype, rows.shape[1:]) != (self.dtype, self.shape):
            raise BadRequest(
                f"{source} gives {name} as {rows.dtype}{shape_text(rows.shape[1:])} in sample {self.samples + 1}, "
                f"and as {self.dtype}{shape_text(self.shape)} before",
                fix="give all samples one dtype and one shape; pad what is shorter",
            )
        self.file.write(np.ascontiguousarray(rows).data if rows.size else b"")
        self.samples += len(rows)


def collect(chunks: Iterable[Chunk], folder: Path, source: str, most: int | None = None) -> Dataset:
    """Write samples to `folder` as they come, and return them mapped; no more than the first `most`.

    `source` is what a sentence calls them.
    Raises BadRequest where there are none, where they differ in dtype or shape, or in having labels, or where they fill
    half of the disk, which has to hold them twice."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    most_bytes = shutil.disk_usage(folder).free // 2
    columns: dict[str | None, _ColumnFile] = {}  # the labels have no name
    with ExitStack() as files:
        for inputs, labels in chunks:
            arrays: dict[str | None, Array] = dict(inputs.items())
            if labels is not None:
                arrays[None] = labels
            if columns and arrays.keys() != columns.keys():
                raise _uneven(source, columns, arrays)
            for at, (name, rows) in enumerate(arrays.items()):
                if name not in columns:
                    path = folder / str(at)
                    columns[name] = _ColumnFile(files.enter_context(path.open("wb")), path, rows.dtype, rows.shape[1:])
                left = len(rows) if most is None else most - columns[name].samples
                columns[name].add(name or "the labels", rows[:left], source)
            if sum(column.bytes_written for column in columns.values()) > most_bytes:
                raise _endless(source, columns.values())
            if most is not None and columns[next(iter(columns))].samples >= most:
                break
    if not columns:
        raise BadRequest(f"{source} holds no samples", fix="give at least one; more tell more")
    mapped = {name: map_raw(col.path, col.dtype, (col.samples, *col.shape)) for name, col in columns.items()}
    named = {name: array for name, array in mapped.items() if name is not None}
    try:
        return Dataset(named, mapped.get(None))
    except ValueError as error:
        raise BadRequest(f"{source}: {error}", fix="give each sample all inputs, and one label or none") from error


def _endless(source: str, columns: Collection[_ColumnFile]) -> BadRequest:
    samples, gigabytes = next(iter(columns)).samples, sum(column.bytes_written for column in columns) / 1e9
    return BadRequest(
        f"{source} has given {samples:,} samples ({gigabytes:.3g} GB) and goes on; they fill half of the free disk",
        fix="let it end, or say how many to take: ?samples=10000",
    )


def _uneven(source: str, before: Iterable[str | None], here: Iterable[str | None]) -> BadRequest:
    first, other = (", ".join(name or "labels" for name in names) for names in (before, here))
    return BadRequest(
        f"{source} gives {first} with its first samples, and {other} with later ones",
        fix="give every sample the same inputs, and each a label or none",
    )
