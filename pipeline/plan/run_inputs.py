"""The inputs of a run: the model, the data and the outputs of the reference. All commands resolve them here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from ...models.data_checks.data_findings import DataFault, DataUse, doubts_of_data
from ...models.data_sources.data_argument import DataArgument
from ...models.errors import BadRequest, NoAnswer, OpenFailed, StepFailed
from ...models.formats import Format, Target
from ...models.job_records import DataFacts, RandomSamplesOptions, SourceFacts, TrainFacts
from ...models.probes.feeds import most_per_call
from ...models.probes.integer_range import MOST_TRIES
from ...models.probes.masks import blank_inputs, mask_inputs, stress_inputs
from ...models.probes.sizes import batches_within
from ...models.probes.stress_values import free_integers
from ...models.signature import ValueRange
from ...models.store import Stored, size_of
from ...serving.runtimes.runtime_table import RUNTIMES
from ...serving.runtimes.tuning_space import REFERENCE
from ..drift.drift_records import AcceptedFacts, AnswerOptions, SessionOptions
from ..drift.metrics.metric_kinds import is_function
from ..workers.engine import Action, Executor
from ..workers.fork_server import framework_of
from ..workers.interpreters import interpreter_of
from .code_model import describe_recipe, load_code, load_recipe
from .context import Context
from .data_faults import doubt_of_chance, doubts_of_answers, find_data_faults
from .data_step import data_argument, recipe_data, samples_action
from .file_model import load_artifact, load_file
from .loaded_model import LoadedModel, ModelDescription, require_runtime, within_ranges
from .metric_choice import TaskChoice, check_answers, choose_function, choose_metric
from .model_argument import ModelKind, ModelRequest, kind_of

_EXAMPLES = "transload.models.probes.samples:take_examples"
_RANDOM = "transload.models.probes.samples:make_samples"
_MOST_CHANGES = 3  # of a file's inputs, to what it takes


@dataclass(frozen=True, kw_only=True)
class ModelWithData:
    """The model and the data that a conversion starts from."""

    model: ModelDescription
    source: Stored
    data: Stored
    start: Target | None = None  # the format of `source`; None: a model in PyTorch


@dataclass(frozen=True, kw_only=True)
class RunInputs(ModelWithData):
    """The model, the data, and the outputs of the reference that every copy is compared with."""

    reference: Stored
    recorder: Action | None = None  # the step that recorded it
    metric: TaskChoice = field(default_factory=TaskChoice)
    doubts: tuple[str, ...] = ()  # of the data, and of the reference's answers to it


def resolve_inputs(
    context: Context,
    request: ModelRequest | None,
    *,
    probes_only: bool = False,
    samples_only: bool = False,
    within: Mapping[str, ValueRange] | None = None,
    when_loaded: Callable[[], None] | None = None,
    during_reference: Callable[[ModelWithData], AbstractContextManager[object]] = nullcontext,
) -> RunInputs:
    """Resolve a MODEL argument to a loaded model, its data and the reference outputs.
    Without a `request` the model is the recipe of the pipeline file, and is trained. `probes_only`: the reference
    answers the probes of a conversion only, not the full test set; `samples_only`: the first samples only, unless the
    store holds its answers to all. Random samples of inputs lie `within` these ranges.
    `when_loaded` is called once the model is in the store; `during_reference` is entered while the reference answers.
    Raises TransloadError where one of the three cannot be had."""
    argument = data_argument(context, request.data if request else None)
    loaded = _load_stage(context, request) if request else _train_stage(context)
    if within:
        loaded = replace(loaded, calibrated=within)
    if when_loaded:
        when_loaded()
    record = record_samples if samples_only else partial(record_reference, probes_only=probes_only)
    judged = not (probes_only or samples_only)
    with context.progress.stage("reference") as stage:
        require_runtime(loaded.runtime)
        loaded, inputs, metric, reference = _ask_reference(
            context, request, argument, loaded, record=record, during=during_reference, judged=judged
        )
        facts = DataFacts.from_json(inputs.data.facts)
        kind = "test " if request is None and not argument else "random " if facts.random else ""
        samples = f"{'first of ' * samples_only}{facts.test} {kind}samples"
        stage.note = f"{samples} answered by {loaded.answers_by if request else 'PyTorch'}"
        metric = check_answers(context, metric, loaded.model, inputs.data, reference)
        stage.note = "; ".join([stage.note, *filter(None, (*loaded.accepted, metric.note))])
        findings = find_data_faults(context, loaded, inputs.data, argument, learnt=True)
        doubts = doubts_of_answers(findings, reference)
        if not samples_only:
            scored = metric if judged else choose_metric(context, loaded.model, inputs.data)
            doubts += doubt_of_chance(context, loaded.model, inputs.data, reference, scored)
    recorder, _ = _reference_action(context, inputs, loaded.runtime)
    return RunInputs(**vars(inputs), reference=reference, recorder=recorder, metric=metric, doubts=doubts)


def _ask_reference(
    context: Context,
    request: ModelRequest | None,
    argument: DataArgument | None,
    loaded: LoadedModel,
    *,
    record: Callable[[Context, ModelWithData, str], Stored],
    during: Callable[[ModelWithData], AbstractContextManager[object]],
    judged: bool,
) -> tuple[LoadedModel, ModelWithData, TaskChoice, Stored]:
    """Return the model, with its data, the metric where answers are `judged`, and the reference's answers.
    A file that refuses random samples is asked again with others that it takes, where there are any."""
    data = resolve_data(context, loaded, argument)
    metric = choose_metric(context, loaded.model, data) if judged else TaskChoice()
    inputs = ModelWithData(model=loaded.model, source=loaded.stored, data=data, start=loaded.start)
    with during(inputs), _file_named(context, loaded, request):
        try:
            return loaded, inputs, metric, record(context, inputs, loaded.runtime)
        except BadRequest as refusal:
            # Within `during`, which ends every worker where an error leaves it.
            accepted = None if argument else _with_accepted_inputs(context, request, loaded, refusal)
            if accepted is None:
                raise
            return _ask_reference(context, request, argument, accepted, record=record, during=during, judged=judged)


def _with_accepted_inputs(
    context: Context, request: ModelRequest | None, loaded: LoadedModel, refusal: BadRequest
) -> LoadedModel | None:
    """Return the model's file taken in with the values or sizes that it has answers to, in place of those that it
    refused; None where none are found. Code and TorchScript were asked before, and an artifact says what it takes."""
    if request is None or loaded.start is None or not isinstance(kind_of(request.text), Format):
        return None
    if isinstance(refusal, OpenFailed) or len(loaded.accepted) >= _MOST_CHANGES:
        return None
    facts = _find_accepted(context, loaded, loaded.start)
    if not facts.inputs:
        return None
    again = load_model(context, replace(request, inputs=facts.inputs))
    return replace(again, accepted=(*loaded.accepted, *facts.notes), calibrated=loaded.calibrated)


def _find_accepted(context: Context, loaded: LoadedModel, start: Target) -> AcceptedFacts:
    """Search for inputs that a file has answers to; none where the search itself fails."""
    row, interpreter = RUNTIMES[loaded.runtime], interpreter_of(RUNTIMES[loaded.runtime])
    requires = tuple(dict.fromkeys((*row.requires, *start.format.spec.requires)))
    options = SessionOptions(
        runtime=loaded.runtime,
        settings=REFERENCE.get(loaded.runtime, {}),
        batches=batch_sizes(context, loaded.model),
    )
    action = Action(
        name="inputs",
        entry="transload.pipeline.plan.accepted_inputs:find_inputs",
        inputs={"model": loaded.stored, "data": resolve_data(context, loaded, None)},
        options=options.to_json(),
        requires=requires,
        python=interpreter.path,
        framework=framework_of(row.requires),
        tools=interpreter.tools,
        limits=context.call_limits(size_of(loaded.stored.folder)),
    )
    with suppress(StepFailed):
        return AcceptedFacts.from_json(context.executor.perform(action).facts)
    return AcceptedFacts()


def load_model(context: Context, request: ModelRequest) -> LoadedModel:
    """Load the model of a request into the store.
    Raises BadRequest where it cannot be taken as it is, ToolMissing where a library is not installed."""
    kind = kind_of(request.text)
    if kind is ModelKind.CODE:
        loaded = load_code(context, request)
        if request.recorded:
            request.recorded.check_weights(loaded.stored)
        return loaded
    section = context.request.model
    if request.text == section.recipe and (section.weights is not None or section.settings):
        option = "--set" if section.weights is None else "--weights"
        raise BadRequest(f"{request.text} is no code, and has weights of its own", fix=f"leave {option} out")
    if kind is ModelKind.ARTIFACT:
        return load_artifact(context, request)
    return load_file(context, request, kind)


def resolve_data(
    context: Context, loaded: LoadedModel, argument: DataArgument | None, use: DataUse = DataUse.ANSWERS
) -> Stored:
    """Return the samples of the argument, else the recipe's own, else the example inputs of a model that refuses random
    ones, else random ones.
    Raises BadRequest where the samples do not fit the model, or have a fault that is refused for this use."""
    data = _samples_of(context, loaded, argument)
    doubts_of_data(find_data_faults(context, loaded, data, argument), use)
    return data


def _samples_of(context: Context, loaded: LoadedModel, argument: DataArgument | None) -> Stored:
    if argument is not None:
        return context.executor.perform(samples_action(context, argument, loaded.model.signature.inputs))
    if loaded.model.metric:
        return recipe_data(context, loaded.model)
    is_source = loaded.start is None and loaded.served is None
    if is_source and SourceFacts.part_of(loaded.stored.facts).examples:
        return context.executor.perform(
            Action("data", _EXAMPLES, inputs={"source": loaded.stored}, limits=context.limits())
        )
    options = RandomSamplesOptions(signature=within_ranges(loaded.model.signature, loaded.calibrated)).to_json()
    return context.executor.perform(Action("data", _RANDOM, options=options, limits=context.limits()))


def _load_stage(context: Context, request: ModelRequest) -> LoadedModel:
    with context.progress.stage("model") as stage:
        loaded = load_model(context, request)
        inputs = ", ".join(map(str, loaded.model.signature.inputs))
        stage.note = "; ".join([f"{loaded.model.name}: {inputs}", *loaded.notes])
    return loaded


def _train_stage(context: Context) -> LoadedModel:
    context.executor.expect(["torch"], context.limits())
    recipe = describe_recipe(context)
    metric = context.request.validate_.metric
    if metric is not None and is_function(metric):  # a function that is none is told before the training
        choose_function(context, metric, context.request.validate_.allowed_loss)
    with context.progress.stage("train") as stage:
        loaded = load_recipe(context, recipe)
        stage.note = f"{recipe.name} {'found' if loaded.stored.cached else 'done'}"
        if context.request.model.weights is None:
            stage.note += f", test {recipe.metric} {TrainFacts.from_json(loaded.stored.facts).test:.4f}"
    return loaded


@contextmanager
def _file_named(context: Context, loaded: LoadedModel, request: ModelRequest | None) -> Iterator[None]:
    """Name the user's file in a runtime's error, in place of the copy in the store that the runtime opened."""
    try:
        yield
    except NoAnswer as error:
        raise BadRequest(
            f"{request.text if request else loaded.model.name} did not answer a call in its time",
            fix="give it more with --model-seconds, where you know that it ends",
        ) from error
    except BadRequest as error:
        if loaded.start is None or request is None:
            raise
        opened = str(loaded.stored.folder / loaded.start.format.spec.payload)
        message, fix = error.what.replace(opened, request.text), error.fix
        if isinstance(error, OpenFailed):
            log = (context.refused_logs or context.folder / "logs") / "reference.log"
            fix = f"copy {request.text} again, or make it of operators that {loaded.runtime} has; it says more in {log}"
        raise type(error)(message, fix=fix) from error


def record_reference(
    context: Context, inputs: ModelWithData, runtime: str, *, probes_only: bool = False, threads: int = 1
) -> Stored:
    """Return the model's outputs on the CPU: of a source in eager PyTorch, of anything else in the runtime named.
    `probes_only`: at the probe batches alone, which are all that a conversion is verified by. Where the samples are
    random, further integers are tried too."""
    action, has_integers = _reference_action(context, inputs, runtime, probes_only=probes_only, threads=threads)
    return _with_integers(context.executor, action) if has_integers else context.executor.perform(action)


def record_samples(context: Context, inputs: ModelWithData, runtime: str) -> Stored:
    """Return the model's outputs as `validate` records them, where the store holds them; else those to the first
    samples at the probe batches and sizes, which take a small part of the time."""
    action, has_integers = _reference_action(context, inputs, runtime)
    recorded = context.executor.store.find((_ask_integers(action) if has_integers else action).key)
    if recorded is not None:
        return recorded
    left_out = dict.fromkeys(("random", "stress", "constants"), False)
    samples = {"probes_only": True, **left_out, "threads": context.limits().threads}
    return context.executor.perform(replace(action, options={**action.options, **samples}))


def _reference_action(
    context: Context, inputs: ModelWithData, runtime: str, *, probes_only: bool = False, threads: int = 1
) -> tuple[Action, bool]:
    """Return the step that records the reference, and whether integers other than the samples' can be tried in it."""
    interpreter = interpreter_of(RUNTIMES[runtime])
    model, data, specs = inputs.model, inputs.data, inputs.model.signature.inputs
    facts = DataFacts.from_json(data.facts)
    random, faults = facts.random, facts.findings if facts.is_of_user else ()
    options = AnswerOptions(
        runtime=runtime,
        settings=REFERENCE.get(runtime, {}),
        threads=threads,
        batches=batch_sizes(context, model),
        probes_only=probes_only,
        chunk=most_per_call(model.signature),
        random=random and bool(mask_inputs(specs) or blank_inputs(specs)),
        stress=bool(stress_inputs(specs)),
        not_finite=next((fault.rows for fault in faults if fault.fault == DataFault.SAMPLE_NOT_FINITE), ()),
        scores=probes_only and facts.labels is not False,
    )
    action = Action(
        name="reference",
        entry="transload.pipeline.drift.reference:answer",
        inputs={"model": inputs.source, "data": data},
        options=options.to_json(),
        requires=RUNTIMES[runtime].requires,
        python=interpreter.path,
        framework=framework_of(RUNTIMES[runtime].requires),
        tools=interpreter.tools,
        code=model.code,
        root=model.root,
        reads=model.reads,
        limits=model.within(context.limits()) if model.ref else context.call_limits(size_of(inputs.source.folder)),
    )
    return action, random and bool(free_integers(specs))


def _ask_integers(action: Action) -> Action:
    return replace(action, options={**action.options, "tries": MOST_TRIES})


def _with_integers(executor: Executor, action: Action) -> Stored:
    """Ask the reference with further integers than those of the samples.
    Where they end its process they are left out, and a copy is then said to be checked with the samples alone."""
    try:
        return executor.perform(_ask_integers(action))
    except StepFailed as error:
        if error.decided or isinstance(error, NoAnswer):
            raise
        return executor.perform(replace(action, options={**action.options, "tries": 0}))


def batch_sizes(context: Context, model: ModelDescription) -> tuple[int, ...]:
    """Return the batch sizes that everything is checked at, beside the full test set: the requested ones that fit.
    A model without a batch axis is asked one sample at a time."""
    return batches_within(model.signature.inputs, context.request.validate_.batches)
