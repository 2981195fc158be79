"""The conversion stage: every wanted target, several side by side, each by the cheapest route that verifies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from ...drift.drift_records import CheckOptions
from ...minimal_repro.search import MinimalRepro, find_repros
from ...plan.context import Context
from ...plan.route_actions import ConversionInputs, VerificationInputs, verification_runtime
from ...plan.router import Router, TargetResult, head_start
from ...plan.run_inputs import ModelWithData, RunInputs, batch_sizes
from ...plan.run_plan import Plan
from ...workers.engine import stopped_on_error
from ...workers.fork_server import framework_of


def expect_frameworks(context: Context, plan: Plan) -> None:
    """Tell the executor which frameworks the cheapest routes of the plan will import."""
    frameworks = {"torch"} if plan.start is None else set()
    for planned in plan.targets:
        for step in plan.cheapest(planned.target).steps:
            frameworks |= {framework_of(step.requires), framework_of(verification_runtime(step.target).requires)}
    context.executor.expect(sorted(frameworks), context.limits())


@contextmanager
def convert_ahead(context: Context, plan: Plan, model: ModelWithData) -> Iterator[None]:
    """Convert along the cheapest routes while the block runs, where there is a core for it. Nothing is checked yet."""
    inputs = _conversion_inputs(context, model)
    ahead = head_start(context.executor, inputs, plan) if context.jobs > 1 else nullcontext()
    with stopped_on_error(context.executor), ahead:
        yield


def convert_all(context: Context, plan: Plan, inputs: RunInputs) -> list[TargetResult]:
    """Convert to each target; return what became of it, in the order of the plan."""
    request = context.request.validate_
    verification_inputs = VerificationInputs(
        **vars(_conversion_inputs(context, inputs)),
        reference=inputs.reference,
        recorder=inputs.recorder,
        verify_options=CheckOptions(
            batches=batch_sizes(context, inputs.model), require_non_finite=request.non_finite == "require"
        ),
        sqnr_db=request.sqnr_db,
    )
    router = Router(context.executor, verification_inputs, plan, ahead=context.jobs > 1)
    targets, progress = [planned.target for planned in plan.targets], context.progress
    with progress.stage("convert", len(targets)) as stage, stopped_on_error(context.executor):
        results = router.make_all(targets, lambda result: progress.step(str(result.target)))
        results = [result if result.stored else router.make_by_detour(result, results) for result in results]
        stage.note = f"{sum(result.stored is not None for result in results)} of {len(results)} targets made"
    return results


def find_pieces(context: Context, inputs: RunInputs, results: Sequence[TargetResult]) -> tuple[MinimalRepro, ...]:
    """Return the smallest pieces of the model at which the routes to the lost targets fail."""
    if not any(result.failures for result in results if result.stored is None):
        return ()
    with context.progress.stage("shrink") as stage:
        pieces = find_repros(context, inputs, results)
        stage.note = f"pieces that fail by themselves: {len({piece.script for piece in pieces})}, in repeat/"
    return pieces


def _conversion_inputs(context: Context, model: ModelWithData) -> ConversionInputs:
    return ConversionInputs(
        source=model.source,
        start=model.start,
        data=model.data,
        code=model.model.code,
        root=model.model.root,
        reads=model.model.reads,
        limits=model.model.within(context.convert_limits()),
    )
