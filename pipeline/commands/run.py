"""The command `run`, from request to verdict: train, capture, convert, validate, bench, gate, report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from ... import __version__
from ...converters.steps import missing
from ...models.atomic_files import write_whole
from ...models.errors import BadRequest, ToolMissing, TransloadError
from ...models.formats import Precision
from ...models.store import disk_errors
from ...serving.runtimes.runtime_table import RUNTIMES
from ...serving.server.tfserving_launch import find_tfserving
from ..drift.metrics.outcomes import OUTCOMES, Outcomes, value_interval
from ..extras.provenance.build_facts import build_of_run
from ..extras.provenance.statement import statement_text
from ..measure.bench.rounds import Series
from ..measure.bench_stage import Bench, Measurements
from ..measure.bench_subject import BenchSubject, subjects_of
from ..measure.load_stage import measure_load, require_engines
from ..measure.run_measurements import RunMeasurements, measure_alone
from ..measure.servers import Servers
from ..measure.tuned_bench import SettingsReference, SettingsVerifier, measure_tuned
from ..measure.validate_stage import ValidationRows, served_alike, validate_all
from ..options.request import RunRequest
from ..plan.artifact_rows import artifact_row, copies_by_slug
from ..plan.code_model import weights_file
from ..plan.context import Context, LocalSettings
from ..plan.recorded_source import write_recorded_source
from ..plan.router import TargetResult
from ..plan.run_inputs import RunInputs, resolve_inputs
from ..plan.run_plan import Plan, plan_run
from ..plan.source_python import OURS
from ..progress.progress import Progress
from ..progress.timeline import stage_of
from ..result.check_table import join_check_rows
from ..result.compare.compare_limits import CompareLimits
from ..result.compare.release_metric import Release
from ..result.compare.run_outcomes import collect_outcomes, describe_source
from ..result.compare.side_by_side import SideBySide
from ..result.gate import GateRules, gate, verdict_of
from ..result.run_folder import ARTIFACTS, links, publish_artifacts
from ..result.schema import SCHEMA, LeftOutRow, RunResult, TimelineRow, printable_result, to_json
from ..show.card.card_facts import card_of
from ..show.card.card_folder import write_card
from ..show.card.model_facts import facts_of_model, model_name
from ..show.recommendation import ReleaseConstraint, recommend
from ..workers.interpreters import lacking
from ..workers.shared_workers import SharedWorkers
from .baseline import Baseline, judge_baseline, measure_beside, open_baseline, read_baseline
from .golden import write_golden
from .record import RecordResult, check_server, send_run
from .remeasure import OpenedArtifacts
from .stages.convert_targets import convert_ahead, convert_all, expect_frameworks, find_pieces
from .stages.locate_divergence import locate_failures
from .workspace import close_workers, new_run_context


@dataclass(frozen=True)
class FinishedRun:
    """The result of a run, its folder runs/<id>/, and its record in MLflow, or why there is none."""

    result: RunResult
    folder: Path
    record: RecordResult | TransloadError | None = None  # None: nobody asked for one


def run(
    request: RunRequest,
    local: LocalSettings,
    progress: Progress,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    *,
    workers: SharedWorkers | None = None,
) -> FinishedRun:
    """Train, convert, validate, measure and judge as the request says, and leave runs/<id>/.
    What a former run finished is found in the store and not done again. Models that are run at once share `workers`.
    Raises TransloadError where the run cannot begin: bad input, no data, a training that fails. The failure of a single
    target or runtime is in the result."""
    if request.model.python not in (None, OURS):
        raise BadRequest(
            f"run trains a recipe with our own torch, and model.python names {request.model.python}",
            fix="leave model.python out; or train there, and name the class with its weights: transload convert "
            f"FILE.py:CLASS --python {request.model.python} --weights FILE",
        )
    plan = plan_run(request)
    check_tools(request, plan)
    check_server(request.mlflow)
    baseline = read_baseline(request)
    started_at, started = now(), time.monotonic()
    name = Path(request.model.recipe.removeprefix("zoo:")).stem
    context = new_run_context(request, name, local, progress, started_at, workers=workers)
    with close_workers(context), disk_errors(context.folder):
        plan.write(context.folder)
        finished = _run(context, plan, baseline, started_at=started_at, started=started)
    return _with_record(finished, context)


def _with_record(finished: FinishedRun, context: Context) -> FinishedRun:
    """Send the run to MLflow, where that was requested. Its verdict stands, whatever becomes of that."""
    section = context.request.mlflow
    if section.uri is None:
        return finished
    with context.progress.stage("mlflow") as stage:
        try:
            sent = send_run(finished.folder, finished.result, section)
        except TransloadError as error:
            stage.note = "failed"
            return replace(finished, record=error)
        stage.note = f"run {sent.record.run_id} with {len(sent.record.models)} models"
    return replace(finished, record=sent)


def check_tools(request: RunRequest, plan: Plan) -> None:
    """Check before anything is done that the tools, the weights and the server of the request are there.
    Raises BadRequest for a target without an open route, for weights or a server that are not there, and ToolMissing
    for a runtime that is not installed."""
    for planned in plan.targets:
        if not planned.routes:
            fix = "choose other targets with --to (`transload formats`)"
            raise BadRequest(f"no route leads to {planned.target}", fix=fix)
    plan.require_routes()
    weights_file(request)
    require_engines(request.bench.load_engines)
    formats = {target.format for target in request.targets}
    for name in _wanted_runtimes(request):
        if not any(map(RUNTIMES[name].accepts, formats)):
            continue
        if RUNTIMES[name].tfserving:
            find_tfserving(request.tfserving_url, os.environ)
        runtime = RUNTIMES[name]
        # What default runs take is left out later where it lacks more than a library, such as another Python.
        if need := lacking(runtime) if runtime.on_request else missing(runtime.requires):
            fix = "install it (`transload doctor` says how), or leave it out with --runtime"
            raise ToolMissing(f"the runtime {name} {need}", fix=fix)


def _wanted_runtimes(request: RunRequest) -> tuple[str, ...]:
    """Return the runtimes of the validation and the bench, sorted."""
    bench = request.bench.runtimes if request.bench.enabled else ()
    return tuple(sorted({*request.validate_.runtimes, *bench}))


def _run(
    context: Context, plan: Plan, baseline: Baseline | None, *, started_at: datetime, started: float
) -> FinishedRun:
    expect, ahead = partial(expect_frameworks, context, plan), partial(convert_ahead, context, plan)
    inputs = resolve_inputs(context, None, when_loaded=expect, during_reference=ahead)
    targets = convert_all(context, plan, inputs)
    left_out = _left_out(targets) if "targets" not in context.request.convert.model_fields_set else ()
    dropped = {row.target for row in left_out}
    targets = [result for result in targets if result.name not in dropped]
    publish_artifacts(context.folder, inputs.source, copies_by_slug(targets))
    pieces = find_pieces(context, inputs, targets)
    with Servers(context) as servers:
        with context.progress.stage("validate") as stage:
            alike = served_alike(targets, context.request.bench)
            validated = validate_all(context, inputs, targets, servers, served=alike)
            stage.note = f"{len({(row.artifact, row.runtime) for row in validated.rows})} artifact-runtime pairs"
        located = locate_failures(context, inputs, targets, validated)
        former = open_baseline(context, baseline, targets)
        context.executor.close()  # what is measured has the memory to itself
    figures = RunMeasurements()
    if context.request.bench.enabled:
        limits = baseline.limits if baseline else None
        with context.progress.stage("bench") as stage:
            figures = measure_alone(context, measure_run, inputs, targets, former, limits)
            counts = f"{sum(row.samples for row in figures.measured.rows)} samples in {len(figures.measured.rows)} rows"
            stage.note = f"{counts}; {figures.measured.note}" if figures.measured.note else counts
    measured, loads, beside = figures.measured, figures.loads, figures.beside
    outcomes = collect_outcomes(inputs.reference, validated.outcomes)
    outcomes.write(context.folder / OUTCOMES)
    result = _result(context, targets, validated, figures, outcomes, started_at=started_at, started=started)
    smallest = tuple(piece.row for piece in pieces)
    loads.write(context.folder)
    timeline = _timeline_rows(context, started)
    result = replace(result, smallest=smallest, located=located, left_out=left_out, timeline=timeline, load=loads.rows)
    result = replace(result, source=describe_source(inputs.source, outcomes), doubts=(*result.doubts, *inputs.doubts))
    result = judge_baseline(Release(result, outcomes), baseline, beside[0])
    constraint = ReleaseConstraint(**context.request.release.model_dump())
    result = printable_result(to_json(replace(result, recommendation=recommend(result, constraint))))
    with context.progress.stage("report"):
        _write_cards(context, inputs, targets, result, validated)
        write_run(context.folder, result, measured, beside[1].series)
    return FinishedRun(result, context.folder)


def measure_run(
    context: Context,
    inputs: RunInputs,
    targets: Sequence[TargetResult],
    former: OpenedArtifacts,
    limits: CompareLimits | None,
) -> RunMeasurements:
    """Measure the latencies of a run, the loads that it names, and with `limits` its baseline's artifacts `former`."""
    if not (context.folder / ARTIFACTS).is_dir():  # on a node
        publish_artifacts(context.folder, inputs.source, copies_by_slug(targets))
    beside: tuple[SideBySide | None, Measurements] = None, Measurements()
    with Servers(context) as servers:
        bench = Bench(context, inputs.data, servers, inputs.model)
        measured = measure_tuned(bench, subjects_of(context, inputs, targets), _verifier(bench, inputs))
        loads = measure_load(context, inputs.data, servers, inputs.model, measured.subjects)
        if limits:
            beside = measure_beside(context, inputs, targets, servers, opened=former, limits=limits)
    return RunMeasurements(measured, loads, beside)


