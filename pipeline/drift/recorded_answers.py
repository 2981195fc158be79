"""The reference's answers, call by call, as they came, and the probes that they answer.

The file of the probes holds series of calls under the keys `SERIES/CALL/OUTPUT`, both numbers from 0. Calls are not
joined: an output need not have the samples along axis 0. `record.json` says what each series is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from ...models.array_file import read_arrays, write_arrays
from ...models.dataset import Dataset, read_dataset, write_dataset
from ...models.errors import BadRequest
from ...models.probes.evidence import Answers, Series
from ...models.probes.masks import Fill
from ...models.probes.probe_set import Probe, ProbeKey
from ...models.probes.sizes import bounds_within
from ...models.probes.stress_values import IntegerRange
from ...models.signature import Array, Bounds, Signature
from ...models.untrusted_files import read_json
from .answer_shards import RecordedSeries
from .noise_floor import Cause, OutputNoise
from .numbers.numeric import combine, compare

ANSWERS = "answers"  # the whole test set in shards (answer_shards.py); the last call may be shorter
DRAWN = "drawn.npz"  # the samples that `answers` are to, where they are not the whole test set
PROBES = "probes.npz"  # one series for each probe
RECORD = "record.json"
_AGAIN = "make the reference again"


class _ProbeRow(TypedDict):
    """A probe in record.json."""

    batch: int
    sizes: Mapping[str, int]
    reach: Mapping[str, Sequence[Any]]  # IntegerRange, field by field
    fills: Mapping[str, str]
    source: str


@dataclass(frozen=True)
class ReferenceRecord:
    """The probes of the reference, by its own signature, which says how calls are put together from the data."""

    signature: Signature
    probes: tuple[Probe, ...]
    chunk: int | None = None  # samples in a call of the whole test set; None: it was not asked
    refused: Mapping[str, Sequence[int]] = field(default_factory=dict)  # sizes of axes to which it has no answer
    constant: Mapping[str, Sequence[int]] = field(default_factory=dict)  # those at which all its answers are alike
    reach: Mapping[str, IntegerRange] = field(default_factory=dict)  # of the inputs tried with integers not of the data
    noise: Mapping[Cause, OutputNoise] = field(default_factory=dict)  # of all probes
    float64: tuple[OutputNoise, ...] = ()  # of each probe, beside float64; empty where that cannot be had
    steadiness: tuple[OutputNoise, ...] = ()  # of each probe of stress, where last bits differ; empty ones of others
    constants: tuple[int, int] = (0, 0)  # that the model compares values with, and those that no input reached

    def has_truth(self, probe: Probe) -> bool:
        """Return whether the reference was asked this probe in float64, too."""
        return bool(self._truth_of(probe))

    def noise_of(self, probe: Probe) -> dict[Cause, OutputNoise]:
        """Return how well the reference's own answers agree, by what they were compared with.

        Those of a probe count beside float64; those of all probes where it has none of its own.
        """
        own, steadiness = self._truth_of(probe), self.steadiness_of(probe)
        truth = {Cause.FLOAT64: own} if own else {}
        return {**self.noise, **truth, **({Cause.LAST_BITS: steadiness} if steadiness else {})}

    def steadiness_of(self, probe: Probe) -> OutputNoise:
        """Return how well answers to a probe of stress agree where last bits differ; 0 of integers that changed.
        Inputs that are ties are meant to be so: where float64 tells what rounding decides, they have no other bits."""
        if probe.is_tied and self._truth_of(probe):
            return {}
        return self._of_probe(self.steadiness, probe) or {}

    def _truth_of(self, probe: Probe) -> OutputNoise | None:
        return self._of_probe(self.float64, probe)

    def _of_probe(self, noise: Sequence[OutputNoise], probe: Probe) -> OutputNoise | None:
        own = dict(zip((known.key for known in self.probes), noise, strict=False))
        # Rows of another source have one noise, whatever the sizes that they are asked at.
        return own.get(probe.key) or (own.get(self._first_of(probe.source)) if probe.source else None)

    def _first_of(self, source: str) -> ProbeKey:
        return next(known.key for known in self.probes if known.source == source)

    @property
    def batches(self) -> Bounds:
        """The batches that the model takes."""
        return bounds_within(self.signature.inputs, self.signature.batch)


def write_record(folder: Path, record: ReferenceRecord) -> None:
    """Write a record beside its answers."""
    document = {**asdict(record), "signature": record.signature.to_json()}
    (folder / RECORD).write_text(json.dumps(document, indent=1) + "\n")


def read_record(folder: Path) -> ReferenceRecord:
    """Read the record of the reference in `folder`.
    Raises BadRequest where there is none."""
    try:
        document = read_json(folder / RECORD)
        signature, probes = Signature.from_json(document["signature"]), map(_probe, document["probes"])
        limits = document["refused"], document["constant"], _ranges(document["reach"])
        noise = {Cause(cause): by_output for cause, by_output in document["noise"].items()}
        by_probe = tuple(document["float64"]), tuple(document["steadiness"])
        constants = tuple(document["constants"])
        return ReferenceRecord(signature, tuple(probes), document["chunk"], *limits, noise, *by_probe, constants)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"{folder} holds no recorded answers: {error}", fix=_AGAIN) from error


def _probe(row: _ProbeRow) -> Probe:
    fills = {name: Fill(fill) for name, fill in row["fills"].items()}
    return Probe(row["batch"], row["sizes"], _ranges(row["reach"]), fills, row["source"])


def _ranges(rows: Mapping[str, Sequence[Any]]) -> dict[str, IntegerRange]:
    return {name: IntegerRange(*fields) for name, fields in rows.items()}


def scored_answers(folder: Path, record: ReferenceRecord, samples: int) -> Iterator[tuple[Array, Answers]]:
    """Yield the answers to samples that a metric can score, with the samples' rows: to all, or to those drawn."""
    rows = read_arrays(folder / DRAWN)["rows"] if (folder / DRAWN).exists() else np.arange(samples)
    for call in RecordedSeries(folder / ANSWERS):
        answers = split_by_sample(call, batched=record.signature.batch is not None)
        own, rows = np.split(rows, [len(next(iter(answers.values())))])  # a last call may be filled up
        yield own, {name: array[: len(own)] for name, array in answers.items()}


