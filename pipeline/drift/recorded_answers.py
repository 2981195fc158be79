"""Answers of the reference, call by call, as they came; and what each call was asked.

A file of answers holds series of calls under the keys `SERIES/CALL/OUTPUT`, both numbers from 0. Calls are not joined:
an output need not have the samples along axis 0. `record.json` says what each series is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ...models.dataset import Dataset, read_arrays, write_arrays
from ...models.errors import BadRequest
from ...models.probes.masks import Fill, with_fills
from ...models.probes.sizes import bounds_within
from ...models.probes.stress_values import Reach, with_numbers
from ...models.signature import Array, Signature

ANSWERS = "answers.npz"  # the whole test set, one series; the last call may be shorter
PROBES = "probes.npz"  # one series for each probe
RECORD = "record.json"
PROBE_SAMPLES = 20  # that the probe of the largest batch sees, at least, where there are so many
SIZE_SAMPLES = 10  # that a probe of a smaller batch sees, or of another size of an axis
FIRST_BITS = 3  # of the smallest integers that are put into samples: what a sign or a rounding does shows there
FIRST_NUMBERS = 40  # of each input that such a probe sees at least
LEVEL_SAMPLES = 5  # that a probe of integers sees at least
FILL_CALLS = 2  # of a probe of filled masks: every second keeps what it has (models/probes/masks.py)
_AGAIN = "make the reference again"

Answers: TypeAlias = Mapping[str, Array]
Series: TypeAlias = Sequence[Answers]  # of one call after another
Key: TypeAlias = tuple[
    int, tuple[tuple[str, int], ...], tuple[tuple[str, Reach], ...], tuple[tuple[str, Fill], ...]
]  # of a Probe: its fields in their order


@dataclass(frozen=True)
class Probe:
    """Calls of one batch size. `sizes`: the axes that have another size in them than the data has. `reach`: the inputs
    that have other integers in them, and how large ones. `fills`: the masks that hide all or nothing, and what
    is blank."""

    batch: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    reach: Mapping[str, Reach] = field(default_factory=dict)
    fills: Mapping[str, Fill] = field(default_factory=dict)

    @classmethod
    def of_key(cls, key: Key) -> Probe:
        """What has that key."""
        batch, sizes, reach, fills = key
        return cls(batch, dict(sizes), dict(reach), dict(fills))

    @property
    def key(self) -> Key:
        """What tells it from other probes."""
        return self.batch, tuple(self.sizes.items()), tuple(self.reach.items()), tuple(self.fills.items())

    @property
    def as_sampled(self) -> bool:
        """Whether its inputs hold what the samples hold, cropped or not."""
        return not (self.reach or self.fills)

    @property
    def is_empty(self) -> bool:
        """Whether an axis is empty: answers may then hold nothing, and that they do is what is asked."""
        return 0 in self.sizes.values()

    @property
    def is_blank(self) -> bool:
        """Whether floats in it are all zero: which of equal numbers is the largest is then for rounding to say, and
        what is asked is only whether an answer is a number."""
        return Fill.BLANK in self.fills.values()

    @property
    def bits(self) -> int:
        """Of the largest integer that is put into the samples; 0 where none is."""
        return max((reach.bits for reach in self.reach.values()), default=0)

    def of(self, data: Dataset) -> Dataset:
        """The samples that it sees."""
        if self.as_sampled:
            return data
        return with_fills(with_numbers(data.rows(0, PROBE_SAMPLES), self.reach), self.fills, self.batch)

    def rows(self, data: Dataset, samples: int | None = None) -> Iterator[Array]:
        """The samples of each call, the first ones of `data`; from the start again where there are fewer. `samples`:
        how many it sees at least, where that is not for the probe to say."""
        wanted = self._wanted(data) if samples is None else samples
        calls = max(1, min(-(-wanted // self.batch), len(data) // self.batch))
        for at in range(calls):
            yield np.arange(at * self.batch, (at + 1) * self.batch) % len(data)

    def _wanted(self, data: Dataset) -> int:
        """How many samples it sees, where there are so many."""
        if self.fills:
            return FILL_CALLS * self.batch
        if self.bits > FIRST_BITS:
            return LEVEL_SAMPLES
        if self.reach:
            fewest = min(int(data.inputs[name][0].size) for name in self.reach)
            return max(LEVEL_SAMPLES, -(-FIRST_NUMBERS // max(1, fewest)))
        return SIZE_SAMPLES if self.sizes else PROBE_SAMPLES


@dataclass(frozen=True)
class Record:
    """What the reference was asked: by its own signature, which says how calls are put together from the data."""

    signature: Signature
    probes: tuple[Probe, ...]
    chunk: int | None = None  # samples in a call of the whole test set; None: it was not asked
    refused: Mapping[str, Sequence[int]] = field(default_factory=dict)  # sizes of axes to which it has no answer
    constant: Mapping[str, Sequence[int]] = field(default_factory=dict)  # those at which all its answers are alike
    reach: Mapping[str, Reach] = field(default_factory=dict)  # of inputs that were tried with integers not of the data
    steady_db: float | None = None  # how well it agrees with itself where its inputs differ in their last bits

    @property
    def least(self) -> int:
        """The smallest batch that the model takes."""
        return bounds_within(self.signature.inputs, self.signature.batch).low


def write_record(folder: Path, record: Record) -> None:
    """Keep a record beside its answers."""
    document = {**asdict(record), "signature": record.signature.to_json()}
    (folder / RECORD).write_text(json.dumps(document, indent=1) + "\n")


def read_record(folder: Path) -> Record:
    """The record of the reference in `folder`.

    Raises BadRequest where there is none.
    """
    try:
        found = json.loads((folder / RECORD).read_text())
        signature, probes = Signature.from_json(found["signature"]), map(_probe, found["probes"])
        limits = found["refused"], found["constant"], _reaches(found["reach"])
        return Record(signature, tuple(probes), found["chunk"], *limits, found["steady_db"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"{folder} holds no recorded answers: {error}", fix=_AGAIN) from error


def _probe(row: Mapping[str, Any]) -> Probe:
    fills = {name: Fill(each) for name, each in row["fills"].items()}
    return Probe(row["batch"], row["sizes"], _reaches(row["reach"]), fills)


def _reaches(found: Mapping[str, Sequence[int]]) -> dict[str, Reach]:
    return {name: Reach(*each) for name, each in found.items()}


def write_calls(path: Path, series: Sequence[Series]) -> None:
    """Write series of calls; the outputs keep their order."""
    write_arrays(
        path,
        {
            f"{number}/{at}/{name}": array
            for number, calls in enumerate(series)
            for at, call in enumerate(calls)
            for name, array in call.items()
        },
    )


def read_calls(path: Path) -> list[Series]:
    """What `write_calls` wrote.

    Raises BadRequest where it is no such file.
    """
    series: dict[int, dict[int, dict[str, Array]]] = {}
    for key, array in read_arrays(path).items():
        number, _, rest = key.partition("/")
        at, slash, name = rest.partition("/")
        if not (slash and number.isdecimal() and at.isdecimal()):
            raise BadRequest(f"{path} holds no recorded answers", fix=_AGAIN)
        series.setdefault(int(number), {}).setdefault(int(at), {})[name] = array
    return [[calls[at] for at in sorted(calls)] for _, calls in sorted(series.items())]


def by_sample(answers: Answers, *, batched: bool) -> Answers:
    """Answers with samples along axis 0: as they are, or as those of one sample where the model has no batch."""
    return answers if batched else {name: array[np.newaxis] for name, array in answers.items()}
