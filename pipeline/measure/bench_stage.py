"""The bench stage: each artifact in each runtime, in a worker of its own, and all of them in the same rounds.

All of it is repeated in new processes until every comparison is settled, or the budget is spent (bench/)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from random import Random

from ...models.errors import TransloadError
from ...models.probes.sizes import batches_within
from ...models.processors import core_count
from ...models.signature import Array, TensorSpec, batch_axis, bounds_of
from ...models.store import Stored, size_of
from ...serving.runtimes.tuning_space import THREADS
from ..plan.context import Context
from ..plan.loaded_model import ModelDescription
from ..plan.run_plan import log_of
from ..result.schema import BoundRow, LatencyRow, TuningRow
from ..workers.isolation import Worker
from .bench.latency_rows import About
from .bench.machine_load import LoadMeter
from .bench.rounds import Pair, RoundsPlan, Series, WarmUp, empty_series, run_rounds
from .bench.throttling import ThrottleMeter
from .bench.tuned_settings import DEFAULTS
from .bench_subject import (
    SUBJECT,
    BenchSubject,
    network_note,
    open_subject_worker,
    reference_of_kind,
    subject_options,
    worker_name,
)
from .collected_series import DEFAULT_GOAL, BenchGoal, CollectedSeries, MeasureRule
from .servers import Servers, ServerUse


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

    def measure(self, subjects: Sequence[BenchSubject], goal: BenchGoal = DEFAULT_GOAL) -> Measurements:
        """Measure all subjects in turns, in one set of processes after the other. The ratio of a subject is to the
        one that the goal names, else to the first that is asked in the same way (see `reference_of_kind`)."""
        request, specs = self.context.request.bench, self.model.signature.inputs
        rule = MeasureRule.of(request, batches_within(specs, request.batches), goal)
        references = goal.references or {subject.pair: reference_of_kind(subject, subjects) for subject in subjects}
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
            self._measure_once(
                measuring, wanted, measuring.sets, rng, rule.seconds_left(measuring.sets, measuring.seconds)
            )
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
                ours = [*(worker.pid for worker in workers.values()), *self.servers.pids]
                meter = LoadMeter.start(ours, core_count())
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
        settings = subject.tuned.settings
        return self.servers.peak_rss_bytes(subject.stored, device, subject.runtime, subject.source, settings=settings)

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
            note=_network_note(subject, reference) or self._transfer_note(subject, reference),
            tuned=tuned,
        )

    def _transfer_note(self, subject: BenchSubject, reference: BenchSubject) -> str | None:
        """Return the sentence on a time, or on a ratio, that includes the way to another interpreter, or None."""
        if self.model.ref is None or self.model.ref.python is None or subject.served:
            return None
        if subject.target is None:
            return "it answers in another interpreter: its time includes the way there and back"
        way = "its ratio is to a model in another interpreter, whose time includes the way there and back"
        return None if reference.target else way

    def _log(self, pair: Pair) -> str | None:
        """Return the log of a subject; None where it had no worker."""
        log = log_of(_worker_name(pair))
        return log if (self.context.folder / log).is_file() else None


def _network_note(subject: BenchSubject, reference: BenchSubject) -> str | None:
    """Return the sentence on a time, or on a ratio, that includes the network; None where neither does."""
    if subject.served:
        own = network_note(subject)
        return own if reference.served else f"{own}, the reference's does not"
    if reference.served:
        return f"its ratio is to a model served at {reference.served.url.address}, whose time includes the network"
    return None


def _worker_name(pair: Pair) -> str:
    return worker_name("bench", pair)