def _verifier(bench: Bench, inputs: RunInputs) -> SettingsVerifier:
    """Return what verifies settings against the run's own reference."""

    def reference_of(subject: BenchSubject) -> SettingsReference:
        return SettingsReference(inputs, subject.target.precision if subject.target else Precision.FP32)

    return SettingsVerifier(bench.context, bench.servers, reference_of)


def _write_cards(
    context: Context, inputs: RunInputs, targets: Sequence[TargetResult], result: RunResult, validated: ValidationRows
) -> None:
    """Write the card and the statement of each artifact into its folder."""
    recipe = context.request.model.recipe
    name, known = model_name(recipe, inputs.model), facts_of_model(recipe, inputs.model, inputs.data)
    build = build_of_run(context.request, inputs, known, run_id=result.id, started_at=result.started_at)
    for target, row in zip(targets, result.artifacts, strict=True):
        if target.stored:
            evidence = validated.evidence
            card = card_of(target, row, name=name, model=known, evidence=evidence, drift=validated.rows)
            state = partial(statement_text, card=card, build=build, gate=result.gate, signer=context.signer)
            folder = context.folder / ARTIFACTS / target.target.slug
            write_recorded_source(folder, folder, context.request, None, inputs)
            write_golden(context, inputs, target, card, folder)
            write_card(folder, card, state, digest=target.stored.digest)


