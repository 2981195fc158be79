"""Answers to a whole test set in shards of a few megabytes, written and read call by call.

A series of calls is a folder. Each file in it begins with the call that it is named after, from 0. It holds runs of
calls whose outputs have the same shapes, under the keys `RUN/OUTPUT`, with the calls along axis 0.
"""

from __future__ import annotations

import shutil
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from ...models.array_file import map_arrays, read_arrays, write_arrays
from ...models.errors import BadRequest
from ...models.probes.evidence import Answers, CallSequence, Series
from ...models.probes.feeds import CallRows
from ...models.signature import Array

_SHARD_BYTES = 4 << 20  # from which on a shard is written
_SHARD_CALLS = 4096  # the same for calls of few bytes
_AGAIN = "make the reference again"


def write_series(folder: Path, calls: Iterable[Answers]) -> None:
    """Write calls to `folder`, a shard at a time, in place of what it held."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    first = 0
    for shard in _shards(calls):
        runs = [list(run) for _, run in groupby(shard, _form)]
        arrays = {
            f"{at}/{name}": np.stack([call[name] for call in run]) for at, run in enumerate(runs) for name in run[0]
        }
        write_arrays(folder / f"{first}.npz", arrays)
        first += len(shard)


def _shards(calls: Iterable[Answers]) -> Iterator[list[Answers]]:
    """Put calls together, so that a shard is no larger than one call or a few megabytes."""
    shard: list[Answers] = []
    size = 0
    for call in calls:
        shard.append(call)
        size += sum(array.nbytes for array in call.values())
        if size >= _SHARD_BYTES or len(shard) >= _SHARD_CALLS:
            yield shard
            shard, size = [], 0
    if shard:
        yield shard


def _form(call: Answers) -> list[tuple[str, np.dtype[Any], tuple[int, ...]]]:
    return [(name, array.dtype, array.shape) for name, array in call.items()]


class RecordedSeries(CallSequence[Answers]):
    """The calls in a folder of `write_series`. One shard is in memory at a time."""

    def __init__(self, folder: Path) -> None:
        """Raises BadRequest where the folder holds no recorded answers."""
        self._folder = folder
        names = [path.stem for path in folder.glob("*.npz")]
        self._starts = sorted(int(name) for name in names if name.isdecimal())
        if len(self._starts) < len(names) or self._starts[:1] != [0]:
            raise BadRequest(f"{folder} holds no recorded answers", fix=_AGAIN)
        self._shard: tuple[int, list[Answers]] = (-1, [])
        self._length = self._starts[-1] + len(self._calls_of(map_arrays(self._path(len(self._starts) - 1))))

    def __len__(self) -> int:
        return self._length

    def read_call(self, number: int) -> Answers:
        """Return the answers of one call; their shard stays in memory until another is read."""
        shard = bisect_right(self._starts, number) - 1
        if self._shard[0] != shard:
            self._shard = (-1, [])  # before the next is read
            self._shard = (shard, self._calls_of(read_arrays(self._path(shard))))
        return self._shard[1][number - self._starts[shard]]

    def _path(self, shard: int) -> Path:
        return self._folder / f"{self._starts[shard]}.npz"

    def _calls_of(self, arrays: Mapping[str, Array]) -> list[Answers]:
        """Return the calls in the arrays of a shard."""
        runs: dict[str, dict[str, Array]] = {}
        for key, array in arrays.items():
            run, slash, name = key.partition("/")
            if not (slash and run.isdecimal() and array.ndim):
                raise BadRequest(f"{self._folder} holds no recorded answers", fix=_AGAIN)
            runs.setdefault(run, {})[name] = array
        return [
            {name: array[at, ...] for name, array in run.items()}  # the dots make an array of a single number
            for run in runs.values()
            for at in range(len(next(iter(run.values()))))
        ]


@dataclass(frozen=True)
class RegroupedSeries(CallSequence[Answers]):
    """Recorded calls of `batch` samples, put together anew for calls of other rows; samples lie along axis 0."""

    series: Series
    batch: int
    rows: CallRows

    def __len__(self) -> int:
        return len(self.rows)

    def read_call(self, number: int) -> Answers:
        """Return the answers to the rows of one call."""
        rows = self.rows.read_call(number)
        calls = rows // self.batch
        parts = [(self.series[call], rows[calls == call] % self.batch) for call in dict.fromkeys(calls.tolist())]
        return {name: np.concatenate([answers[name][chosen] for answers, chosen in parts]) for name in parts[0][0]}
