"""The faults of a command's data: refused before anything is trained or asked, or doubts that its verdict is under."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...models.data_checks.data_findings import DataFault, DataFinding, DataUse, doubts_of_data
from ...models.data_checks.sample_checks import DataPlace, check_labels
from ...models.data_checks.split_overlap import find_overlap
from ...models.data_sources.data_argument import DataArgument, DataKind
from ...models.dataset import TEST, read_dataset
from ...models.errors import StepFailed
from ...models.job_records import DataFacts
from ...models.store import Stored
from ..drift.drift_records import AnswerFacts, CheckOptions
from ..drift.metrics.chance import ChanceFacts
from ..drift.metrics.metric_kinds import is_function
from ..workers.engine import Action
from ..workers.fork_server import framework_of
from .context import Context
from .data_step import recipe_data
from .loaded_model import LoadedModel, ModelDescription
from .metric_choice import OF_VALUES, TaskChoice


def check_training_data(context: Context, recipe: ModelDescription) -> None:
    """Note the doubts of a recipe's data before it is trained. Raises BadRequest where the data is refused."""
    facts = DataFacts.from_json(recipe_data(context, recipe).facts)
    for doubt in doubts_of_data(facts.findings, DataUse.TRAINING):
        context.progress.note(doubt)


def find_data_faults(
    context: Context, loaded: LoadedModel, data: Stored, argument: DataArgument | None, *, learnt: bool = False
) -> list[DataFinding]:
    """Return the faults of the data of a model; with `learnt` also of the data that this command trained it on."""
    findings, model = [*DataFacts.from_json(data.facts).findings], loaded.model
    if argument is None or any(fault.fault == DataFault.LABEL_NOT_FINITE for fault in findings):
        return findings
    is_table = argument.kind is DataKind.TABLE
    label = argument.table.label or ("label" if is_table else "")
    place = DataPlace(Path(argument.place).name, "row" if is_table else "sample", label=label)
    samples, metric = read_dataset(data.folder / TEST, model.signature.inputs), context.request.validate_.metric
    if samples.labels is not None and (metric is None or not (is_function(metric) or metric in OF_VALUES)):
        findings += check_labels(samples.labels, model.signature.outputs, place)
    if learnt and model.metric and context.request.model.weights is None:
        own = recipe_data(context, model)
        findings += [*DataFacts.from_json(own.facts).findings, *find_overlap(own.folder, samples, place)]
    return findings


def doubts_of_answers(findings: Sequence[DataFinding], reference: Stored) -> tuple[str, ...]:
    """Return the doubts of data that a reference has answered. It may take NaN: then it answers finite numbers."""
    takes = AnswerFacts.from_json(reference.facts).answers_not_finite
    unknown = [fault for fault in findings if not (takes and fault.fault == DataFault.SAMPLE_NOT_FINITE)]
    return doubts_of_data(unknown, DataUse.ANSWERS)


def doubt_of_chance(
    context: Context, model: ModelDescription, data: Stored, reference: Stored, choice: TaskChoice
) -> tuple[str, ...]:
    """Return the doubt of a reference that is no better than one answer to everything."""
    metric = choice.metric
    if metric is None and not model.metric:
        return ()
    action = Action(
        name="chance",
        entry="transload.pipeline.drift.metrics.chance:compare_with_chance",
        inputs={"data": data, "reference": reference},
        options=CheckOptions(**model.recipe_options, metric=metric).to_json(),
        framework=framework_of(("torch",) if model.metric else ()),
        code=model.code + choice.code,
        root=model.root or (metric.root if metric else None),
        reads=(*model.reads, *(metric.reads if metric else ())),
        limits=context.model_limits(),
    )
    with suppress(StepFailed):  # without the memory or the time for it the verdict stands as well
        doubt = ChanceFacts.from_json(context.executor.perform(action).facts).doubt
        return (doubt,) if doubt else ()
    return ()
