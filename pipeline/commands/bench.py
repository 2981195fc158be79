"""The command `bench`: measure the latency of artifacts, all of them in the same rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...models.data_checks.data_findings import DataUse
from ...models.errors import BadRequest, Exit
from ...models.formats import Precision
from ...models.job_records import DataFacts
from ...models.signature import TensorSpec
from ...models.store import Stored
from ..measure.bench.latency_rows import write_samples
from ..measure.bench_stage import Bench, Measurements
from ..measure.bench_subject import BenchSubject, reference_subjects
from ..measure.load_stage import measure_load, require_engines, untaken
from ..measure.servers import Servers
from ..measure.tuned_bench import SettingsReference, SettingsVerifier, measure_tuned
from ..options.request import RunRequest
from ..plan.context import Context, LocalSettings
from ..plan.data_step import data_argument
from ..plan.loaded_model import LoadedModel
from ..plan.metric_choice import TaskChoice, choose_metric
from ..plan.model_argument import ModelRequest
from ..plan.run_inputs import ModelWithData, RunInputs, load_model, record_reference, resolve_data
from ..plan.served_model import fit_served
from ..plan.source_python import require_torch_there, with_source_python
from ..progress.progress import Progress
from ..result.gate import answered
from ..result.load_cases import parse_load
from ..result.schema import BoundRow, LatencyRow, LoadRow, TuningRow, Verdict
from .candidates import (
    check_candidate,
    check_operators,
    check_same_inputs,
    fitting_runtimes,
    labels_of,
    load_candidate,
)
from .workspace import close_workers, document_of, new_run_context, report_disk_full, write_document


@dataclass(frozen=True)
class BenchResult:
    """The latencies of `bench`; every sample lies in latency.npz in `folder`, every request of a load in load.npz."""

    latency: tuple[LatencyRow, ...]
    folder: Path
    note: str | None = None  # which batch sizes were measured in place of the requested ones, and why
    doubts: tuple[str, ...] = ()  # that all of it is under
    load: tuple[LoadRow, ...] = ()
    tuning: tuple[TuningRow, ...] = ()  # what a search tried
    bounds: tuple[BoundRow, ...] = ()
    recorded_source: Mapping[str, str] | None = None  # where a record named the model

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """Verdict and exit status: nothing can be failed but the measuring itself, which exits with 4."""
        silent = [row.server for row in self.latency if not answered(row)]
        silent += [row.server for row in self.load if not row.requests]
        if not silent:
            return Verdict.PASS, Exit.PASS
        return Verdict.INCONCLUSIVE if set(silent) == {"remote"} else Verdict.FAIL, Exit.TOOLCHAIN

    @property
    def document(self) -> dict[str, Any]:
        """bench.json."""
        rows = document_of(
            self.decided, latency=self.latency, load=self.load, tuning=self.tuning, bounds=self.bounds,
            doubts=self.doubts,
        )  # fmt: skip
        return {**rows, "recorded_source": self.recorded_source}

    def _repr_html_(self) -> str:
        from ..show.notebook_html import render_latencies

        notes = [*([self.note] if self.note else []), *self.doubts]
        return render_latencies(self.decided[0], self.latency, notes, self.folder)


def bench(
    request: RunRequest,
    candidates: Sequence[str],
    local: LocalSettings,
    progress: Progress,
    *,
    against: ModelRequest | None = None,
    inputs: Sequence[TensorSpec] = (),
    data: str | None = None,
) -> BenchResult:
    """Measure every candidate in every wanted runtime that takes it.
    Ratios are relative to the model `against`, else to the first candidate in its first runtime.
    Leaves a folder with logs, a script per step, bench.json and latency.npz.
    Raises TransloadError where a model cannot be loaded, or the candidates take different inputs."""
    for text in candidates:
        check_candidate(text, request.bench.runtimes)
    require_engines(request.bench.load_engines)
    if against:
        against = with_source_python(request, against, progress)
        require_torch_there(against, "bench")
    context = new_run_context(request, "bench", local, progress)
    with report_disk_full(context.folder), close_workers(context):
        argument = data_argument(context, data)
        with progress.stage("model"):
            loaded = [load_candidate(context, text, inputs) for text in candidates]
            reference = load_model(context, replace(against, data=data)) if against else None
        first = reference or next((model for model in loaded if not model.served), loaded[0])
        loaded = [fit_served(model, first.model.signature) for model in loaded]
        for text, candidate in zip(candidates, loaded, strict=True):
            check_operators(text, candidate, request.bench.runtimes)
            check_same_inputs(text, candidate.model.signature, first.model.name, first.model.signature)
        samples = resolve_data(context, first, argument, DataUse.TIMES)
        named = dict(zip(labels_of(candidates, loaded), loaded, strict=True))
        places = dict(zip(named, candidates, strict=True))
        wanted = _wanted(reference, named, places, request.bench.runtimes)
        if refused := untaken(parse_load(request.bench.load), wanted):
            fix = "name a served runtime, as in --runtime oip-http, or leave that load out"
            raise BadRequest(refused[0], fix=fix)
        with Servers(context) as servers:
            with progress.stage("bench") as stage:
                verifier = SettingsVerifier(context, servers, _References(context, samples, reference, named))
                measured = measure_tuned(Bench(context, samples, servers, first.model), wanted, verifier)
                stage.note = measured.note or ""
            loads = measure_load(context, samples, servers, first.model, measured.subjects)
        doubts = (*context.doubts, *_doubts_of_samples(samples, measured.rows))
        result = BenchResult(
            measured.rows, context.folder, measured.note, doubts, loads.rows, measured.tuning, measured.bounds,
            against.recorded_source if against else None,
        )  # fmt: skip
        loads.write(context.folder)
        _write(result, measured)
    return result


def _write(result: BenchResult, measured: Measurements) -> None:
    """Write bench.json, and the samples where there are any."""
    if measured.series:
        write_samples(result.folder / "latency.npz", measured.series)
    write_document(result.folder / "bench.json", result.document)


def _doubts_of_samples(samples: Stored, rows: Sequence[LatencyRow]) -> tuple[str, ...]:
    """Say where random samples may be why a model gave no answer."""
    if not DataFacts.from_json(samples.facts).random or all(map(answered, rows)):
        return ()
    return ("the samples are random: where the model takes other numbers or sizes, give --data FILE.npz",)


@dataclass(frozen=True)
class _References:
    """The recorded answers that settings are checked against: of the model that ratios are held against, where it was
    named, else an artifact's own with the runtime's defaults."""

    context: Context
    data: Stored
    reference: LoadedModel | None
    candidates: Mapping[str, LoadedModel]

    def __call__(self, subject: BenchSubject) -> SettingsReference:
        """Record them, unless the store holds them. Raises TransloadError where that fails."""
        own = self.reference is None or subject.target is None
        model = self.reference or self.candidates[subject.pair[0]]
        runtime = subject.runtime.name if own else model.runtime
        inputs = ModelWithData(model=model.model, source=model.stored, data=self.data, start=model.start)
        recorded = record_reference(self.context, inputs, runtime)
        metric = TaskChoice() if own else choose_metric(self.context, model.model, self.data)
        precision = Precision.FP32 if own or subject.target is None else subject.target.precision
        return SettingsReference(RunInputs(**vars(inputs), reference=recorded, metric=metric), precision)


def _wanted(
    reference: LoadedModel | None,
    candidates: Mapping[str, LoadedModel],
    places: Mapping[str, str],
    runtimes: Sequence[str],
) -> list[BenchSubject]:
    """Return what is measured: the reference first, as it is asked beside the others, then every candidate in its
    runtimes."""
    artifacts = [
        BenchSubject(
            (label, runtime.name), model.stored, runtime, model.served, target=model.start,
            model=None if model.served else Path(places[label]),
        )
        for label, model in candidates.items()
        for runtime in fitting_runtimes(model)
        if model.served or runtime.name in runtimes
    ]  # fmt: skip
    return [*(reference_subjects(reference, artifacts) if reference else ()), *artifacts]
