"""What the commands `validate` and `bench` do, and what they share with `convert` (conversion.py): the stages of a run,
one at a time, on a model that is given.

Each leaves a folder with logs, a script per step, and a JSON document of the parts of run.json that it has.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ... import __version__
from ...models.errors import BadRequest, Exit
from ...models.formats import Target
from ...models.signature import Signature, TensorSpec
from ...models.store import Store
from ...serving.runtimes.runtime_table import RUNTIMES, Runtime, runtimes_for
from ..bench.latency_rows import write_samples
from ..context import Context
from ..intake.model import (
    Asked,
    Taken,
    candidate_asked,
    kind_of,
    prepare_given,
    require_runtime,
    start_of,
    take_data,
    take_model,
    without_inputs_of,
)
from ..plan.router import TargetResult
from ..plan.routes import Route
from ..progress import Progress
from ..request import RunRequest
from ..result.gate import GateRules, answered, gate, verdict_of
from ..result.rows import artifact_row
from ..result.run_folder import new_run_folder
from ..result.schema import SCHEMA, DriftRow, GateRow, LatencyRow, Verdict
from ..settings import Places
from ..stages.bench import Measured, Wanted, measure
from ..stages.servers import Servers
from ..stages.validate import validate_all
from ..workers.devices import resolve_device
from ..workers.engine import LocalExecutor
from ..workers.worker_slots import WorkerSlots


@dataclass(frozen=True)
class Validated:
    """What `validate` found."""

    drift: tuple[DriftRow, ...]
    gate: tuple[GateRow, ...]
    decided: tuple[Verdict, Exit]
    folder: Path

    @property
    def document(self) -> dict[str, Any]:
        """validate.json."""
        return document(self.decided, drift=(tuple[DriftRow, ...], self.drift), gate=(tuple[GateRow, ...], self.gate))


@dataclass(frozen=True)
class Benched:
    """What `bench` measured; the samples lie in latency.npz in `folder`."""

    latency: tuple[LatencyRow, ...]
    folder: Path
    note: str | None = None  # which batch sizes were measured in place of those asked for, and why

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """There is nothing to pass: 0 where everything was measured, 4 where something gave no answer."""
        whole = all(answered(row) for row in self.latency)
        return (Verdict.PASS, Exit.PASS) if whole else (Verdict.FAIL, Exit.TOOLCHAIN)

    @property
    def document(self) -> dict[str, Any]:
        """bench.json."""
        return document(self.decided, latency=(tuple[LatencyRow, ...], self.latency))


def validate(request: RunRequest, candidate: str, against: Asked, places: Places, progress: Progress) -> Validated:
    """The candidate's answers held against the model's, in every wanted runtime that takes it.

    Raises TransloadError where one of the two cannot be taken, or they are not of one model.
    """
    wanted = request.validate_.runtimes
    _check_runtimes(_candidate_target(candidate), wanted)
    kind_of(against.text)
    context = _own_context(request, f"validate-{Path(candidate).stem}", places, progress)
    with place_for(context.folder), scratch(context):
        taken = take_model(context, candidate_asked(candidate, against.inputs))
        _check_fitting(candidate, taken, wanted)
        prepared = prepare_given(context, without_inputs_of(candidate, against))
        _check_same_inputs(candidate, taken.model.signature, against.text, prepared.model.signature)
        made = [_as_made(taken)]
        with Servers(context) as servers, progress.stage("validate"):
            found = validate_all(context, prepared, made, servers)
        row = artifact_row(made[0], found.rows)
        rules = GateRules(device=context.device, runtimes=tuple(sorted(set(wanted))))
        rows = gate(rules, [row], found.rows, (), failures=found.failures, reasons=found.reasons)
        done = Validated(found.rows, rows, verdict_of(rows, [row]), context.folder)
        write(context.folder / "validate.json", done.document)
    return done


def bench(
    request: RunRequest,
    candidates: Sequence[str],
    places: Places,
    progress: Progress,
    *,
    against: Asked | None = None,
    inputs: Sequence[TensorSpec] = (),
    data: Path | None = None,
) -> Benched:
    """Latency of every candidate in every wanted runtime that takes it, all of them in the same rounds. Ratios are held
    against the model `against`, else against the first candidate in its first runtime.

    Raises TransloadError where something named cannot be taken, or the candidates take other inputs.
    """
    for text in candidates:
        _check_runtimes(_candidate_target(text), request.bench.runtimes)
    context = _own_context(request, "bench", places, progress)
    with place_for(context.folder), scratch(context):
        with progress.stage("model"):
            taken = [take_model(context, candidate_asked(text, inputs)) for text in candidates]
            reference = take_model(context, against) if against else None
        first = reference or taken[0]
        for text, each in zip(candidates, taken, strict=True):
            _check_fitting(text, each, request.bench.runtimes)
            _check_same_inputs(text, each.model.signature, first.model.name, first.model.signature)
        samples = take_data(context, first, data)
        wanted = _wanted(reference, _labelled(candidates, taken), request.bench.runtimes)
        with Servers(context) as servers, progress.stage("bench") as stage:
            measured = measure(context, samples, wanted, servers, first.model)
            stage.note = measured.note or ""
        done = Benched(measured.rows, context.folder, measured.note)
        _keep(measured, done)
    return done


def _candidate_target(text: str) -> Target:
    """What an artifact, in a folder or as a file, holds.

    Raises BadRequest where it is a model that is still code.
    """
    target = start_of(text)
    if target is None:
        raise BadRequest(
            f"{text} is a model and no artifact", fix=f"convert it first: transload convert {text} --to onnx --out DIR"
        )
    return target


def new_context(
    request: RunRequest, folder: Path, places: Places, progress: Progress, slots: WorkerSlots | None = None
) -> Context:
    """What the stages of a command share. `slots`: those of several models at once."""
    device, slots = resolve_device(request.device), slots or WorkerSlots(places.jobs)
    executor = LocalExecutor(Store(places.store), folder, slots)
    slots.on_stop(executor.stop)
    return Context(request, executor, folder, progress, device, places.jobs)


def _own_context(request: RunRequest, name: str, places: Places, progress: Progress) -> Context:
    """A context with a folder of its own, for a command that makes nothing to keep."""
    folder = new_run_folder(places.runs, name, datetime.now(UTC))
    return new_context(request, folder, places, progress)


@contextmanager
def place_for(folder: Path) -> Iterator[None]:
    """A folder of results whose disk is full, as a sentence; the store speaks for itself."""
    try:
        yield
    except OSError as error:  # copytree gathers what it met, and keeps the words only
        if error.errno in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in str(error):
            raise BadRequest(
                f"the disk under {folder} is full", fix="free some space, or name another folder with --out"
            ) from error
        raise


@contextmanager
def scratch(context: Context) -> Iterator[None]:
    """What workers left in the folder's tmp is gone at the end, and so is what was loaded for them."""
    try:
        yield
    finally:
        context.executor.close()
        shutil.rmtree(context.folder / "tmp", ignore_errors=True)


