"""The work of drift: hold an artifact against what the reference has answered (reference.py), in a worker of its own.

validate  inputs {artifact, data, reference}   -> {rows, device, reason, note}
verify    inputs {artifact, data, reference}   -> {status, reason, sqnr_db, batches, sizes}

What an inconclusive or failed comparison says is one sentence, and names the batch, or the axis and its size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from ...models.artifact import read_artifact
from ...models.errors import BadRequest, ToolMissing
from ...models.job import Job
from ...serving.runtimes.provider_check import check_device
from .check import Check, Found, Part
from .rules import FAIL, INCONCLUSIVE, PASS
from .sessions import default_runtime, open_for

_RANK = (PASS, INCONCLUSIVE, FAIL)


def validate(job: Job) -> Mapping[str, Any]:
    """Hold an artifact against the reference on the whole test set, and at each probe batch size.

    Options: runtime, device, threads, batches, precision, tolerance_sqnr_db, allowed_loss, ref, root, model. `rows`
    are result.DriftRow without `artifact`, the whole test set first; of the calls of one batch size, at several sizes
    of the other axes, the worst are the row. `reason` is the first sentence of a row that failed, or None; `note` says
    what is still open, or what a pass does not tell, or is None. Raises what the runtime raises where the artifact
    cannot be opened.
    """
    options = job.options
    check = Check(job, options.get("runtime") or default_runtime(job.inputs["artifact"]))
    found, device = _run(job, check, [check.whole_set(), *check.probes()])
    return {
        "rows": [found[0].row, *(one.row for one in _worst_by_batch(found[1:]))],
        "device": device,
        "reason": _first_reason(found, FAIL),
        "note": _first_reason(found, INCONCLUSIVE) or check.lone(found) or _first_reason(found, PASS) or check.note,
    }


def verify(job: Job) -> Mapping[str, Any]:
    """The quick check of a conversion: does the artifact, opened anew, answer the probes as the reference does?

    Names, order, shapes, dtypes and the dynamic axes are part of the answer. Options as for `validate`; no metric.
    `status` is verified, wrong, or unverified: it agrees with a reference that answers the same to everything, or
    that answers at one size alone of an axis which is said to be dynamic.
    `sqnr_db` is None where there is no noise, or no answer. `batches`, and `sizes` of the other axes, are those that
    nothing failed at.
    """
    check = Check(job, job.options.get("runtime") or default_runtime(job.inputs["artifact"]))
    parts = check.probes()
    try:
        found, _ = _run(job, check, parts)
    except ToolMissing as error:
        if not read_artifact(job.inputs["artifact"]).flex:
            raise
        # It was asked for by name, for a runtime that is elsewhere: nothing speaks against it, and nothing for it.
        reason = f"it was run nowhere: {error.what}; {error.fix}"
        return {"status": "unverified", "reason": reason, "sqnr_db": None, "batches": [], "sizes": {}}
    except BadRequest as error:  # the payload itself is at fault: a runtime refuses what a converter made
        return {"status": "wrong", "reason": error.what, "sqnr_db": None, "batches": [], "sizes": {}, "ran": False}
    of_samples = [one for one in found if one.probe.as_sampled]
    least_db = min((one.row["sqnr_db"] for one in of_samples if one.row["sqnr_db"] is not None), default=None)
    lone = check.lone(found)
    worst = max(map(_RANK.index, [*(one.verdict for one in found), INCONCLUSIVE if lone else PASS]))
    agreed = "; ".join(filter(None, (check.agreement(found, least_db), lone)))
    return {
        "status": ("verified", "unverified", "wrong")[worst],
        "reason": _first_reason(found, FAIL) or agreed,
        "sqnr_db": least_db,
        "batches": [one.row["batch"] for one in _worst_by_batch(found) if one.verdict != FAIL],
        "sizes": check.sizes(found),
    }


def _run(job: Job, check: Check, parts: Sequence[Part]) -> tuple[list[Found], str]:
    """What comes of each part, in one session over the artifact; and where it ran."""
    with closing(open_for(job, "artifact", check.runtime)) as session:
        wrong = check_device(session, job.options.get("device", "cpu"))
        found = [check.refused(part, wrong) for part in parts] if wrong else check.run_all(session, parts)
        return found, session.device


def _worst_by_batch(found: Sequence[Found]) -> list[Found]:
    """One for each batch size, in order: the first that failed, else the loudest."""
    worst: dict[int, Found] = {}
    for one in found:
        before = worst.setdefault(one.probe.batch, one)
        if _loudness(one) > _loudness(before):
            worst[one.probe.batch] = one
    return list(worst.values())


def _loudness(found: Found) -> tuple[int, float]:
    noise = found.row["sqnr_db"] if found.probe.as_sampled else None  # with large integers more of it is no fault
    return _RANK.index(found.verdict), -math.inf if noise is None or found.verdict == FAIL else -noise


def _first_reason(found: Sequence[Found], verdict: str) -> str | None:
    return next((one.judgement.reason for one in found if one.verdict == verdict), None)
