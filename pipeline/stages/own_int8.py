"""Hold int8 copies that a metric let pass against what our own quantisation of the same model reaches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...models.errors import DiskFull, TransloadError
from ...models.formats import Format, Precision, Target
from ...models.job_records import DataFacts
from ..context import Context
from ..intake.run_inputs import RunInputs
from ..plan.router import TargetResult
from ..plan.run_plan import plan_routes, steps_for
from ..result.schema import DriftRow, Verdict
from .convert import convert_all
from .servers import Servers
from .validate import validate_all

_SUSPECT_DB = 30.0  # our own quantisation of most models lies below 50 dB: a copy that agrees so well is not far below
_FAR_DB = 20.0


def doubts_beside_own(
    context: Context, inputs: RunInputs, targets: Sequence[TargetResult], rows: Sequence[DriftRow], servers: Servers
) -> list[str]:
    """Return a sentence for each int8 copy that passed by its metric alone and agrees far less than our own does."""
    if inputs.metric.allowed_loss is None or not DataFacts.from_json(inputs.data.facts).is_of_user:
        return []
    suspects = [(target, row) for target in targets for row in _suspects(target, rows)]
    return list(_far_below(context, inputs, suspects, servers)) if suspects else []


def _suspects(target: TargetResult, rows: Iterable[DriftRow]) -> Iterator[DriftRow]:
    """Yield the row of each runtime on the whole test set, which comes first, where the copy is a suspect."""
    if (target.judged_as or target.target.precision) is not Precision.INT8:
        return
    if target.target.format not in (Format.ONNX, Format.TFLITE):
        return
    first = {row.runtime: row for row in reversed([row for row in rows if row.artifact == target.name])}
    for row in first.values():
        if row.verdict is Verdict.PASS and row.metric and row.sqnr_db is not None and row.sqnr_db < _SUSPECT_DB:
            yield row


def _far_below(
    context: Context, inputs: RunInputs, suspects: Sequence[tuple[TargetResult, DriftRow]], servers: Servers
) -> Iterator[str]:
    wanted = list(dict.fromkeys(Target(target.target.format, Precision.INT8) for target, _ in suspects))
    try:
        own = convert_all(context, plan_routes(wanted, inputs.start, steps_for(())), inputs)
        reached = validate_all(context, inputs, own, servers).rows
    except DiskFull:
        raise
    except TransloadError:  # the model cannot be quantised here: there is nothing to hold the copy against
        return
    for target, row in suspects:
        name = str(Target(target.target.format, Precision.INT8))
        best = next((other for other in reached if (other.artifact, other.runtime) == (name, row.runtime)), None)
        if best is None or best.sqnr_db is None or row.sqnr_db is None or best.sqnr_db < row.sqnr_db + _FAR_DB:
            continue
        yield (
            f"{row.artifact} in {row.runtime} agrees to {row.sqnr_db:.1f} dB, and transload's own quantisation of this "
            f"model to {best.sqnr_db:.1f} dB: the metric allows what is lost; look for a layer with a wrong scale"
        )
