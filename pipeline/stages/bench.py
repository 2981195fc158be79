"""The bench stage: each artifact in each runtime, in a worker of its own, and all of them in the same rounds.

All of it is repeated in new processes until every comparison is settled, or the budget is spent (pipeline/bench/)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from ...models.errors import ToolMissing, TransloadError
from ...models.formats import Target
from ...models.probes.sizes import batches_within
from ...models.signature import Array, Signature, TensorSpec, batch_axis, bounds_of
from ...models.store import Stored, size_of
from ...serving.runtimes.runtime_table import RUNTIMES, Runtime
from ...serving.runtimes.tuning_space import THREADS, RuntimeSettings
from ..bench.comparison import LOOKS, VERDICT_CONFIDENCE, Comparison, compare
from ..bench.latency_rows import About, Conditions, latency_rows, reference_of
from ..bench.machine_load import LoadMeter
from ..bench.rounds import Pair, RoundsPlan, Series, WarmUp, empty_series, run_rounds
from ..bench.statistics import Load, doubt_machine
from ..bench.subject import SubjectOptions
from ..bench.throttling import ThrottleMeter, Throttling, quota_cores, worst_throttling
from ..bench.tuned_settings import DEFAULTS, TunedSettings
from ..context import Context, cores
from ..intake.loaded_model import ModelDescription, ServedModel
from ..intake.run_inputs import RunInputs
from ..plan.router import TargetResult
from ..plan.run_plan import log_of
from ..request import BenchSection
from ..result.run_folder import ARTIFACTS
from ..result.schema import BoundRow, LatencyRow, TuningRow
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
    tuned: TunedSettings = DEFAULTS  # of the runtime, or of the one in our own server
    model: Path | None = None  # where the user keeps it, and its tuning
    target: Target | None = None  # None: a source, or a model that is served elsewhere

    @property
    def session_settings(self) -> RuntimeSettings:
        """The settings of the session that is timed: a served model's are its server's."""
        return RuntimeSettings(self.runtime.name, {} if self.runtime.served else self.tuned.settings)

    def device(self, requested: str) -> str:
        """Return the device that it is to run on."""
        return ANY_DEVICE if self.served else device_for(self.runtime, requested)


@dataclass(frozen=True)
class MeasureRule:
    """What is measured, and until when."""

    batches: tuple[int, ...]
    rounds: int
    processes: int
    budget_s: float
    same_within: float
    confidence: float = VERDICT_CONFIDENCE

    @classmethod
    def of(cls, section: BenchSection, batches: tuple[int, ...]) -> MeasureRule:
        """Return the rule of a request."""
        return cls(batches, section.rounds, section.processes, section.budget_s, section.same_within)


@dataclass(frozen=True)
class Measurements:
    """Latency rows, and the series that they were made from."""

    rows: tuple[LatencyRow, ...] = ()
    series: tuple[Series, ...] = ()
    note: str | None = None  # which batch sizes were measured in place of those of the request, and why
    tuning: tuple[TuningRow, ...] = ()
    bounds: tuple[BoundRow, ...] = ()
    subjects: tuple[BenchSubject, ...] = ()  # with their settings

    @property
    def samples(self) -> dict[tuple[str, str, int], Array]:
        """Seconds of every call by (artifact, runtime, batch)."""
        return {(*series.pair, series.batch): series.samples_s for series in self.series if series.processes}

    @property
    def warm_ups(self) -> dict[tuple[str, str, int], list[WarmUp]]:
        """Windows of each process's warm-up by (artifact, runtime, batch)."""
        return {(*series.pair, series.batch): series.warm_ups for series in self.series if series.processes}


