"""The samples that a search for the smallest piece tries: the calls that the check makes of a copy. Worker only.

A copy may be wrong at another size only, than the data has: then it is a sample of that size that shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from ...models.dataset import Dataset, write_arrays
from ...models.job import Job
from ...models.probes.feeds import make_feeds, sizes_in
from ...models.probes.probe_set import Probe, describe_values
from ...models.probes.sizes import bounds_within
from ...models.signature import Array, TensorSpec
from ..drift.recorded_answers import ReferenceRecord, read_record
from ..drift.sessions import read_test_set
from .trial import Piece, Trial, Trouble, does_not_fail

Feeds: TypeAlias = Mapping[str, Array]
_T = TypeVar("_T")


def calls(job: Job) -> Iterator[tuple[Feeds, list[Feeds]]]:
    """What the reference in inputs["reference"] was asked, of the data in inputs["data"]: one call for each batch, for
    each other size of an axis and for each size of integers. With it others, one of which will do: every dynamic axis
    has another size there, the batch at least. What changes from one call to the other is dynamic. Options: reason, why
    the copy was refused."""
    record = read_record(job.inputs["reference"])
    data = read_test_set(job, record.signature.inputs)
    reason = job.options["reason"]
    own = sizes_in(data, record.signature)
    answered = {axis: size for probe in record.probes for axis, size in probe.sizes.items()}
    for probe in sorted(record.probes, key=lambda probe: _order(probe, record.signature.inputs, reason)):
        sizes = {**own, **probe.sizes}
        back = {axis: own[axis] for axis in probe.sizes if axis in own}
        all_others = {axis: answered.get(axis, size) for axis, size in sizes.items()} | back
        batch = _another(record, probe.batch)
        seconds = [_feeds(data, record, Probe(batch, each)) for each in (all_others, back)]
        yield _feeds(data, record, probe), seconds


class Whole(Protocol):
    """A graph that can be cut into pieces, as it was run on one sample."""

    @property
    def nodes(self) -> Sequence[object]:
        """Its operators."""

    def record(self, feeds: Feeds, /) -> None:
        """Run it, and keep what is in it."""

    def piece(self, chosen: Sequence[int], /) -> Piece | None:
        """Some operators, fed with what they are fed in that run."""


def whole_failing(cutter: Whole, trial: Trial, job: Job) -> Trouble:
    """How the whole model fails, with the first samples at which it does; the cutter holds them.

    Raises Refused where it fails at none.
    """
    for feeds, _ in calls(job):
        cutter.record(feeds)
        piece = cutter.piece(range(len(cutter.nodes)))
        if piece and (trouble := trial(piece.write, piece.feeds, piece.expected)):
            return trouble
    raise does_not_fail()


def recorded(make: Callable[[Feeds, Feeds], _T], first: Feeds, seconds: list[Feeds]) -> _T:
    """What `make` gives for the first of the other calls that the model takes: it need not take every size at once."""
    *most, last = seconds
    for second in most:
        try:
            return make(first, second)
        except Exception as error:  # noqa: BLE001  (whatever a model raises over sizes)
            print(f"the model does not take several other sizes at once: {error}")
    return make(first, last)


def _order(probe: Probe, specs: Sequence[TensorSpec], reason: str) -> tuple[bool, bool, bool, int]:
    """First the sizes, the integers and the masks that the check has named when it refused the copy. Else the data's
    own, and several samples: of one alone an axis cannot be told from another."""
    where = ", ".join(f"{axis}={size}" for axis, size in probe.sizes.items())  # as drift/check.py says it
    said = describe_values(probe, specs) or (where and f"at {where}")
    named = bool(said) and f"{said}: " in reason
    return not named, bool(said), probe.batch == 1, probe.batch


def _another(record: ReferenceRecord, batch: int) -> int:
    bounds = bounds_within(record.signature.inputs, record.signature.batch)
    return next((size for size in map(bounds.nearest, (batch + 1, batch - 1)) if size != batch), batch)


def _feeds(data: Dataset, record: ReferenceRecord, probe: Probe) -> Feeds:
    seen = probe.of(data)
    return make_feeds(seen, np.arange(probe.batch) % len(seen), record.signature, probe.sizes)


def write_groups(path: Path, **groups: Feeds) -> None:
    """Keep arrays for a script, each under `KIND/NAME`: what goes `in`, what is `expected`, and so on."""
    write_arrays(path, {f"{kind}/{name}": array for kind, group in groups.items() for name, array in group.items()})