def _as_made(taken: Taken) -> TargetResult:
    if taken.start is None:
        raise ValueError(f"{taken.model.name} is a source")
    return TargetResult(taken.start, taken.stored, Route(()), (), 0.0, ())


def _check_runtimes(target: Target, wanted: Sequence[str]) -> None:
    """Refuse runtimes that were asked for by name, where none takes such an artifact, or one is not installed."""
    if tuple(wanted) == tuple(RUNTIMES):
        return
    takes = [runtime.name for runtime in RUNTIMES.values() if target.format in runtime.takes]
    fitting = [name for name in wanted if name in takes]
    if not fitting:
        raise BadRequest(
            f"none of the runtimes {', '.join(wanted)} takes {target.format}", fix=f"use {', '.join(takes)}"
        )
    for name in fitting:
        require_runtime(name)


def _check_fitting(text: str, taken: Taken, wanted: Sequence[str]) -> None:
    """Refuse runtimes of a TFLite file that are not for it, or not here: only now are its operators known."""
    takes = [runtime.name for runtime in _fitting(taken)]
    flex = ", ".join(taken.stored.facts.get("flex", ()))
    if not set(wanted).intersection(takes):
        holds = f"needs TensorFlow's Flex delegate for {flex}" if flex else "holds no operator of TensorFlow's"
        raise BadRequest(f"{text} {holds}, so {', '.join(wanted)} is not for it", fix=f"use {', '.join(takes)}")
    for name in takes if flex else ():
        require_runtime(name)


def _fitting(taken: Taken) -> tuple[Runtime, ...]:
    """The runtimes that take a candidate."""
    return runtimes_for(taken.start.format, taken.stored.facts.get("flex", ())) if taken.start else ()


def _check_same_inputs(candidate: str, ours: Signature, model: str, theirs: Signature) -> None:
    """Two models that take different inputs cannot be asked the same question. Raises BadRequest."""
    if [_plain(spec) for spec in ours.inputs] != [_plain(spec) for spec in theirs.inputs]:
        raise BadRequest(
            f"{candidate} takes {', '.join(map(str, ours.inputs))}, and {model} takes "
            f"{', '.join(map(str, theirs.inputs))}",
            fix="name the model that the candidate was made from",
        )


def _plain(spec: Any) -> tuple[Any, ...]:
    """A spec without the names of its axes."""
    return spec.name, spec.dtype, tuple(axis if isinstance(axis, int) else None for axis in spec.shape)


def _labelled(candidates: Sequence[str], taken: Sequence[Taken]) -> dict[str, Taken]:
    """The candidates under names that differ: the target, else the path, else the path with a number."""
    found: dict[str, Taken] = {}
    targets = [str(each.start) for each in taken]
    for text, each in zip(candidates, taken, strict=True):
        name = str(each.start) if targets.count(str(each.start)) == 1 else text
        found[name if name not in found else f"{name}#{len(found) + 1}"] = each
    return found


def _wanted(reference: Taken | None, taken: Mapping[str, Taken], runtimes: Sequence[str]) -> list[Wanted]:
    """What is measured; the reference first."""
    wanted: list[Wanted] = []
    if reference:
        wanted.append((("source", reference.runtime), reference.stored, RUNTIMES[reference.runtime]))
    for name, each in taken.items():
        fitting = [one for one in _fitting(each) if one.name in runtimes]
        wanted += [((name, runtime.name), each.stored, runtime) for runtime in fitting]
    return wanted


def _keep(measured: Measured, done: Benched) -> None:
    if measured.series:
        write_samples(done.folder / "latency.npz", measured.series)
    write(done.folder / "bench.json", done.document)


def document(decided: tuple[Verdict, Exit], **parts: tuple[Any, Any]) -> dict[str, Any]:
    """The parts of run.json that a command has."""
    verdict, status = decided
    head = {"schema": SCHEMA, "transload_version": __version__, "verdict": str(verdict), "exit_code": int(status)}
    return head | {name: TypeAdapter(kind).dump_python(rows, mode="json") for name, (kind, rows) in parts.items()}


def write(path: Path, document: Mapping[str, Any]) -> None:
    """A document as JSON, whole or not at all."""
    half = path.with_name(f".{path.name}.half")
    half.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    half.replace(path)