def subjects_of(context: Context, inputs: RunInputs, results: Sequence[TargetResult]) -> list[BenchSubject]:
    """Return what a run measures: the source in PyTorch, eager, and every artifact in every wanted runtime."""
    artifacts = [
        BenchSubject(
            (checked.name, checked.runtime.name), checked.stored, checked.runtime, target=checked.target,
            model=context.folder / ARTIFACTS / checked.target.slug if checked.target else None,
        )
        for checked in pairs(results, context.request.bench.runtimes)
    ]  # fmt: skip
    return [*source_subjects(inputs.source, inputs.model, artifacts), *artifacts]


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
class Bench:
    """Measures latencies on the test set of `data`.
    `model` is that of the data. Its signature says how calls are put together, at which batches; its root is the folder
    that the code of a source imports from."""

    context: Context
    data: Stored
    servers: Servers
    model: ModelDescription

    def measure(self, subjects: Sequence[BenchSubject]) -> Measurements:
        """Measure all subjects in turns, in one set of processes after the other. The ratio of a subject is to the
        first one that is asked in the same way (see `reference_of_kind`)."""
        request, specs = self.context.request.bench, self.model.signature.inputs
        rule = MeasureRule.of(request, batches_within(specs, request.batches))
        references = {subject.pair: reference_of_kind(subject, subjects) for subject in subjects}
        measuring = self.collect(subjects, references, rule)
        by_pair = {subject.pair: subject for subject in subjects}
        rows = measuring.rows(
            {subject.pair: self._about(subject, by_pair[references[subject.pair]], measuring) for subject in subjects}
        )
        logged = tuple(replace(row, log=self._log((row.artifact, row.runtime))) for row in rows)
        series = tuple(measuring.series.values())
        note = batches_note(request.batches, rule.batches, specs)
        return Measurements(logged, series, note, subjects=tuple(subjects))

    def collect(
        self, subjects: Sequence[BenchSubject], references: Mapping[Pair, Pair], rule: MeasureRule
    ) -> CollectedSeries:
        """Return the samples of all subjects, in as many sets of processes as settle their ratios to `references`."""
        plan = RoundsPlan(batches=rule.batches, rounds=rule.rounds)
        measuring = CollectedSeries(rule, plan, empty_series(references, plan))
        rng = Random(self.context.request.bench.seed)  # noqa: S311  (an order, not a secret)
        start, wanted = time.monotonic(), list(subjects)
        while wanted:
            self._measure_once(measuring, wanted, measuring.sets, rng, rule.budget_s - measuring.seconds)
            measuring.sets += 1
            measuring.seconds = time.monotonic() - start
            wanted = measuring.still_wanted(wanted, references)
        return measuring

    def _measure_once(
        self, measuring: CollectedSeries, subjects: Sequence[BenchSubject], number: int, rng: Random, left_s: float
    ) -> None:
        """Add one set of processes to the series of these subjects, and measure for as long as it took to start them:
        where rounds scatter more than processes do, that is the best use of time, and never a bad one."""
        start = time.monotonic()
        timeline = self.context.progress.timeline
        try:
            with timeline.span(f"processes {number + 1}") as span, self._open_all(subjects) as (workers, lost):
                for pair, why in lost.items():
                    measuring.lose(pair, why)
                opening_s = time.monotonic() - start
                plan = replace(measuring.plan, measuring_s=max(0.0, min(opening_s, left_s - opening_s)))
                meter = LoadMeter.start([*(worker.pid for worker in workers.values()), *self.servers.pids], cores())
                throttle = ThrottleMeter.start()

                def show_round(batch: int, done: int) -> None:
                    throttle.sample()
                    self.context.progress.step(f"batch {batch}, round {done}")

                asks = {pair: worker.ask for pair, worker in workers.items()}
                run_rounds(asks, measuring.series, plan, number, rng=rng, progress=show_round)
                span.doubts = measuring.add_machine(meter.read(), throttle.read())
                for subject in subjects:
                    measuring.add_peak(subject.pair, self._peak_rss_bytes(subject, workers.get(subject.pair)))
        finally:
            self.servers.stop_all()

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
        server = self._server(subject)
        worker = open_subject_worker(self.context, subject, self.model, self.data, _worker_name(subject.pair))
        options = subject_options(self.context, subject, self.model, self.data)
        if server:
            options = replace(options, services=server.addresses(), model=server.model)
        worker.send_open(SUBJECT, options.to_json())
        return worker

    def _server(self, subject: BenchSubject) -> ServerUse | None:
        device = subject.device(self.context.device)
        return self.servers.use(
            subject.stored, device, subject.runtime, subject.served, subject.source, settings=subject.tuned.settings
        )

    def _peak_rss_bytes(self, subject: BenchSubject, worker: Worker | None) -> int | None:
        """Return the most memory that the model's process held: of a served one its server's, where that is ours."""
        if not subject.runtime.served:
            return worker.peak_rss_bytes if worker else None
        device = subject.device(self.context.device)
        return self.servers.peak_rss_bytes(subject.stored, device, subject.runtime, subject.source)

    def _about(self, subject: BenchSubject, reference: BenchSubject, measuring: CollectedSeries) -> About:
        server = self._server(subject)
        tuned = subject.tuned if server is None or server.kind == "embedded" else DEFAULTS
        return About(
            device=subject.device(self.context.device),
            threads=int(tuned.settings.get(THREADS, self.context.request.bench.threads)),
            server=server.kind if server else None,
            peak_rss_bytes=measuring.peaks.get(subject.pair),
            size_bytes=None if subject.source or subject.served else size_of(subject.stored.folder),
            reference=reference.pair,
            note=_network_note(subject, reference),
            tuned=tuned,
        )

    def _log(self, pair: Pair) -> str | None:
        """Return the log of a subject; None where it had no worker."""
        log = log_of(_worker_name(pair))
        return log if (self.context.folder / log).is_file() else None


