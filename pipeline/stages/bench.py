"""The bench stage: each artifact in each runtime, in a worker of its own, and all of them in the same rounds.

All of it is repeated in new processes until every comparison is settled, or the budget is spent (pipeline/bench/)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from random import Random

from ...models.errors import ToolMissing, TransloadError
from ...models.probes.sizes import batches_within
from ...models.signature import Array, Signature, TensorSpec, batch_axis, bounds_of
from ...models.store import Stored, size_of
from ...serving.runtimes.runtime_table import RUNTIMES, Runtime
from ..bench.comparison import LOOKS, Ratio, compare
from ..bench.latency_rows import About, Conditions, latency_rows, reference_of
from ..bench.machine_load import LoadMeter
from ..bench.rounds import Pair, RoundsPlan, Series, empty_series, run_rounds
from ..bench.statistics import Load
from ..bench.subject import SubjectOptions
from ..context import Context, cores
from ..intake.loaded_model import ModelDescription, ServedModel
from ..intake.run_inputs import RunInputs
from ..plan.router import TargetResult
from ..plan.run_plan import log_of
from ..result.schema import LatencyRow
from ..workers.engine import SCRATCH
from ..workers.interpreters import interpreter_of, lacking
from ..workers.isolation import Worker
from .servers import Servers, ServerUse
from .validate import ANY_DEVICE, device_for, pairs

REFERENCE: Pair = ("source", "torch")
SUBJECT = "transload.pipeline.bench.subject:open_subject"


@dataclass(frozen=True)
class BenchSubject:
    """A model in a runtime, to be measured."""

    pair: Pair
    stored: Stored
    runtime: Runtime
    served: ServedModel | None = None
    source: ModelDescription | None = None  # of a model that is code: it is no artifact

    def device(self, requested: str) -> str:
        """Return the device that it is to run on."""
        return ANY_DEVICE if self.served else device_for(self.runtime, requested)


@dataclass(frozen=True)
class Measurements:
    """Latency rows, and the series that they were made from."""

    rows: tuple[LatencyRow, ...] = ()
    series: tuple[Series, ...] = ()
    note: str | None = None  # which batch sizes were measured in place of those of the request, and why

    @property
    def samples(self) -> dict[tuple[str, str, int], Array]:
        """Seconds of every call by (artifact, runtime, batch)."""
        return {(*series.pair, series.batch): series.samples_s for series in self.series if series.processes}


def measure_all(context: Context, inputs: RunInputs, results: Sequence[TargetResult], servers: Servers) -> Measurements:
    """Measure the latency of the source in PyTorch, eager, and of every artifact in every wanted runtime."""
    artifacts = [
        BenchSubject((checked.name, checked.runtime.name), checked.stored, checked.runtime)
        for checked in pairs(results, context.request.bench.runtimes)
    ]
    subjects = [*source_subjects(inputs.source, inputs.model, artifacts), *artifacts]
    return Bench(context, inputs.data, servers, inputs.model).measure(subjects)


def source_subjects(source: Stored, model: ModelDescription, artifacts: Iterable[BenchSubject]) -> list[BenchSubject]:
    """Return the source in PyTorch, eager, and behind each protocol that artifacts are served by: what is served is
    held against what is served."""
    protocols = dict.fromkeys(subject.runtime.name for subject in artifacts if subject.runtime.served)
    names = (REFERENCE[1], *protocols)
    return [BenchSubject((REFERENCE[0], name), source, RUNTIMES[name], source=model) for name in names]


def batches_note(requested: Sequence[int], batches: Sequence[int], specs: Sequence[TensorSpec]) -> str | None:
    """Return the note on a model that does not take the requested batch sizes, or None."""
    if set(requested) <= set(batches):
        return None
    axis = batch_axis(specs)
    reason = (
        f"the model takes {axis}={bounds_of(specs)[axis]}" if axis else "the model has no batch, a call is one sample"
    )
    before, measured = (", ".join(map(str, sizes)) for sizes in (requested, batches))
    return f"measured at batch {measured} in place of {before}: {reason}"


@dataclass(frozen=True)
class BenchGoal:
    """What subjects are held against, and when measuring ends."""

    references: Mapping[Pair, Pair] | None = None  # by subject; None: `reference_of_kind`
    is_settled: Callable[[Ratio], bool] = lambda ratio: ratio.is_decided
    budget_s: float | None = None  # None: the request's
    most_s: float = math.inf  # no set of processes that would end later begins, however few there were


@dataclass(frozen=True)
class Bench:
    """Measures latencies on the test set of `data`.
    `model` is that of the data. Its signature says how calls are put together, at which batches; its root is the folder
    that the code of a source imports from."""

    context: Context
    data: Stored
    servers: Servers
    model: ModelDescription

    def measure(self, subjects: Sequence[BenchSubject], goal: BenchGoal = BenchGoal()) -> Measurements:
        """Measure all subjects in turns, in one set of processes after the other. The ratio of a subject is to the
        one that the goal names, else to the first that is asked in the same way (see `reference_of_kind`)."""
        request, specs = self.context.request.bench, self.model.signature.inputs
        plan = RoundsPlan(batches=batches_within(specs, request.batches), rounds=request.rounds)
        references = goal.references or {subject.pair: reference_of_kind(subject, subjects) for subject in subjects}
        measuring = _Measuring(plan, empty_series(references, plan))
        rng = Random(request.seed)  # noqa: S311  (an order, not a secret)
        start, number, wanted, seconds = time.monotonic(), 0, list(subjects), 0.0
        while wanted:
            self._measure_once(measuring, wanted, number, rng, self._seconds_left(goal, number, seconds))
            number += 1
            seconds = time.monotonic() - start
            wanted = self._still_wanted(measuring, wanted, references, number, seconds, goal=goal)
        by_pair = {subject.pair: subject for subject in subjects}
        rows = measuring.rows(
            time.monotonic() - start,
            number,
            request.same_within,
            {subject.pair: self._about(subject, by_pair[references[subject.pair]], measuring) for subject in subjects},
        )
        logged = tuple(replace(row, log=self._log((row.artifact, row.runtime))) for row in rows)
        series = tuple(measuring.series.values())
        return Measurements(logged, series, batches_note(request.batches, plan.batches, specs))

    def _seconds_left(self, goal: BenchGoal, number: int, seconds: float) -> float:
        """Return the seconds that the next set of processes may take; of a hard end, its share of what is left."""
        shares = max(1, self.context.request.bench.processes - number) if goal.most_s < math.inf else 1
        return (min(self._budget_s(goal), goal.most_s) - seconds) / shares

    def _budget_s(self, goal: BenchGoal) -> float:
        return self.context.request.bench.budget_s if goal.budget_s is None else goal.budget_s

    def _measure_once(
        self, measuring: _Measuring, subjects: Sequence[BenchSubject], number: int, rng: Random, left_s: float
    ) -> None:
        """Add one set of processes to the series of these subjects, and measure for as long as it took to start them:
        where rounds scatter more than processes do, that is the best use of time, and never a bad one."""
        start = time.monotonic()
        try:
            with self._open_all(subjects) as (workers, lost):
                for pair, why in lost.items():
                    measuring.lose(pair, why)
                opening_s = time.monotonic() - start
                plan = replace(measuring.plan, measuring_s=max(0.0, min(opening_s, left_s - opening_s)))
                meter = LoadMeter.start([*(worker.pid for worker in workers.values()), *self.servers.pids], cores())
                asks = {pair: worker.ask for pair, worker in workers.items()}
                run_rounds(asks, measuring.series, plan, number, rng=rng, progress=self._show_round)
                if load := meter.read():
                    measuring.loads.append(load)
                for subject in subjects:
                    measuring.add_peak(subject.pair, self._peak_rss_bytes(subject, workers.get(subject.pair)))
        finally:
            self.servers.stop_all()

    def _still_wanted(
        self,
        measuring: _Measuring,
        subjects: Sequence[BenchSubject],
        references: Mapping[Pair, Pair],
        number: int,
        seconds: float,
        *,
        goal: BenchGoal,
    ) -> list[BenchSubject]:
        """Return those of the last set of processes that are to be measured in one more: after a look those that are
        not settled, and their references."""
        request = self.context.request.bench
        alive = [subject for subject in subjects if not measuring.is_lost(subject.pair)]
        expected_s = seconds * (number + 1) / number
        if expected_s > goal.most_s:
            return []
        if number < request.processes:
            return alive
        if expected_s > self._budget_s(goal):
            return []
        if number not in LOOKS:
            return alive
        unsettled = measuring.unsettled(references, request.same_within, goal.is_settled)
        measured = unsettled | {references[pair] for pair in unsettled}
        return [subject for subject in alive if subject.pair in measured]

    @contextmanager
    def _open_all(self, subjects: Sequence[BenchSubject]) -> Iterator[tuple[dict[Pair, Worker], dict[Pair, str]]]:
        """Open every subject in its worker, as many side by side as there are jobs, until the end of the block.
        Yields the workers, and the sentence of each subject that could not be loaded."""
        workers: dict[Pair, Worker] = {}
        lost: dict[Pair, str] = {}
        with ExitStack() as stack:
            for start in range(0, len(subjects), self.context.jobs):
                loading: dict[Pair, Worker] = {}
                for subject in subjects[start : start + self.context.jobs]:
                    try:
                        loading[subject.pair] = worker = self._begin(subject)
                        stack.callback(worker.close)
                    except TransloadError as error:
                        lost[subject.pair] = error.what
                for pair, worker in loading.items():
                    try:
                        worker.receive()
                        workers[pair] = worker
                    except TransloadError as error:
                        lost[pair] = error.what
                    self.context.progress.step(f"{pair[0]} in {pair[1]} is loaded")
            yield workers, lost

    def _begin(self, subject: BenchSubject) -> Worker:
        """Return a worker that has begun to load its subject."""
        context, stored, runtime, served = self.context, subject.stored, subject.runtime, subject.served
        device = subject.device(context.device)
        if reason := lacking(runtime):
            raise ToolMissing(f"{runtime.name} {reason}", fix="install it (transload doctor)")
        threads = context.request.bench.threads
        name = _worker_name(subject.pair)
        limits = context.limits(device=device, loopback=runtime.served, host=served.url.host if served else None)
        limits = replace(limits, threads=threads, spin=True)
        server = self._server(subject)
        reads = (*self.model.reads, str(stored.folder), str(self.data.folder))
        worker = context.executor.open_worker(
            name, limits, context.folder / SCRATCH / name, reads, self.model.root, python=interpreter_of(runtime).path
        )
        options = SubjectOptions(
            runtime=runtime.name,
            folder=str(stored.folder),
            device=device,
            threads=threads,
            services=server.addresses() if server else {},
            feeds=str(self.data.folder),
            signature=self.model.signature,
            model=server.model if server else None,
            served=self._served_signature(subject),
        )
        worker.send_open(SUBJECT, options.to_json())
        return worker

    def _served_signature(self, subject: BenchSubject) -> Signature | None:
        """Return the signature of a served model of which there is no artifact to read it from."""
        if subject.served:
            return subject.served.signature
        return subject.source.signature if subject.source and subject.runtime.served else None

    def _server(self, subject: BenchSubject) -> ServerUse | None:
        device = subject.device(self.context.device)
        return self.servers.use(subject.stored, device, subject.runtime, subject.served, subject.source)

    def _peak_rss_bytes(self, subject: BenchSubject, worker: Worker | None) -> int | None:
        """Return the most memory that the model's process held: of a served one its server's, where that is ours."""
        if not subject.runtime.served:
            return worker.peak_rss_bytes if worker else None
        device = subject.device(self.context.device)
        return self.servers.peak_rss_bytes(subject.stored, device, subject.runtime, subject.source)

    def _about(self, subject: BenchSubject, reference: BenchSubject, measuring: _Measuring) -> About:
        server = self._server(subject)
        return About(
            device=subject.device(self.context.device),
            threads=self.context.request.bench.threads,
            server=server.kind if server else None,
            peak_rss_bytes=measuring.peaks.get(subject.pair),
            size_bytes=None if subject.source or subject.served else size_of(subject.stored.folder),
            reference=reference.pair,
            note=_network_note(subject, reference),
        )

    def _log(self, pair: Pair) -> str | None:
        """Return the log of a subject; None where it had no worker."""
        log = log_of(_worker_name(pair))
        return log if (self.context.folder / log).is_file() else None

    def _show_round(self, batch: int, number: int) -> None:
        self.context.progress.step(f"batch {batch}, round {number}")


@dataclass
class _Measuring:
    """What has been measured so far."""

    plan: RoundsPlan
    series: dict[tuple[Pair, int], Series]
    peaks: dict[Pair, int] = field(default_factory=dict)  # bytes
    loads: list[Load] = field(default_factory=list)

    def lose(self, pair: Pair, why: str) -> None:
        for batch in self.plan.batches:
            self.series[pair, batch].lost = self.series[pair, batch].lost or why

    def is_lost(self, pair: Pair) -> bool:
        return any(self.series[pair, batch].lost for batch in self.plan.batches)

    def add_peak(self, pair: Pair, peak_bytes: int | None) -> None:
        if peak_bytes is not None:
            self.peaks[pair] = max(peak_bytes, self.peaks.get(pair, 0))

    def unsettled(
        self, references: Mapping[Pair, Pair], same_within: float, is_settled: Callable[[Ratio], bool]
    ) -> set[Pair]:
        """Return the subjects of which a comparison is not settled."""
        pairs = set()
        for entry in self.series.values():
            reference = reference_of(entry, self.series, references)
            if entry.lost is None and reference is not None and reference is not entry:
                ratio = compare(entry, reference, same_within=same_within)
                if ratio is not None and not is_settled(ratio):
                    pairs.add(entry.pair)
        return pairs

    def rows(self, seconds: float, number: int, same_within: float, about: Mapping[Pair, About]) -> list[LatencyRow]:
        """Return the rows, subject by subject, batch by batch."""
        load = max(self.loads, key=lambda load: load.other_cores, default=None)
        conditions = Conditions(load=load, same_within=same_within, seconds_per_process=seconds / max(number, 1))
        return latency_rows(self.series.values(), about, conditions)


def reference_of_kind(subject: BenchSubject, subjects: Sequence[BenchSubject]) -> Pair:
    """Return what a subject is held against: of those in process the first of them, of those that are served the first
    behind the same protocol. A model that is served elsewhere is held against the first of all, and where that is the
    first, all are held against it."""
    if subject.served or subjects[0].served:
        return subjects[0].pair
    asked_alike = (
        other.pair
        for other in subjects
        if (other.runtime.name == subject.runtime.name if subject.runtime.served else not other.runtime.served)
    )
    return next(asked_alike)


def _network_note(subject: BenchSubject, reference: BenchSubject) -> str | None:
    """Return the sentence on a time, or on a ratio, that includes the network; None where neither does."""
    if subject.served:
        own = f"served at {subject.served.url.address}: its time includes the network and that server"
        return own if reference.served else f"{own}, the reference's does not"
    if reference.served:
        return f"its ratio is to a model served at {reference.served.url.address}, whose time includes the network"
    return None


def _worker_name(pair: Pair) -> str:
    return f"bench.{pair[0].replace(':', '-').replace('/', '-')}.{pair[1]}"
