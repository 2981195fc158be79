"""Compare an artifact with the recorded answers of the reference (reference.py), in a worker of its own.

validate  inputs {artifact, data, reference}   -> outcomes.npz; {rows, device, reason, note, evidence}
verify    inputs {artifact, data, reference}   -> {status, reason, sqnr_db, batches, sizes, evidence}; golden.json

An inconclusive or failed comparison gives one sentence, which names the batch, or the axis and its size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from ...converters.stored_weights import holds_signed_bytes, stored_precision
from ...models.artifact import Artifact, read_artifact
from ...models.errors import BadRequest, ToolMissing
from ...models.extensible_table import load_entry
from ...models.formats import Precision
from ...models.job import Job
from ...models.processors import saturates_bytes
from ...serving.runtimes.provider_check import check_device
from ...serving.runtimes.runtime_table import RUNTIMES
from ...serving.runtimes.saved_model_functions import open_functions
from ...serving.runtimes.tuning_space import REFERENCE
from ...serving.session import Session
from .check import Check
from .drift_records import CheckEvidence, ValidateFacts, VerifyFacts
from .golden_samples import keep_samples
from .half_arithmetic import HalfResult, ask_in_half
from .input_coverage import ObservedSession, describe_exercise
from .metrics.outcomes import COPY, OUTCOMES, SOURCE, Outcomes
from .numbers.column_ranges import describe_uneven_columns
from .numbers.error_profile import ErrorProfile
from .probe_result import CheckResult, ProbeCalls, probe_rows
from .rules import FAIL, INCONCLUSIVE, PASS
from .sessions import open_for, read_test_set

_RANK = (PASS, INCONCLUSIVE, FAIL)
_SATURATED = (
    "this processor has no VNNI, so ONNX Runtime adds products of 8-bit weights in 16 bits, where they saturate: with "
    "exact sums the copy agrees {}; quantise it with 7-bit weights (reduce_range=True)"
)
_EXPLAINED_DB = 6.0  # half of the noise is gone


def validate(job: Job) -> Mapping[str, Any]:
    """Compare an artifact with the reference on the whole test set, and at each probe batch size.

    CheckOptions -> ValidateFacts. The worst of the probes of one batch size is its row.

    Raises what the runtime raises where the artifact cannot be opened.
    """
    check = Check(job, may_fix_batch=True)
    errors = ErrorProfile(batched=check.record.signature.batch is not None)
    probes = [replace(check.whole_set(), errors=errors), *check.probes()]
    results, observed, half = _run(job, check, probes)
    if task := results[0].task:
        Outcomes({SOURCE: task.reference, COPY: task.candidate}).write(job.out / OUTCOMES)
    results += _run_reopened(job, check, probes[0]) if results[0].verdict != FAIL else []
    results, not_asked = _run_functions(job, check, probes[0], results)
    answered = [result for result in results if result.answered]
    silent = [result for result in results if not result.answered]
    note = _first_reason(answered, INCONCLUSIVE) or check.agreement.doubt_single_size(results)
    return ValidateFacts(
        rows=(results[0].row, *(result.row for result in _worst_by_batch(results[1:]))),
        device=observed.device,
        reason=_first_reason(answered, FAIL),
        silence=_first_reason(silent, FAIL) or _first_reason(silent, INCONCLUSIVE),
        note=note
        or "; ".join(filter(None, (_first_reason(results, PASS) or check.note, half.note if half else None)))
        or None,
        evidence=replace(
            _evidence(check, results, observed, half, not_asked, whole_set_first=True),
            errors=tuple(errors.rows(check.runtime)),
            worst_samples=tuple(errors.worst_rows(check.runtime, probes[0].data)),
        ),
    ).to_json()


def verify(job: Job) -> Mapping[str, Any]:
    """Check quickly whether an artifact, opened anew, answers the probes as the reference does.

    CheckOptions -> VerifyFacts. Names, order, shapes, dtypes and the dynamic axes are part of the answer; no metric is.
    `status` is unverified where it agrees with a reference that answers the same to everything, or that answers at one
    size alone of an axis that is declared dynamic, or where its reduced precision reduced nothing.
    """
    check = Check(job)
    probes = check.probes()
    try:
        results, observed, half = _run(job, check, probes, keeps_samples=True)
        results, not_asked = _run_functions(job, check, probes[0], results)
    except ToolMissing as error:
        if not read_artifact(job.inputs["artifact"]).flex:
            raise
        # The user wants the target for a runtime elsewhere: nothing speaks against the copy, and nothing for it.
        reason = f"it was run nowhere: {error.what}; {error.fix}"
        return VerifyFacts(status="unverified", reason=reason, sqnr_db=None, batches=(), sizes={}).to_json()
    except BadRequest as error:  # the payload is at fault: the runtime refuses it
        return VerifyFacts(status="wrong", reason=error.what, sqnr_db=None, batches=(), sizes={}, ran=False).to_json()
    noises = [result.row["sqnr_db"] for result in results if result.probe.as_sampled]
    least_db = min((noise for noise in noises if noise is not None), default=None)
    artifact = read_artifact(job.inputs["artifact"])
    stored = None if artifact.target.precision is Precision.FP32 else stored_precision(artifact)
    idle = stored.why_not_reduced(artifact.target) if stored else None
    inputs = check.record.signature.inputs
    columns = describe_uneven_columns(artifact.target.precision, least_db, read_test_set(job, inputs), inputs)
    doubt = "; ".join(filter(None, (check.agreement.doubt_single_size(results), idle)))
    worst = max(map(_RANK.index, [*(result.verdict for result in results), INCONCLUSIVE if doubt else PASS]))
    agreement = "; ".join(filter(None, (check.agreement.describe(results, least_db), doubt)))
    return VerifyFacts(
        status=("verified", "unverified", "wrong")[worst],
        reason="; ".join(
            filter(None, (_first_reason(results, FAIL) or agreement, half.note if half else None, columns))
        ),
        sqnr_db=least_db,
        batches=tuple(result.row["batch"] for result in _worst_by_batch(results) if result.verdict != FAIL),
        sizes=check.agreement.sizes(results),
        limit_db=next((result.judgement.tolerance["sqnr_db"] for result in results if result.verdict == FAIL), None),
        evidence=_evidence(check, results, observed, half, not_asked, whole_set_first=False),
        stored=stored,
    ).to_json()


def _evidence(
    check: Check,
    results: Sequence[CheckResult],
    observed: ObservedSession,
    half: HalfResult | None,
    functions_not_asked: Sequence[str],
    *,
    whole_set_first: bool,
) -> CheckEvidence:
    rows = probe_rows(results, check.record.signature.inputs, whole_set_first=whole_set_first)
    exercised = describe_exercise(observed, check.record, results, check.runtime, check.options.constants)
    exercised["functions_not_asked"] = functions_not_asked
    return CheckEvidence(probes=tuple(rows), exercised=(exercised,), inner_ranges=() if half is None else (half.row,))


def _run(
    job: Job, check: Check, probes: Sequence[ProbeCalls], *, keeps_samples: bool = False
) -> tuple[list[CheckResult], ObservedSession, HalfResult | None]:
    """Run all probes in one session over the artifact; return the results, what it was asked, and what became of it in
    float16 arithmetic. With `keeps_samples` the golden samples of one that is right are written."""
    with closing(open_for(job, "artifact", check.runtime, check.options)) as session:
        observed = ObservedSession(session, check.record.signature)
        wrong = check_device(session, check.options.device)
        if wrong:
            return [check.refuse(calls, wrong) for calls in probes], observed, None
        results = check.run_all(observed, probes)
        is_right = results[0].verdict != FAIL
        repeated = check.repeat(observed, probes[0], "unstable: asked once more") if is_right else None
        half = _ask_in_half(job, check, session)
        if keeps_samples and all(result.verdict != FAIL for result in results):
            keep_samples(job.out, session, check, probes, results)
    results = _explain_saturation(job, check, probes, results)
    late = (repeated, half.failed if half else None)
    return [*results, *(result for result in late if result)], observed, half


def _opened_artifact(job: Job, check: Check) -> Artifact | None:
    """Return the artifact that a check has opened in the runtime of its format; None of what a server holds, and of
    what another runtime has opened."""
    if RUNTIMES[check.runtime].served:
        return None
    artifact = read_artifact(job.inputs["artifact"])
    return artifact if check.runtime == artifact.target.format.spec.runtime else None


def _ask_in_half(job: Job, check: Check, session: Session) -> HalfResult | None:
    """Ask the copy in float16 arithmetic, in the runtime that its format is checked in."""
    artifact = _opened_artifact(job, check)
    if artifact is None or not artifact.target.format.spec.stored_precision:
        return None
    return ask_in_half(check, artifact, session, read_test_set(job, check.record.signature.inputs))


def _explain_saturation(
    job: Job, check: Check, probes: Sequence[ProbeCalls], results: list[CheckResult]
) -> list[CheckResult]:
    """Add to the sentences of what did not pass that products of bytes saturated, where exact ones agree better."""
    pairs = zip(probes, results, strict=False)
    wrong = [(calls, result) for calls, result in pairs if _disagrees(result) and calls.probe == result.probe]
    if not wrong or not _may_saturate(job, check):
        return results
    calls, first = wrong[0]
    settings = {**check.options.settings, **REFERENCE[check.runtime]}
    with closing(open_for(job, "artifact", check.runtime, replace(check.options, settings=settings))) as session:
        (exact,) = check.run_all(session, [replace(calls, errors=None)])
    before_db, after_db = first.row["sqnr_db"], exact.row["sqnr_db"]
    is_better = None not in (before_db, after_db) and after_db >= before_db + _EXPLAINED_DB
    if not (exact.verdict == PASS or is_better):
        return results
    sentence = _SATURATED.format("in full" if after_db is None else f"to {after_db:.1f} dB")
    return [_with_reason(result, sentence) if _disagrees(result) else result for result in results]


def _disagrees(result: CheckResult) -> bool:
    return result.verdict != PASS and result.answered


def _may_saturate(job: Job, check: Check) -> bool:
    """Return whether ONNX Runtime may add products of the artifact's bytes in 16 bits, on this processor."""
    if check.runtime not in REFERENCE or check.options.device != "cpu" or not saturates_bytes():
        return False
    return holds_signed_bytes(read_artifact(job.inputs["artifact"]).path)


