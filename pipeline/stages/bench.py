"""The bench stage: each artifact in each runtime, in a worker of its own, and all of them in the same rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from random import Random

from ...models.errors import ToolMissing, TransloadError
from ...models.probes.sizes import batches_within
from ...models.signature import Array, TensorSpec, batch_axis, bounds_of
from ...models.store import Stored
from ...serving.runtimes.runtime_table import RUNTIMES, Runtime
from ..bench.latency_rows import About, failed_row, latency_rows
from ..bench.machine_load import LoadMeter
from ..bench.rounds import Pair, RoundsPlan, Series, run_rounds
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
from .servers import Servers
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
        return {(*series.pair, series.batch): series.samples_s for series in self.series if series.rounds}


def measure_all(context: Context, inputs: RunInputs, results: Sequence[TargetResult], servers: Servers) -> Measurements:
    """Measure the latency of the source in PyTorch, eager, and of every artifact in every wanted runtime."""
    subjects = [BenchSubject(REFERENCE, inputs.source, RUNTIMES["torch"])]
    subjects += [
        BenchSubject((checked.name, checked.runtime.name), checked.stored, checked.runtime)
        for checked in pairs(results, context.request.bench.runtimes)
    ]
    return Bench(context, inputs.data, servers, inputs.model).measure(subjects)


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
        """Open every subject, then measure them in turns. Ratios are to the first subject."""
        request = self.context.request.bench
        specs = self.model.signature.inputs
        plan = RoundsPlan(batches=batches_within(specs, request.batches), rounds=request.rounds)
        rng = Random(request.seed)  # noqa: S311  (an order, not a secret)
        with self._open_all(subjects) as (workers, lost):
            meter = LoadMeter.start([*(worker.pid for worker in workers.values()), *self.servers.pids], cores())
            asks = {pair: worker.ask for pair, worker in workers.items()}
            series = run_rounds(asks, plan, rng=rng, progress=self._show_round)
            load = meter.read()
            about = {subject.pair: self._about(subject, workers.get(subject.pair), subjects[0]) for subject in subjects}
        rows = latency_rows(series, subjects[0].pair, about, load=load)
        rows += [failed_row(pair, batch, why, about[pair]) for pair, why in lost.items() for batch in plan.batches]
        order = {subject.pair: position for position, subject in enumerate(subjects)}
        rows.sort(key=lambda row: (order[row.artifact, row.runtime], row.batch))
        logged = tuple(replace(row, log=self._log((row.artifact, row.runtime))) for row in rows)
        return Measurements(logged, tuple(series), batches_note(request.batches, plan.batches, specs))

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
        server = self.servers.use(stored, device, runtime, served)
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
            served=served.signature if served else None,
        )
        worker.send_open(SUBJECT, options.to_json())
        return worker

    def _about(self, subject: BenchSubject, worker: Worker | None, reference: BenchSubject) -> About:
        stored, runtime, device = subject.stored, subject.runtime, subject.device(self.context.device)
        server = self.servers.use(stored, device, runtime, subject.served)
        peak = worker.peak_rss_bytes if worker else None
        if server:  # the memory is the server's
            peak = self.servers.peak_rss_bytes(stored, device, runtime) if server.kind != "remote" else None
        return About(
            device=device,
            threads=self.context.request.bench.threads,
            server=server.kind if server else None,
            peak_rss_bytes=peak,
            note=_network_note(subject, reference),
        )

    def _log(self, pair: Pair) -> str | None:
        """Return the log of a subject; None where it had no worker."""
        log = log_of(_worker_name(pair))
        return log if (self.context.folder / log).is_file() else None

    def _show_round(self, batch: int, number: int) -> None:
        self.context.progress.step(f"batch {batch}, round {number}")


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
