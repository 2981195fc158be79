"""The conversion stage: every wanted target, several side by side, each by the cheapest route that verifies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ...models.formats import Target
from ..context import Context
from ..intake.reference_outputs import batch_sizes
from ..intake.run_inputs import ModelWithData, RunInputs
from ..plan.router import ConversionInputs, Router, TargetResult, VerificationInputs, conversion, runtime_of
from ..plan.routes import Route, routes_to, steps_for
from ..workers.fork_server import framework_of


def expect_frameworks(context: Context, start: Target | None) -> None:
    """Tell the executor which frameworks the cheapest routes from `start` to the targets will import."""
    wanted = {"torch"} if start is None else set()
    for target in context.request.targets:
        for step in _cheapest(context, target, start).steps:
            wanted |= {framework_of(step.requires), framework_of(runtime_of(step.target).requires)}
    context.executor.expect(sorted(wanted - {""}), context.limits())


def _cheapest(context: Context, target: Target, start: Target | None) -> Route:
    """The cheapest route that can be taken here; an empty one where there is none."""
    routes = routes_to(target, start, steps_for(context.request.convert.requested))
    return next((each for each in routes if not each.lacking), Route(()))


@contextmanager
def converting(context: Context, begun: ModelWithData) -> Iterator[None]:
    """The cheapest routes are walked meanwhile, where there is a core for them: whoever takes a step later finds it
    done. Whether it is right nobody has asked yet."""
    origin, over = _origin(context, begun), threading.Event()

    def make(route: Route) -> None:
        made = begun.source
        for count in range(1, len(route.steps) + 1):
            if over.is_set():
                return
            made = context.executor.perform(conversion(origin, Route(route.steps[:count]), made))

    def make_all() -> None:
        for target in context.request.targets:
            with suppress(Exception):  # whatever it is, a full disk too: who takes the step later meets it
                make(_cheapest(context, target, begun.start))

    if context.jobs > 1:
        threading.Thread(target=make_all).start()
    try:
        yield
    except BaseException:
        context.executor.stop()
        raise
    finally:
        over.set()


def convert_all(context: Context, prepared: RunInputs) -> list[TargetResult]:
    """What became of each wanted target, in the order asked for."""
    router = Router(
        context.executor,
        VerificationInputs(
            **vars(_origin(context, prepared)),
            reference=prepared.reference,
            verify_options={"device": "cpu", "threads": 1, "batches": batch_sizes(context, prepared.model)},
            sqnr_db=context.request.validate_.sqnr_db,
        ),
        steps_for(context.request.convert.requested),
        ahead=context.jobs > 1,
    )

    def make(target: Target) -> TargetResult:
        made = router.make(target, cross_check=context.request.convert.cross_check)
        context.progress.step(str(target))
        return made

    made = context.side_by_side(make, context.request.targets)
    return [each if each.stored else router.make_of(each, made) for each in made]


def _origin(context: Context, begun: ModelWithData) -> ConversionInputs:
    return ConversionInputs(
        source=begun.source,
        start=begun.start,
        data=begun.data,
        code=begun.model.code,
        root=begun.model.root,
        limits=context.convert_limits(),
    )