@dataclass
class CollectedSeries:
    """What has been measured so far."""

    rule: MeasureRule
    plan: RoundsPlan
    series: dict[tuple[Pair, int], Series]
    peaks: dict[Pair, int] = field(default_factory=dict)  # bytes
    loads: list[Load] = field(default_factory=list)
    sets: int = 0  # of processes
    seconds: float = 0.0
    throttlings: list[Throttling] = field(default_factory=list)

    def lose(self, pair: Pair, why: str) -> None:
        """Take a subject out at all batch sizes."""
        for batch in self.plan.batches:
            self.series[pair, batch].lost = self.series[pair, batch].lost or why

    def is_lost(self, pair: Pair) -> bool:
        """Return whether a subject is out."""
        return any(self.series[pair, batch].lost for batch in self.plan.batches)

    def add_peak(self, pair: Pair, peak_bytes: int | None) -> None:
        """Keep the most memory that a subject held in any set of processes."""
        if peak_bytes is not None:
            self.peaks[pair] = max(peak_bytes, self.peaks.get(pair, 0))

    def still_wanted(self, subjects: Sequence[BenchSubject], references: Mapping[Pair, Pair]) -> list[BenchSubject]:
        """Return those of the last set of processes that are to be measured in one more: after a look those that are
        not settled, and their references."""
        rule, number = self.rule, self.sets
        alive = [subject for subject in subjects if not self.is_lost(subject.pair)]
        if number < rule.processes:
            return alive
        if self.seconds * (number + 1) / number > rule.budget_s:
            return []
        if number not in LOOKS:
            return alive
        unsettled = self.unsettled(references)
        measured = unsettled | {references[pair] for pair in unsettled}
        return [subject for subject in alive if subject.pair in measured]

    def add_machine(self, load: Load | None, throttling: Throttling) -> tuple[str, ...]:
        """Add how the machine was during a set of processes; return what that says against the set."""
        if load:
            self.loads.append(load)
        self.throttlings.append(throttling)
        return tuple(doubt.text for doubt in doubt_machine(load, throttling))

    def unsettled(self, references: Mapping[Pair, Pair]) -> set[Pair]:
        """Return the subjects of which a comparison is inconclusive."""
        pairs = set()
        for entry in self.series.values():
            reference = reference_of(entry, self.series, references)
            if entry.lost is None and reference is not None and reference is not entry:
                ratio = compare(entry, reference, same_within=self.rule.same_within, confidence=self.rule.confidence)
                if ratio is not None and ratio.comparison is Comparison.INCONCLUSIVE:
                    pairs.add(entry.pair)
        return pairs

    def rows(self, about: Mapping[Pair, About]) -> list[LatencyRow]:
        """Return the rows, subject by subject, batch by batch."""
        load = max(self.loads, key=lambda load: load.other_cores, default=None)
        conditions = Conditions(
            load=load,
            throttling=worst_throttling(self.throttlings),
            cores=min(cores(), quota_cores() or math.inf),
            same_within=self.rule.same_within,
            seconds_per_process=self.seconds / max(self.sets, 1),
        )
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
        own = network_note(subject)
        return own if reference.served else f"{own}, the reference's does not"
    if reference.served:
        return f"its ratio is to a model served at {reference.served.url.address}, whose time includes the network"
    return None


