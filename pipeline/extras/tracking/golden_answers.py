"""A few samples of a finished run and the reference's recorded answers to them: what a loaded copy is checked with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ....models.dataset import read_dataset
from ....models.errors import BadRequest
from ....models.probes.feeds import group_into_calls, make_feeds
from ....models.probes.sizes import bounds_within
from ....models.signature import Array, Signature
from ...drift.answer_shards import RecordedSeries
from ...drift.recorded_answers import ANSWERS, ReferenceRecord, read_record
from ...result.verified_artifact import reference_of, samples_of

_SAMPLES = 3  # of the golden call, where the model takes so many


@dataclass(frozen=True)
class GoldenAnswers:
    """The inputs of a call by name, the reference's answers to it, and the inputs of a smaller one as an example."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    example: Mapping[str, Array]


def read_golden_answers(run: Path, scratch: Path) -> GoldenAnswers | None:
    """Return golden samples of a run from its store; None where the store no longer has them, or the reference answered
    no call of the test set. Compressed samples are unpacked to `scratch`.
    Raises BadRequest where a file of them is broken."""
    samples, reference = samples_of(run), reference_of(run)
    if samples is None or reference is None:
        return None
    record = read_record(reference)
    if record.chunk is None or not (reference / ANSWERS).is_dir():
        return None
    signature = record.signature
    data = group_into_calls(signature.inputs, read_dataset(samples, signature.inputs, scratch))
    rows = np.arange(min(record.chunk, len(data)))
    inputs, outputs = make_feeds(data, rows, signature), RecordedSeries(reference / ANSWERS).read_call(0)
    if {*outputs} != {spec.name for spec in signature.outputs}:
        raise BadRequest(f"{reference} holds answers of another model", fix="run again")
    golden = _first_samples(record, inputs, outputs, len(rows), _SAMPLES)
    example, _ = _first_samples(record, inputs, outputs, len(rows), 1)
    return GoldenAnswers(*golden, example)


def _first_samples(
    record: ReferenceRecord, inputs: Mapping[str, Array], outputs: Mapping[str, Array], calls: int, wanted: int
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the first samples of a call: as near to `wanted` as the model takes, all of them where it has no batch."""
    signature = record.signature
    count = bounds_within(signature.inputs, signature.batch).filled.nearest(wanted)
    if count >= calls or not _is_batched(signature):
        return dict(inputs), dict(outputs)
    return (
        {spec.name: _cut(inputs[spec.name], spec.shape, signature.batch, count) for spec in signature.inputs},
        {spec.name: _cut(outputs[spec.name], spec.shape, signature.batch, count) for spec in signature.outputs},
    )


def _is_batched(signature: Signature) -> bool:
    """Return whether every output has the batch, so that each sample's answers can be told apart."""
    return signature.batch is not None and all(signature.batch in spec.shape for spec in signature.outputs)


def _cut(array: Array, shape: tuple[int | str, ...], batch: str | None, count: int) -> Array:
    """Return the first `count` samples along the batch axis; an input without it as it is."""
    return array if batch not in shape else np.take(array, np.arange(count), axis=shape.index(batch))