def _left_out(targets: Sequence[TargetResult]) -> tuple[LeftOutRow, ...]:
    """Return the targets whose copies store nothing of their precision, with the reasons."""
    reduced = ((result, result.precision) for result in targets if result.precision)
    reasons = {result.name: precision.why_not_reduced(result.target) for result, precision in reduced}
    return tuple(LeftOutRow(name, reason) for name, reason in reasons.items() if reason)


def _timeline_rows(context: Context, started: float) -> tuple[TimelineRow, ...]:
    """Return the stages and the steps that were done so far, by their start. `started` is of the monotonic clock."""
    spans = sorted(
        (*context.progress.timeline.spans, *context.executor.timeline.spans),
        key=lambda span: (span.started_s, -span.seconds),
    )
    return tuple(
        TimelineRow(
            span.name,
            stage_of(span, spans),
            round(max(0.0, span.started_s - started), 3),
            round(span.seconds, 3),
            span.is_stage,
            span.doubts,
        )
        for span in spans
    )


def _result(
    context: Context,
    targets: list[TargetResult],
    validated: ValidationRows,
    figures: RunMeasurements,
    outcomes: Outcomes,
    *,
    started_at: datetime,
    started: float,
) -> RunResult:
    artifacts = tuple(artifact_row(target, validated.rows) for target in targets)
    request, measured = context.request, figures.measured
    rules = GateRules(
        **request.gate.model_dump(exclude={"no_worse"}), device=context.device, runtimes=_wanted_runtimes(request)
    )
    rows = gate(
        rules, artifacts, validated.rows, measured.rows, failures=validated.failures, reasons=validated.reasons,
        intervals={pair: value_interval(outcome) for pair, outcome in outcomes.outcomes.items()},
    )  # fmt: skip
    verdict, status = verdict_of(rows, artifacts)
    evidence = join_check_rows([validated.evidence, *(target.evidence for target in targets if target.stored is None)])
    return RunResult(
        schema=SCHEMA,
        id=context.folder.name,
        transload_version=__version__,
        verdict=verdict,
        exit_code=int(status),
        started_at=started_at.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 3),
        environment=figures.environment,
        artifacts=artifacts,
        drift=validated.rows,
        latency=measured.rows,
        tuning=measured.tuning,
        bounds=measured.bounds,
        gate=rows,
        doubts=context.doubts,
        **vars(evidence),
    )


def write_run(folder: Path, result: RunResult, measured: Measurements, beside: Sequence[Series] = ()) -> None:
    """Write run.json first, then the reports, which are made from it and can be made again. `beside`: the artifacts of
    the baseline and of this run, side by side."""
    from ..measure.bench.latency_rows import write_samples
    from ..show.html_page import write_html
    from ..show.markdown import write_markdown

    write_whole(folder / "run.json", to_json(result))
    if measured.series:
        write_samples(folder / "latency.npz", measured.series)
    if beside:
        write_samples(folder / "baseline-latency.npz", beside)
    logs, repeat = links(folder, result)
    page = folder / "report.html"
    write_html(result, measured.samples, page, warm_ups=measured.warm_ups, logs=logs, repeat=repeat)
    write_markdown(result, folder / "report.md", logs=logs)
