"""A run, from request to verdict: train, capture, convert, validate, bench, gate, report."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ... import __version__
from ...converters.steps import missing
from ...models.errors import BadRequest, ToolMissing
from ...models.store import Store, disk_errors
from ...serving.runtimes.runtime_table import RUNTIMES
from ...serving.server.tfserving_launch import find_tfserving
from ..context import Context
from ..intake import prepare
from ..intake.prepare import Begun, Described, Prepared
from ..plan.router import TargetResult, require_routes, routes_to
from ..plan.routes import steps_for
from ..progress import Progress
from ..request import GateSection, RunRequest
from ..result.environment import describe_environment
from ..result.gate import GateRules, gate, verdict_of
from ..result.rows import artifact_row
from ..result.run_folder import link_artifacts, links, new_run_folder
from ..result.schema import SCHEMA, RunResult, to_json
from ..settings import Places
from ..stages.bench import Measured, measure_all
from ..stages.convert import convert_all, converting, expect_frameworks
from ..stages.servers import Servers
from ..stages.validate import Validated, validate_all
from ..workers.devices import resolve_device
from ..workers.engine import LocalExecutor
from ..workers.worker_slots import WorkerSlots


@dataclass(frozen=True)
class Outcome:
    """A finished run."""

    result: RunResult
    folder: Path


def run(
    request: RunRequest,
    places: Places | None = None,
    progress: Progress | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Outcome:
    """Do everything that the request asks, and leave runs/<id>/.

    What a former run finished is found in the store and not done again.

    Raises TransloadError where the request cannot be begun: bad input, no data, a training that fails. What happens
    to a single target or runtime is in the result.
    """
    places = places or Places()
    check_tools(request)
    started_at, started = now(), time.monotonic()
    device = resolve_device(request.device)
    store = Store(places.store)
    folder = new_run_folder(places.runs, Path(request.model.recipe.removeprefix("zoo:")).stem, started_at)
    executor = LocalExecutor(store, folder, WorkerSlots(places.jobs))
    context = Context(request, executor, folder, progress or Progress(), device, places.jobs)
    try:
        with disk_errors(folder):
            return _run(context, started_at, started)
    finally:
        context.executor.close()
        shutil.rmtree(folder / "tmp", ignore_errors=True)
        if not any((folder / "logs").iterdir()):
            shutil.rmtree(folder)  # it never began: there is nothing in it to read


def check_tools(request: RunRequest) -> None:
    """Refuse at once what cannot end well here: a target without an open route, a runtime that is not installed,
    weights or a server that were named and are not there.

    Raises BadRequest.
    """
    steps = steps_for(request.convert.requested)
    for target in request.targets:
        if not routes_to(target, None, steps):
            raise BadRequest(f"no route leads to {target}", fix="choose other targets with --to (`transload formats`)")
    require_routes(request.targets, None, steps)
    prepare.given_weights(request)
    formats = {target.format for target in request.targets}
    wanted = {*request.validate_.runtimes, *(request.bench.runtimes if request.bench.enabled else ())}
    for name in sorted(wanted):
        taken = formats & set(RUNTIMES[name].takes)
        if taken and RUNTIMES[name].served:
            find_tfserving(request.tfserving_url, os.environ)  # a server that was named and is not there
        if taken and (lacking := missing(RUNTIMES[name].requires)):
            mend = "install it (`transload doctor` says how), or leave it out with --runtime"
            raise ToolMissing(f"the runtime {name} {lacking}", fix=mend)


def _run(context: Context, started_at: datetime, started: float) -> Outcome:
    recipe = prepare.describe(context)
    prepared = _prepare(context, recipe)
    with context.progress.stage("convert", len(context.request.targets)) as stage:
        made = convert_all(context, prepared)
        link_artifacts(context.folder, prepared.source, made)
        stage.note = _count(made)
    with Servers(context) as servers:
        with context.progress.stage("validate") as stage:
            validated = validate_all(context, prepared, made, servers)
            stage.note = f"{len({(row.artifact, row.runtime) for row in validated.rows})} artifact-runtime pairs"
        context.executor.close()  # what is measured has the memory to itself
        measured = Measured()
        if context.request.bench.enabled:
            with context.progress.stage("bench") as stage:
                measured = measure_all(context, prepared, made, servers)
                counted = f"{sum(row.samples for row in measured.rows)} samples in {len(measured.rows)} rows"
                stage.note = f"{counted}; {measured.note}" if measured.note else counted
    result = _result(context, made, validated, measured, started_at=started_at, started=started)
    with context.progress.stage("report"):
        write_run(context.folder, result, measured)
    return Outcome(result, context.folder)


def _prepare(context: Context, recipe: Described) -> Prepared:
    with context.progress.stage("train") as stage:
        source = prepare.obtain_source(context, recipe)
        how = "found" if source.cached else "done"
        score = f", test {recipe.metric} {source.facts['test']:.4f}" if "test" in source.facts else ""
        stage.note = f"{recipe.name} {how}{score}"
    expect_frameworks(context, None)
    with context.progress.stage("reference") as stage:
        data = prepare.prepare_data(context, recipe)
        begun = Begun(model=recipe, source=source, data=data)
        with converting(context, begun):
            reference = prepare.answer_reference(context, recipe, source, data)
        stage.note = f"{data.facts['test']} test samples answered by PyTorch"
    return Prepared(**vars(begun), reference=reference)


def _count(made: list[TargetResult]) -> str:
    there = sum(each.stored is not None for each in made)
    return f"{there} of {len(made)} targets made"


def _result(
    context: Context,
    made: list[TargetResult],
    validated: Validated,
    measured: Measured,
    *,
    started_at: datetime,
    started: float,
) -> RunResult:
    artifacts = tuple(artifact_row(each, validated.rows) for each in made)
    rows = gate(
        _rules(context.request.gate, context),
        artifacts,
        validated.rows,
        measured.rows,
        failures=validated.failures,
        reasons=validated.reasons,
    )
    verdict, status = verdict_of(rows, artifacts)
    return RunResult(
        schema=SCHEMA,
        id=context.folder.name,
        transload_version=__version__,
        verdict=verdict,
        exit_code=int(status),
        started_at=started_at.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 3),
        environment=describe_environment(),
        artifacts=artifacts,
        drift=validated.rows,
        latency=measured.rows,
        gate=rows,
    )


def _rules(section: GateSection, context: Context) -> GateRules:
    asked = context.request
    wanted = {*asked.validate_.runtimes, *(asked.bench.runtimes if asked.bench.enabled else ())}
    return GateRules(**section.model_dump(), device=context.device, runtimes=tuple(sorted(wanted)))


def write_run(folder: Path, result: RunResult, measured: Measured) -> None:
    """run.json first: the reports are made from it and can be made again."""
    from ..bench.latency_rows import write_samples
    from ..report.html_page import write_html
    from ..report.markdown import write_markdown

    _write_whole(folder / "run.json", to_json(result))
    if measured.series:
        write_samples(folder / "latency.npz", measured.series)
    logs, repeat = links(folder, result)
    write_html(result, measured.samples, folder / "report.html", logs=logs, repeat=repeat)
    write_markdown(result, folder / "report.md", logs=logs)


def _write_whole(path: Path, data: bytes) -> None:
    half = path.with_name(f".{path.name}.half")
    half.write_bytes(data)
    half.replace(path)
