"""Which metric judges a model: the one that was asked for, the recipe's own, or the plain one for the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...models.array_file import pieces
from ...models.data_checks.class_labels import LabelRange, class_axis
from ...models.dataset import TEST, read_dataset
from ...models.errors import BadRequest
from ...models.job_records import CodeOptions
from ...models.loading.code_refs import ref_digest
from ...models.signature import Array, TensorSpec
from ...models.sources import code_ref
from ...models.store import Stored
from ..drift.answer_shards import RecordedSeries
from ..drift.metrics.class_answers import NAME_ANOTHER, describe_sample
from ..drift.metrics.function_metric import FunctionFacts
from ..drift.metrics.metric_kinds import SHARE, MetricChoice, is_function, kind_of_metric
from ..drift.metrics.named_metric import named_metric
from ..drift.recorded_answers import ANSWERS, split_by_sample
from ..result.release_limits import METRIC_RULES, check_metric_limits
from ..workers.engine import Action
from .context import Context
from .loaded_model import ModelDescription

_FUNCTIONS = "transload.pipeline.drift.metrics.function_metric"
OF_VALUES = ("mae", "rmse", "r2", "cosine")
_BY_HAND = "name one with --metric"
Dims = tuple[int | None, ...]  # None: any size


@dataclass(frozen=True)
class TaskChoice:
    """The metric of a run. `metric` is None where there is none, or where it is the recipe's own."""

    metric: MetricChoice | None = None
    allowed_loss: float | None = None  # None: the metric is reported, and does not judge
    code: str = ""  # the digest of a user's function
    note: str | None = None  # a sentence for the user


def choose_metric(context: Context, model: ModelDescription, data: Stored) -> TaskChoice:
    """Choose the metric of a model by the request, and hold it against the labels in `data` and the model's outputs.
    Raises BadRequest where the metric that was asked for needs labels that are not there, or that do not fit."""
    name, allowed_loss = context.request.validate_.metric, context.request.validate_.allowed_loss
    limits = context.request.gate.limits
    rules = [rule for rule in METRIC_RULES if limits[rule] is not None]
    if name is None and model.metric and not rules:
        return TaskChoice(allowed_loss=model.allowed_loss)
    labels = read_dataset(data.folder / TEST, model.signature.inputs).labels
    if labels is None and rules:
        raise BadRequest(
            f"gate.{rules[0]} judges a metric, and the data has no labels",
            fix=f"give --data FILE.npz with an array `labels` beside the inputs, or take {rules[0]} out of [gate]",
        )
    if name is None and model.metric:
        return TaskChoice(allowed_loss=model.allowed_loss)
    if name is None:
        return _plain_choice(model.signature.outputs, labels, allowed_loss)
    if labels is None:
        raise BadRequest(
            f"the metric {name} needs labels, and the data has none",
            fix="give --data FILE.npz with an array `labels` beside the inputs, or --data TABLE.csv?label=COLUMN",
        )
    _check_numbers(labels)
    if is_function(name):
        return choose_function(context, name, allowed_loss)
    kind = kind_of_metric(name)
    output = _fitting_output(name, model.signature.outputs, labels)
    choice = MetricChoice(
        name=name, output=output.name, unit=kind.unit, higher_is_better=kind.higher_is_better, requested=True
    )
    _check_allowed_loss(choice, allowed_loss)
    return TaskChoice(choice, allowed_loss)


def check_answers(
    context: Context, choice: TaskChoice, model: ModelDescription, data: Stored, reference: Stored
) -> TaskChoice:
    """Hold a metric against the labels and the reference's answers, before any copy is asked.
    Raises BadRequest where it cannot be taken and was asked for; one that was chosen by shapes is given up with a note.
    """
    if choice.metric is None:
        return choice
    if choice.metric.ref is not None:
        context.executor.perform(_check_of(context, choice.metric, choice.code, {"data": data, "reference": reference}))
        return choice
    labels = read_dataset(data.folder / TEST, model.signature.inputs).labels
    calls = RecordedSeries(reference.folder / ANSWERS)
    answers = (split_by_sample(call, batched=model.signature.batch is not None) for call in calls)
    first = split_by_sample(calls[0], batched=model.signature.batch is not None)
    samples = len(next(iter(first.values())))
    try:
        if labels is not None:
            named_metric(choice.metric).open(labels, answers).add(first, first, labels[:samples])
    except BadRequest as error:
        if choice.metric.requested or choice.allowed_loss is not None:
            raise
        return TaskChoice(note=f"the labels are not used: {error.what}; {_BY_HAND}")
    return choice


def choose_function(context: Context, text: str, allowed_loss: float | None) -> TaskChoice:
    """Let a worker load the user's function, which says its unit and direction.
    Raises BadRequest where there is none, or it goes against a limit of the request."""
    ref = code_ref(text, context.request.root)
    if text.endswith(".py"):
        raise BadRequest(f"the metric {text} names no function", fix=f"write it as {text}:FUNCTION")
    code = ref_digest(ref)
    options = CodeOptions.of(ref).to_json()
    entry = f"{_FUNCTIONS}:describe_function"
    action = Action(
        "metric", entry, options=options, code=code, root=ref.root, reads=ref.reads, limits=context.model_limits()
    )
    facts = FunctionFacts.from_json(context.executor.perform(action).facts)
    choice = MetricChoice(
        name=facts.name, unit=facts.unit, higher_is_better=facts.higher_is_better, ref=ref.text, root=ref.root
    )
    _check_allowed_loss(choice, allowed_loss)
    check_metric_limits(context.request.gate.limits, choice.kind)
    return TaskChoice(choice, allowed_loss, code)


