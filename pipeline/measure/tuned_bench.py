"""The bench with the settings of each runtime: searched first (`tune`), or read from beside each artifact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ...models.errors import DiskFull, TransloadError
from ...models.formats import Precision
from ...models.probes.sizes import batches_within
from ...serving.runtimes.runtime_table import RUNTIMES, Runtime
from ...serving.runtimes.tuning_space import settings_text
from ..drift.sessions import runtime_for
from ..plan.context import Context
from ..plan.run_inputs import RunInputs
from ..result.schema import BoundRow, TuningRow, Verdict
from .bench.rounds import Pair
from .bench.tuned_settings import DEFAULTS, keep_settings, place_of, tuned_settings
from .bench_stage import Bench, Measurements
from .bench_subject import BenchSubject
from .servers import Servers
from .tuning import Tuner, in_bound_of
from .validate_stage import CheckedArtifact, check_settings

_ORDER = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)


@dataclass(frozen=True)
class SettingsReference:
    """What a subject's settings are checked against: recorded answers, and the precision that they are judged as."""

    inputs: RunInputs
    precision: Precision  # fp32 where the answers are the subject's own


@dataclass(frozen=True)
class SettingsVerifier:
    """Says whether a subject with its settings verifies as well as it does without: by the rule of `validate`."""

    context: Context
    servers: Servers
    reference_of: Callable[[BenchSubject], SettingsReference]
    _verdicts: dict[Pair, Verdict] = field(default_factory=dict)  # of the defaults

    def __call__(self, subject: BenchSubject) -> str | None:
        """Return None, or the sentence that says why the settings are dropped."""
        try:
            reference = self.reference_of(subject)
            if subject.pair not in self._verdicts:
                self._verdicts[subject.pair], _ = self._check(replace(subject, tuned=DEFAULTS), reference)
            verdict, reason = self._check(subject, reference)
        except DiskFull:
            raise
        except TransloadError as error:
            return f"it could not be verified: {error.what}"
        if verdict is Verdict.FAIL:
            return f"its answers do not verify: {reason}"
        if _ORDER.index(verdict) < _ORDER.index(self._verdicts[subject.pair]):
            return f"its answers verify no longer: {reason}"
        return None

    def _check(self, subject: BenchSubject, reference: SettingsReference) -> tuple[Verdict, str | None]:
        checked = CheckedArtifact(
            subject.pair[0], subject.target, subject.stored, subject.runtime, reference.precision,
            signature=None if subject.target else reference.inputs.model.signature, settings=subject.tuned.settings,
        )  # fmt: skip
        return check_settings(self.context, reference.inputs, checked, self.servers)


def measure_tuned(bench: Bench, subjects: Sequence[BenchSubject], verifier: SettingsVerifier) -> Measurements:
    """Measure all subjects, each runtime with the settings that a search found here, or that are kept beside the
    artifact and hold here; else with its defaults."""
    request = bench.context.request.bench
    rows: list[TuningRow] = []
    bounds: list[BoundRow] = []
    if not request.tune:
        tuned = subjects if request.untuned else [with_kept_settings(bench.context, subject) for subject in subjects]
        return bench.measure(tuned)
    tuner = Tuner(bench, batches_within(bench.model.signature.inputs, request.batches), verifier)
    winners: dict[Pair, BenchSubject] = {}
    for subject in (subject for subject in subjects if not subject.runtime.served):
        result = tuner.tune(subject)
        if request.latency_bound_s is not None:
            result = tuner.bound(result, request.latency_bound_s)
            bounds += [result.bound] if result.bound else []
        winners[subject.pair] = result.subject
        rows += result.rows
        if subject.model and result.rows:
            batch = result.rows[0].batch
            place = place_of(subject.model, subject.runtime, subject.device(bench.context.device))
            in_bound = in_bound_of(result.bound, result.subject.session_settings.threads(request.threads))
            keep_settings(subject.model, place, result.subject.tuned, batch, in_bound)
        chosen = settings_text(result.subject.tuned.settings)
        bench.context.progress.note(f"{subject.pair[0]} in {subject.pair[1]}: {chosen}")
    held = [winners.get(subject.pair) or _with_holder(subject, winners) for subject in subjects]
    return replace(bench.measure(held), tuning=tuple(rows), bounds=tuple(bounds))


def with_kept_settings(context: Context, subject: BenchSubject) -> BenchSubject:
    """Return the subject with the settings that are kept beside its artifact, where they hold here."""
    if subject.model is None or subject.target is None:
        return subject
    holder = holder_of(subject)
    request = context.request.bench
    threads = request.threads if "threads" in request.model_fields_set else None
    return replace(subject, tuned=tuned_settings(subject.model, holder, subject.device(context.device), threads))


def holder_of(subject: BenchSubject) -> Runtime:
    """Return the runtime that holds the model: of a served one that of our own server."""
    if not subject.runtime.served or subject.target is None:
        return subject.runtime
    return RUNTIMES[runtime_for(subject.target.format)]


def _with_holder(subject: BenchSubject, winners: dict[Pair, BenchSubject]) -> BenchSubject:
    """Return a served subject with the settings of the same artifact in the runtime that our server holds it in."""
    winner = winners.get((subject.pair[0], holder_of(subject).name))
    return replace(subject, tuned=winner.tuned) if winner and not subject.source else subject
