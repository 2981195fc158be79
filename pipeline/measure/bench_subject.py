"""What a bench measures: a model in a runtime, with its settings, and the worker that it is measured in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...models.errors import ToolMissing
from ...models.formats import Target
from ...models.signature import Signature
from ...models.store import Stored, size_of
from ...serving.runtimes.runtime_table import RUNTIMES, Runtime, runtimes_for
from ...serving.runtimes.tuning_space import RuntimeSettings
from ..plan.context import Context
from ..plan.loaded_model import LoadedModel, ModelDescription, ServedModel
from ..plan.router import TargetResult
from ..plan.run_inputs import RunInputs
from ..result.run_folder import ARTIFACTS
from ..workers.engine import SCRATCH
from ..workers.interpreters import interpreter_of, lacking
from ..workers.isolation import Worker
from .bench.rounds import Pair
from .bench.subject import SubjectOptions
from .bench.tuned_settings import DEFAULTS, TunedSettings
from .validate_stage import ANY_DEVICE, device_for, pairs, served_alike

REFERENCE: Pair = ("source", "torch")
SUBJECT = "transload.pipeline.measure.bench.subject:open_subject"


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


def subjects_of(context: Context, inputs: RunInputs, results: Sequence[TargetResult]) -> list[BenchSubject]:
    """Return what a run measures: the source in PyTorch, eager, and every artifact in every wanted runtime."""
    artifacts = [
        BenchSubject(
            (checked.name, checked.runtime.name), checked.stored, checked.runtime, target=checked.target,
            model=context.folder / ARTIFACTS / checked.target.slug if checked.target else None,
        )
        for checked in (
            *pairs(results, context.request.bench.runtimes), *served_alike(results, context.request.bench)
        )
    ]  # fmt: skip
    return [*reference_subjects(LoadedModel(inputs.model, inputs.source), artifacts), *artifacts]


def reference_subjects(reference: LoadedModel, artifacts: Iterable[BenchSubject]) -> list[BenchSubject]:
    """Return the reference in its own runtime, PyTorch of code, and behind each protocol that artifacts are served by
    and that takes it: what is served is held against what is served. A model served elsewhere has no such reference."""
    start = reference.start
    takers = {runtime.name for runtime in runtimes_for(start.format, reference.flex)} if start else set(RUNTIMES)
    served = (subject.runtime.name for subject in artifacts if subject.runtime.served and not subject.served)
    source = None if start else reference.model
    return [
        BenchSubject((REFERENCE[0], name), reference.stored, RUNTIMES[name], source=source, target=start)
        for name in dict.fromkeys([reference.runtime, *(name for name in served if name in takers)])
    ]


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
        model.within(limits),
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
    return context.call_limits(size_of(subject.stored.folder), compiles=subject.runtime.on_request).answer_s


def _served_signature(subject: BenchSubject) -> Signature | None:
    """Return the signature of a served model of which there is no artifact to read it from."""
    if subject.served:
        return subject.served.signature
    return subject.source.signature if subject.source and subject.runtime.served else None


def worker_name(stage: str, pair: Pair) -> str:
    """Return the name of a subject's worker, and of its log."""
    return f"{stage}.{pair[0].replace(':', '-').replace('/', '-')}.{pair[1]}"
