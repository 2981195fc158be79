"""The load stage: each artifact in each runtime under each load, one after the other, each beside a model that
computes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from ...models.artifact import read_artifact
from ...models.errors import TransloadError
from ...models.probes.sizes import batches_within
from ...models.processors import core_count
from ...models.signature import Signature
from ...models.store import Stored
from ..plan.context import Context
from ..plan.loaded_model import ModelDescription
from ..plan.run_plan import log_of
from ..result.load_cases import LoadCase, LoadEngine, LoadScenario, check_load, parse_load
from ..result.schema import LoadRow
from ..workers.engine import SCRATCH
from ..workers.isolation import Worker
from .bench.machine_load import LoadMeter
from .bench.statistics import Load
from .bench_subject import BenchSubject, network_note, open_subject_worker, subject_options, worker_name
from .load.load_rows import LoadMeasurement, LoadTarget, failed_load_row, load_row, read_measurement, write_load
from .load.load_subject import LoadFacts, LoadOrder
from .load.loadgen_engine import missing_loadgen
from .servers import Servers, ServerUse

SUBJECT = "transload.pipeline.measure.load.load_subject:open_load_subject"
_HARNESS_S = 2.0  # of measuring the harness, at most: its median needs no more
_FILE = "requests.npz"


@dataclass(frozen=True)
class LoadResults:
    """Load rows, and the requests that they were made from."""

    rows: tuple[LoadRow, ...] = ()
    measured: tuple[tuple[LoadTarget, LoadMeasurement], ...] = ()
    notes: tuple[str, ...] = ()  # on cases that nothing here takes

    def write(self, folder: Path) -> None:
        """Keep every request in load.npz, where there are any."""
        if self.measured:
            write_load(folder / "load.npz", self.measured)


@dataclass(frozen=True)
class LoadStage:
    """Puts load on subjects, with the test set of `data`, which is that of `model`."""

    context: Context
    data: Stored
    servers: Servers
    model: ModelDescription
    _harness: dict[object, LoadMeasurement | None] = field(default_factory=dict)

    def measure(self, subjects: Sequence[BenchSubject]) -> LoadResults:
        """Put each load of the request on each subject that takes it. Raises BadRequest where a load asks too much."""
        request = self.context.request.bench
        cases = parse_load(request.load)
        check_load(cases, request.load_engines, request.load_seconds)
        rows: list[LoadRow] = []
        measured: list[tuple[LoadTarget, LoadMeasurement]] = []
        try:
            for subject in subjects if cases else ():
                for row, target, measurement in self._measure(subject, cases):
                    rows.append(row)
                    if measurement:
                        measured.append((target, measurement))
        finally:
            self.servers.stop_all()
        return LoadResults(tuple(rows), tuple(measured), untaken(cases, subjects))

    def _measure(
        self, subject: BenchSubject, cases: Sequence[LoadCase]
    ) -> Iterator[tuple[LoadRow, LoadTarget, LoadMeasurement | None]]:
        """Yield the row of each case and engine that the subject takes, with its requests. A worker that ends is
        started again for the next."""
        worker: Worker | None = None
        try:
            for target in self._targets(subject, cases):
                try:
                    worker = worker or self._open(subject)
                    measurement, load = self._ask(worker, subject, target)
                except TransloadError as error:
                    yield failed_load_row(target, error.what), target, None
                    if worker:
                        worker.close()
                    worker = None
                    continue
                harness = self._measure_harness(worker, subject, target)
                self._show(target)
                yield load_row(target, measurement, harness, load), target, measurement
        finally:
            if worker:
                worker.close()

    def _targets(self, subject: BenchSubject, cases: Sequence[LoadCase]) -> Iterator[LoadTarget]:
        request = self.context.request.bench
        server, device = self._server(subject), subject.device(self.context.device)
        for case in (case for case in cases if takes(subject, case)):
            for engine in request.load_engines:
                if engine is LoadEngine.TRANSLOAD or case.scenario.is_mlperf:
                    yield LoadTarget(
                        pair=subject.pair,
                        case=case,
                        engine=engine,
                        batch=self._batch(case),
                        device=device,
                        threads=subject.session_settings.threads(request.threads),
                        server=server.kind if server else None,
                        log=log_of(worker_name("load", subject.pair)),
                        note=network_note(subject),
                    )

    def _batch(self, case: LoadCase) -> int:
        """Return the samples of a request: of a query in multi stream all, offline the largest batch of the request,
        else the smallest; as the model takes them."""
        wanted = self.context.request.bench.batches
        if case.scenario is LoadScenario.MULTI_STREAM and case.concurrency:
            size = case.concurrency
        else:
            size = max(wanted) if case.scenario is LoadScenario.OFFLINE else min(wanted)
        return batches_within(self.model.signature.inputs, [size])[0]

    def _open(self, subject: BenchSubject) -> Worker:
        name, seconds = worker_name("load", subject.pair), self.context.request.bench.load_seconds
        worker = open_subject_worker(self.context, subject, self.model, self.data, name, seconds=10 * seconds)
        try:
            worker.open(SUBJECT, subject_options(self.context, subject, self.model, self.data).to_json())
        except BaseException:
            worker.close()
            raise
        return worker

    def _ask(self, worker: Worker, subject: BenchSubject, target: LoadTarget) -> tuple[LoadMeasurement, Load | None]:
        """Measure one case."""
        case = target.case
        if case.scenario is LoadScenario.MULTI_STREAM and target.batch != case.concurrency:
            fix = f"use --load multi-stream:{target.batch}"
            raise TransloadError(f"the model takes no query of {case.concurrency} samples in one call", fix=fix)
        server = self._server(subject)
        services, name = (server.addresses(), server.model) if server else ({}, None)
        order = self._order(target, services, name, self.context.request.bench.load_seconds)
        meter = LoadMeter.start([worker.pid, *self.servers.pids], core_count())
        measurement = self._measured(worker, subject, order)
        return measurement, meter.read()

    def _measure_harness(self, worker: Worker, subject: BenchSubject, target: LoadTarget) -> LoadMeasurement | None:
        """Measure the same load on a model that computes nothing, once for all subjects that are asked alike."""
        signature = self._signature(subject)
        key = (subject.runtime.name, str(signature.to_json()), target.case, target.engine, target.batch)
        if key not in self._harness:
            services = self.servers.noop_addresses(signature) if subject.runtime.served else {}
            seconds = min(_HARNESS_S, self.context.request.bench.load_seconds)
            order = self._order(target, services, self.context.request.tfserving_model, seconds, noop=True)
            try:
                self._harness[key] = self._measured(worker, subject, order)
            except TransloadError:
                self._harness[key] = None
        return self._harness[key]

    def _order(
        self, target: LoadTarget, services: dict[str, str], model: str | None, seconds: float, *, noop: bool = False
    ) -> LoadOrder:
        case = target.case
        return LoadOrder(
            scenario=case.scenario.value,
            batch=target.batch,
            seconds=seconds,
            seed=self.context.request.bench.seed,
            file=_FILE,
            engine=target.engine.value,
            concurrency=case.concurrency,
            rate_per_s=case.rate_per_s,
            bound_s=case.bound_s,
            services=services,
            model=model,
            noop=noop,
        )

    def _measured(self, worker: Worker, subject: BenchSubject, order: LoadOrder) -> LoadMeasurement:
        facts = LoadFacts.from_json(worker.ask("measure", **order.to_json()))
        folder = self.context.folder / SCRATCH / worker_name("load", subject.pair)
        return read_measurement(folder / _FILE, facts)

    def _server(self, subject: BenchSubject) -> ServerUse | None:
        device = subject.device(self.context.device)
        return self.servers.use(
            subject.stored, device, subject.runtime, subject.served, subject.source, settings=subject.tuned.settings
        )

    def _signature(self, subject: BenchSubject) -> Signature:
        """Return the signature that the model has in its runtime."""
        if subject.served:
            return subject.served.signature
        return subject.source.signature if subject.source else read_artifact(subject.stored.folder).signature

    def _show(self, target: LoadTarget) -> None:
        self.context.progress.step(f"{target.pair[0]} in {target.pair[1]} under {target.case.text}")


def measure_load(
    context: Context, data: Stored, servers: Servers, model: ModelDescription, subjects: Sequence[BenchSubject]
) -> LoadResults:
    """Put the loads of the request on these subjects; where it names none, nothing is done."""
    if not context.request.bench.load:
        return LoadResults()
    with context.progress.stage("load") as stage:
        results = LoadStage(context, data, servers, model).measure(subjects)
        counts = f"{sum(row.requests for row in results.rows)} requests in {len(results.rows)} rows"
        stage.note = "; ".join([counts, *results.notes])
    return results


def require_engines(engines: Sequence[LoadEngine]) -> None:
    """Check before anything is measured that what sends the load is installed. Raises ToolMissing."""
    if LoadEngine.LOADGEN in engines and find_spec("mlperf_loadgen") is None:
        raise missing_loadgen()


def takes(subject: BenchSubject, case: LoadCase) -> bool:
    """Return whether a case can be put on a subject: several connections need a server."""
    return subject.runtime.served or not case.scenario.needs_server


def untaken(cases: Sequence[LoadCase], subjects: Sequence[BenchSubject]) -> tuple[str, ...]:
    """Return a sentence for the cases that none of these subjects takes."""
    texts = [case.text for case in cases if not any(takes(subject, case) for subject in subjects)]
    return (f"nothing here takes {', '.join(texts)}, over several connections to a server",) if texts else ()