def network_note(subject: BenchSubject) -> str | None:
    """Return the sentence on a time that includes the network; None where it does not."""
    if subject.served is None:
        return None
    return f"served at {subject.served.url.address}: its time includes the network and that server"


def open_subject_worker(
    context: Context, subject: BenchSubject, model: ModelDescription, data: Stored, name: str, *, seconds: float = 0.0
) -> Worker:
    """Return a worker that may open a subject: with its interpreter, its threads, and the way to its server. One
    request to it may take `seconds` longer than those of any step. Raises ToolMissing."""
    runtime, served = subject.runtime, subject.served
    if reason := lacking(runtime):
        raise ToolMissing(f"{runtime.name} {reason}", fix="install it (transload doctor)")
    limits = context.limits(
        device=subject.device(context.device),
        loopback=runtime.served,
        host=served.url.host if served else None,
        compiles=runtime.compiles,
    )
    limits = replace(
        limits,
        threads=subject.session_settings.threads(context.request.bench.threads),
        spin=True,
        seconds=limits.seconds + seconds,
        answer_s=_answer_s(context, subject),
    )
    reads = (*model.reads, str(subject.stored.folder), str(data.folder))
    folder = context.folder / SCRATCH / name
    return context.executor.open_worker(name, limits, folder, reads, model.root, python=interpreter_of(runtime).path)


def subject_options(context: Context, subject: BenchSubject, model: ModelDescription, data: Stored) -> SubjectOptions:
    """Return how a worker opens a subject; of a served one the address is still to be said."""
    return SubjectOptions(
        runtime=subject.runtime.name,
        folder=str(subject.stored.folder),
        device=subject.device(context.device),
        threads=subject.session_settings.threads(context.request.bench.threads),
        feeds=str(data.folder),
        signature=model.signature,
        served=_served_signature(subject),
        answer_s=_answer_s(context, subject),
        settings=subject.session_settings.keywords,
    )


def _answer_s(context: Context, subject: BenchSubject) -> float | None:
    """Return the time that a model file has for its first answer; None of code, and of what a server holds."""
    if subject.source or subject.runtime.served:
        return None
    return context.call_limits(size_of(subject.stored.folder)).answer_s


def _served_signature(subject: BenchSubject) -> Signature | None:
    """Return the signature of a served model of which there is no artifact to read it from."""
    if subject.served:
        return subject.served.signature
    return subject.source.signature if subject.source and subject.runtime.served else None


def _worker_name(pair: Pair) -> str:
    return worker_name("bench", pair)


def worker_name(stage: str, pair: Pair) -> str:
    """Return the name of a subject's worker, and of its log."""
    return f"{stage}.{pair[0].replace(':', '-').replace('/', '-')}.{pair[1]}"
