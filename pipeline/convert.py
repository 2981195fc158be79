"""The conversion stage: every wanted target, several side by side, each by the cheapest route that verifies."""

from __future__ import annotations

from ..models.formats import Target
from .context import Context
from .prepare import Prepared, batches
from .routes import steps_for
from .routing import Basis, Made, Route, Router, routes_to, runtime_of
from .zygote import framework_of


def expect_frameworks(context: Context, start: Target | None) -> None:
    """Tell the executor which frameworks the cheapest routes from `start` to the targets will import."""
    wanted = {"torch"} if start is None else set()
    for target in context.request.targets:
        routes = routes_to(target, start, steps_for(context.request.convert.requested))
        route = next((each for each in routes if not each.lacking), Route(()))
        for step in route.steps:
            wanted |= {framework_of(step.requires), framework_of(runtime_of(step.target).requires)}
    context.executor.expect(sorted(wanted - {""}), context.limits())


def convert_all(context: Context, prepared: Prepared) -> list[Made]:
    """What became of each wanted target, in the order asked for."""
    router = Router(
        context.executor,
        Basis(
            source=prepared.source,
            start=prepared.start,
            data=prepared.data,
            reference=prepared.reference,
            verify_options={"device": "cpu", "threads": 1, "batches": batches(context, prepared.model)},
            sqnr_db=context.request.validate_.sqnr_db,
            code=prepared.model.code,
            root=prepared.model.root,
            limits=context.convert_limits(),
        ),
        steps_for(context.request.convert.requested),
        ahead=context.jobs > 1,
    )

    def make(target: Target) -> Made:
        made = router.make(target, cross_check=context.request.convert.cross_check)
        context.progress.step(str(target))
        return made

    return context.side_by_side(make, context.request.targets)