def _check_of(context: Context, metric: MetricChoice, code: str, inputs: Mapping[str, Stored]) -> Action:
    """Return the action that calls a user's function once, with the reference's answers."""
    return Action(
        "metric",
        f"{_FUNCTIONS}:check_function",
        inputs=inputs,
        options=CodeOptions(ref=metric.ref or "", root=metric.root).to_json(),
        code=code,
        root=metric.root,
        reads=metric.reads,
        limits=context.model_limits(),
    )


def _check_allowed_loss(choice: MetricChoice, allowed_loss: float | None) -> None:
    if choice.unit == SHARE and allowed_loss is not None and allowed_loss > 1:
        raise BadRequest(
            f"{choice.name} is a share between 0 and 1, and its allowed loss cannot be {allowed_loss:g}",
            fix=f"write {allowed_loss:g} percentage points as {allowed_loss / 100:g}",
        )


def _check_numbers(labels: Array) -> None:
    """Raise BadRequest where labels are no numbers, or some are NaN or infinite."""
    if labels.dtype.kind not in "biuf":
        kind = "text" if labels.dtype.kind in "US" else labels.dtype
        raise BadRequest(f"the labels are {kind}, and no numbers", fix="write each class as its number from 0")
    broken = sum(int(np.count_nonzero(~np.isfinite(piece))) for piece in pieces(labels))
    if broken:
        raise BadRequest(
            f"{broken} of {labels.size} labels are NaN or infinite", fix="leave those samples out of the data"
        )


def _plain_choice(outputs: Sequence[TensorSpec], labels: Array | None, allowed_loss: float | None) -> TaskChoice:
    """Choose the plain metric by the shapes of labels and outputs, and say which."""
    if labels is None:
        if allowed_loss is not None:
            raise BadRequest(
                "an allowed loss needs a metric, and the data has no labels",
                fix="give --data FILE.npz with an array `labels` beside the inputs, or --data TABLE.csv?label=COLUMN",
            )
        return TaskChoice()
    _check_numbers(labels)
    for output in _scores_first(outputs):
        if name := _plain_metric(output, labels):
            kind = kind_of_metric(name)
            choice = MetricChoice(
                name=name, output=output.name, unit=kind.unit, higher_is_better=kind.higher_is_better, requested=False
            )
            _check_allowed_loss(choice, allowed_loss)
            judges = "" if allowed_loss is not None else "; it is reported and judges nothing without --allowed-loss"
            return TaskChoice(choice, allowed_loss, note=f"the metric is {name} of {output.name}, by its shape{judges}")
    if allowed_loss is not None:
        raise BadRequest(f"no metric is plain for labels of {describe_sample(labels)}", fix=_BY_HAND)
    return TaskChoice(note=f"the labels of {describe_sample(labels)} are not used: {_BY_HAND}")


def _scores_first(outputs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """Put the outputs of floats before those of integers: scores tell more than the classes beside them."""
    return sorted(outputs, key=lambda output: not _is_float(output))


def _is_float(output: TensorSpec) -> bool:
    return output.dtype.startswith(("float", "bfloat"))


def _plain_metric(output: TensorSpec, labels: Array) -> str | None:
    """Return the metric that fits an output and labels, by their shapes and values."""
    dims, classes = _dims(output), LabelRange.of(labels)
    floats = _is_float(output)
    if classes is not None:
        axis = class_axis(dims, (None, *classes.shape))
        size = None if axis is None else dims[axis]
        if axis is not None and floats and size != 1 and (size is None or classes.largest < size):
            return "miou" if len(classes.shape) > 1 else "accuracy"
        if classes.are_bits and _same(dims, labels) and floats and labels.dtype.kind != "f":
            return "map" if len(classes.shape) == 1 else "accuracy"
        if not floats and _same(dims, labels):
            return "miou" if len(classes.shape) > 1 else "accuracy"
    return "mae" if floats and labels.dtype.kind == "f" and _same(dims, labels) else None


def _fitting_output(name: str, outputs: Sequence[TensorSpec], labels: Array) -> TensorSpec:
    """Return the first output that the metric can be taken of. Raises BadRequest where none is."""
    classes = None if name in OF_VALUES else LabelRange.of(labels)
    if classes is None and name not in OF_VALUES:
        raise BadRequest(f"{name} needs labels that are whole numbers, and these are {labels.dtype}", fix=NAME_ANOTHER)
    for output in _scores_first(outputs):
        fits = _same(_dims(output), labels)
        if fits or (classes is not None and class_axis(_dims(output), (None, *classes.shape)) is not None):
            return output
    shapes = ", ".join(map(str, outputs))
    raise BadRequest(
        f"labels of {describe_sample(labels)} go with no output for {name}: {shapes}",
        fix="give the labels that the metric compares with an output, or write one: --metric FILE.py:FUNCTION",
    )


def _dims(output: TensorSpec) -> Dims:
    return tuple(size if isinstance(size, int) else None for size in output.shape)


def _same(dims: Dims, labels: Array) -> bool:
    """Return whether a sample's output has as many values as its label, axes of 1 aside."""
    own, other = ([size for size in shape[1:] if size != 1] for shape in (dims, labels.shape))
    return len(own) == len(other) and all(None in pair or pair[0] == pair[1] for pair in zip(own, other, strict=True))