def _with_reason(result: CheckResult, sentence: str) -> CheckResult:
    reason = "; ".join(filter(None, (result.judgement.reason, sentence)))
    return replace(result, judgement=replace(result.judgement, reason=reason))


def _run_reopened(job: Job, check: Check, calls: ProbeCalls) -> list[CheckResult]:
    """Ask a second session, with another number of threads; return the fail of a copy that answers otherwise there."""
    if RUNTIMES[check.runtime].served:
        return []
    threads = 2 if check.options.threads == 1 else 1
    with closing(open_for(job, "artifact", check.runtime, replace(check.options, threads=threads))) as session:
        repeated = check.repeat(session, calls, f"unstable: opened again with {threads} thread{'s' * (threads > 1)}")
    return [repeated] if repeated else []


def _run_functions(
    job: Job, check: Check, calls: ProbeCalls, results: list[CheckResult]
) -> tuple[list[CheckResult], list[str]]:
    """Ask the functions of a SavedModel that take and give what `serving_default` does; add the fails to the results.
    The second value names those that take or give something else."""
    artifact = _opened_artifact(job, check)
    entry = artifact.target.format.spec.function_names if artifact else ""
    if artifact is None or not entry or results[0].verdict == FAIL:
        return results, []
    folder, names = artifact.folder, load_entry(entry)(artifact.path)
    sessions = open_functions(folder, names) if names else {}
    for name, session in sessions.items():
        subject = f"{name}, which takes and gives what serving_default does"
        if session and (failed := check.repeat(session, calls, subject)):
            results = [*results, failed]
    return results, [name for name, session in sessions.items() if session is None]


def _worst_by_batch(results: Sequence[CheckResult]) -> list[CheckResult]:
    """Return a result for each batch size, in order: the first that failed, else the noisiest."""
    worst: dict[int, CheckResult] = {}
    for result in results:
        before = worst.setdefault(result.probe.batch, result)
        if _noisiness(result) > _noisiness(before):
            worst[result.probe.batch] = result
    lost = {result.probe.batch: result.row["lost"] for result in reversed(results) if "lost" in result.row}
    return [
        replace(result, row={**result.row, "lost": lost[batch]}) if batch in lost else result
        for batch, result in worst.items()
    ]


def _noisiness(result: CheckResult) -> tuple[int, float]:
    noise = result.row["sqnr_db"] if result.probe.as_sampled else None  # with large integers more noise is no fault
    return _RANK.index(result.verdict), -math.inf if noise is None or result.verdict == FAIL else -noise


def _first_reason(results: Sequence[CheckResult], verdict: str) -> str | None:
    return next((result.judgement.reason for result in results if result.verdict == verdict), None)
