"""The samples that a search for the smallest piece tries: the calls with which artifacts are validated. Worker only.

An artifact may be wrong only at a size that the data does not have; then a sample of that size shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from ...converters.minimal_repro.graph_pieces import Piece
from ...models.dataset import Dataset
from ...models.errors import Refused
from ...models.job import Job
from ...models.probes.feeds import make_feeds, sizes_in
from ...models.probes.probe_set import Probe, describe_values
from ...models.probes.sizes import bounds_within
from ...models.signature import Array, TensorSpec
from ..drift.recorded_answers import ReferenceRecord, read_record
from ..drift.sessions import read_test_set
from .trial import Failure, Trial

Feeds: TypeAlias = Mapping[str, Array]
_T = TypeVar("_T")
_P = TypeVar("_P", bound=Piece)


def recorded_calls(job: Job) -> Iterator[tuple[Feeds, list[Feeds]]]:
    """Yield the feeds of each call in inputs["reference"], made from inputs["data"], and candidates of a second call.
    There is one call for each batch, each other size of an axis and each size of integers. In the second call every
    dynamic axis has another size, at least the batch; any of the candidates will do. An axis that changes between the
    calls is dynamic. Options: reason, why the artifact was refused."""
    record = read_record(job.inputs["reference"])
    data = read_test_set(job, record.signature.inputs)
    reason = job.options["reason"]
    data_sizes = sizes_in(data, record.signature)
    answered = {axis: size for probe in record.probes for axis, size in probe.sizes.items()}
    for probe in sorted(record.probes, key=lambda probe: _order(probe, record.signature.inputs, reason)):
        sizes = {**data_sizes, **probe.sizes}
        own_sizes = {axis: data_sizes[axis] for axis in probe.sizes if axis in data_sizes}
        all_others = {axis: answered.get(axis, size) for axis, size in sizes.items()} | own_sizes
        batch = _other_batch(record, probe.batch)
        second_candidates = [_feeds(data, record, Probe(batch, other)) for other in (all_others, own_sizes)]
        yield _feeds(data, record, probe), second_candidates


def full_model_failure(
    job: Job, trial: Trial, record: Callable[[Feeds, Sequence[Feeds]], tuple[_T, _P | None]]
) -> tuple[_T, _P, Failure]:
    """Return the full model's failure at the first samples at which it fails, with what `record` made of these.
    That is a model that can be cut, and the full model as a piece. Raises Refused if it fails at none."""
    for first, others in recorded_calls(job):
        recorded, piece = record(first, others)
        if piece and (failure := trial(piece)):
            return recorded, piece, failure
    raise Refused("the whole model does not fail when it is converted once more", fix="read the log of the step")


def record_first_accepted(make: Callable[[Feeds, Feeds], _T], first: Feeds, second_candidates: Sequence[Feeds]) -> _T:
    """Return `make` of the first call and the first second call that the model accepts: it may refuse some sizes."""
    *tries, last = second_candidates
    for second in tries:
        try:
            return make(first, second)
        except Exception as error:  # noqa: BLE001  (a model may raise anything for sizes)
            print(f"the model does not take several other sizes at once: {error}")
    return make(first, last)


def _order(probe: Probe, specs: Sequence[TensorSpec], reason: str) -> tuple[bool, bool, bool, int]:
    """Return a sort key: probes that the refusal names come first, then the data's own sizes with several samples.
    With one sample an axis cannot be told from another."""
    sizes = ", ".join(f"{axis}={size}" for axis, size in probe.sizes.items())  # worded as in drift/check.py
    description = describe_values(probe, specs) or (sizes and f"at {sizes}")
    is_named = bool(description) and f"{description}: " in reason
    return not is_named, bool(description), probe.batch == 1, probe.batch


def _other_batch(record: ReferenceRecord, batch: int) -> int:
    bounds = bounds_within(record.signature.inputs, record.signature.batch)
    return next((size for size in map(bounds.nearest, (batch + 1, batch - 1)) if size != batch), batch)


def _feeds(data: Dataset, record: ReferenceRecord, probe: Probe) -> Feeds:
    samples = probe.of(data)
    return make_feeds(samples, np.arange(probe.batch) % len(samples), record.signature, probe.sizes)
