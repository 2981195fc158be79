"""Judge int8 copies beyond their rows: by transload's own quantisation of the model, and by the samples they had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....models.errors import DiskFull, TransloadError
from ....models.formats import Precision, Target
from ....models.job_records import DataFacts
from ....serving.runtimes.tuning_space import REFERENCE
from ...measure.servers import Servers
from ...measure.validate_stage import ValidationRows, validate_all
from ...plan.context import Context
from ...plan.router import TargetResult
from ...plan.run_inputs import RunInputs
from ...plan.run_plan import plan_routes, steps_for
from ...result.schema import DriftRow, Verdict
from .convert_targets import convert_all

_SUSPECT_DB = 40.0  # our own quantisation of most models lies below 50 dB: a copy that agrees so well is not far below
_NOTED_DB, _DOUBTED_DB = 10.0, 20.0
_NO_DATA = "random samples may leave the range that the copy was calibrated on: give samples of yours, --data FILE.npz"


def leave_open(inputs: RunInputs, targets: Sequence[TargetResult], validated: ValidationRows) -> ValidationRows:
    """Turn a fail by numbers alone of an int8 copy on random samples to inconclusive: they may leave the range of a
    value inside, even where they keep that of the input."""
    if not DataFacts.from_json(inputs.data.facts).random:
        return validated
    names = {target.name for target in targets if _is_int8(target)}
    rows, reasons = list(validated.rows), dict(validated.reasons)
    for at, row in enumerate(rows):
        pair = row.artifact, row.runtime
        is_by_numbers = row.max_abs is not None and not row.mismatch and not row.non_finite
        if row.artifact in names and row.verdict is Verdict.FAIL and is_by_numbers:
            rows[at] = replace(row, verdict=Verdict.INCONCLUSIVE)
            reasons[pair] = f"{validated.reasons.get(pair, 'its answers differ')}; {_NO_DATA}"
    return replace(validated, rows=tuple(rows), reasons=reasons)


def compare_with_own(
    context: Context, inputs: RunInputs, targets: Sequence[TargetResult], rows: Sequence[DriftRow], servers: Servers
) -> tuple[list[str], list[str]]:
    """Return the doubts and the notes on int8 copies that passed and agree far less than our own quantisation does.
    Random samples say nothing of that: the copy was calibrated on others, and our own would be on them."""
    first = {(row.artifact, row.runtime): row for row in reversed(rows)}  # on the whole test set
    suspects = [
        (Target(target.target.format, Precision.INT8), row)
        for target in targets
        for row in first.values()
        if row.artifact == target.name
        and _is_int8(target)
        and target.target.format.spec.calibrated_ranges
        and row.verdict is Verdict.PASS and row.sqnr_db is not None and row.sqnr_db < _SUSPECT_DB
    ]  # fmt: skip
    if not suspects or DataFacts.from_json(inputs.data.facts).random:
        return [], []
    try:
        wanted = list(dict.fromkeys(target for target, _ in suspects))
        own = convert_all(context, plan_routes(wanted, inputs.start, steps_for(())), inputs)
        own_rows = validate_all(context, inputs, own, servers).rows
    except DiskFull:
        raise
    except TransloadError:  # the model cannot be quantised here: there is nothing to compare the copy with
        return [], []
    reached = {(row.artifact, row.runtime): row.sqnr_db for row in reversed(own_rows)}
    doubts: list[str] = []
    notes: list[str] = []
    for target, row in suspects:
        copy_db, own_db = row.sqnr_db or 0.0, reached.get((str(target), row.runtime)) or 0.0
        sentence = f"{row.artifact} in {row.runtime} agrees to {copy_db:.1f} dB, and transload's own quantisation of"
        sentence += f" this model to {own_db:.1f} dB"
        if own_db >= copy_db + _DOUBTED_DB:
            allows = "the metric allows" if row.tolerance.metric_loss is not None else "int8's floor allows"
            saturated = ", or for products of bytes that saturate on this processor" * (row.runtime in REFERENCE)
            doubts.append(f"{sentence}: {allows} what is lost; look for a layer with a wrong scale{saturated}")
        elif own_db >= copy_db + _NOTED_DB:
            notes.append(sentence)
    return doubts, notes


def _is_int8(target: TargetResult) -> bool:
    return (target.judged_as or target.target.precision) is Precision.INT8
