"""Run the reference: the model's own outputs, that every copy is compared with."""

from __future__ import annotations

from dataclasses import replace

from ...models.errors import StepFailed
from ...models.job_records import DataFacts
from ...models.probes.integer_range import MOST_TRIES
from ...models.probes.masks import blank_inputs, mask_inputs
from ...models.probes.sizes import batches_within
from ...models.probes.stress_values import free_integers
from ...models.store import Stored
from ...serving.runtimes.runtime_table import RUNTIMES
from ..context import Context
from ..drift.drift_records import AnswerOptions
from ..workers.engine import Action, Executor
from ..workers.fork_server import framework_of
from ..workers.interpreters import interpreter_of
from .loaded_model import ModelDescription


def answer_reference(
    context: Context,
    model: ModelDescription,
    source: Stored,
    data: Stored,
    runtime: str,
    *,
    probes_only: bool,
) -> Stored:
    """Return the model's outputs on the CPU: of a source in eager PyTorch, of anything else in the runtime named.

    `probes_only`: at the probe batches alone, which are all that a conversion is verified by. Where the samples are
    random, further integers are tried too.
    """
    interpreter = interpreter_of(RUNTIMES[runtime])
    inputs, random = model.signature.inputs, DataFacts.from_json(data.facts).random
    options = AnswerOptions(
        runtime=runtime,
        batches=batch_sizes(context, model),
        probes_only=probes_only,
        random=random and bool(mask_inputs(inputs) or blank_inputs(inputs)),
    )
    action = Action(
        name="reference",
        entry="transload.pipeline.drift.reference:answer",
        inputs={"model": source, "data": data},
        options=options.to_json(),
        requires=RUNTIMES[runtime].requires,
        python=interpreter.path,
        framework=framework_of(RUNTIMES[runtime].requires),
        tools=interpreter.tools,
        code=model.code,
        root=model.root,
        limits=context.limits(),
    )
    if random and free_integers(inputs):
        return _with_integers(context.executor, action)
    return context.executor.perform(action)


def _with_integers(executor: Executor, action: Action) -> Stored:
    """Ask the reference with further integers than those of the samples.

    Where they end its process they are left out, and a copy is then said to be checked with the samples alone.
    """
    try:
        return executor.perform(replace(action, options={**action.options, "tries": MOST_TRIES}))
    except StepFailed as error:
        if error.decided:
            raise
        return executor.perform(replace(action, options={**action.options, "tries": 0}))


def batch_sizes(context: Context, model: ModelDescription) -> tuple[int, ...]:
    """Return the batch sizes that everything is checked at, beside the full test set: the requested ones that fit.

    A model without a batch axis is asked one sample at a time.
    """
    return batches_within(model.signature.inputs, context.request.validate_.batches)