def write_sources(folder: Path, sources: Mapping[str, Dataset]) -> None:
    """Write the rows of each source other than the samples."""
    for source, rows in sources.items():
        write_dataset(_rows_file(folder, source), rows)


def read_sources(folder: Path, probes: Iterable[Probe]) -> dict[str, Dataset]:
    """Read the rows that these probes are made of, by their source."""
    named = dict.fromkeys(probe.source for probe in probes if probe.source)
    return {source: read_dataset(_rows_file(folder, source)) for source in named}


def _rows_file(folder: Path, source: str) -> Path:
    return folder / f"{source.replace(' ', '_')}.npz"


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
    """Read a file of `write_calls`.
    Raises BadRequest where it is no such file."""
    series: dict[int, dict[int, dict[str, Array]]] = {}
    for key, array in read_arrays(path).items():
        number, _, rest = key.partition("/")
        at, slash, name = rest.partition("/")
        if not (slash and number.isdecimal() and at.isdecimal()):
            raise BadRequest(f"{path} holds no recorded answers", fix=_AGAIN)
        series.setdefault(int(number), {}).setdefault(int(at), {})[name] = array
    return [[calls[at] for at in sorted(calls)] for _, calls in sorted(series.items())]


def has_rows(answers: Answers, samples: int) -> bool:
    """Return whether each output has a row for each of so many samples."""
    return all(array.ndim and len(array) == samples for array in answers.values())


def split_by_sample(answers: Answers, *, batched: bool) -> Answers:
    """Return answers with samples along axis 0; those of a model without a batch are one sample."""
    return answers if batched else {name: array[np.newaxis] for name, array in answers.items()}


def varies(calls: Iterable[Answers], *, batched: bool) -> bool:
    """Return whether answers differ between samples: else any constant agrees with them."""
    parts = [split_by_sample(call, batched=batched) for call in calls]
    drifts = {name: compare(array, array) for name, array in parts[0].items()}
    for part in parts[1:]:
        drifts = {name: drift.merge(compare(part[name], part[name])) for name, drift in drifts.items()}
    return combine(drifts).varies
