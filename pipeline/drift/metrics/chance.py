"""Whether the reference is better than one answer to everything: the commonest class, the mean or the median.

The task's metric compares both on the same samples, as it compares a copy with its source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ....models.array_file import pieces
from ....models.data_checks.class_labels import LabelRange, as_classes
from ....models.errors import BadRequest
from ....models.job import Facts, Job
from ....models.probes.evidence import Answers
from ....models.signature import Array
from ..drift_records import CheckOptions
from ..recorded_answers import read_record, scored_answers
from ..sessions import read_test_set
from .chosen_metric import metric_of
from .class_answers import ClassForm, find_form
from .metric_kinds import SHARE
from .metric_text import format_value
from .task_metric import TaskMetric

_Calls: TypeAlias = Callable[[], Iterator[tuple[Array, Answers]]]

_MEDIAN_OF = 65_536  # samples, spread over all
_BEST = {"f1": 1.0, "auroc": 1.0, "r2": 1.0, "cosine": 1.0, "perplexity": 1.0}  # of a metric that is neither a share
_ENOUGH = 0.5  # of the way from chance to the best value: a reference that may have come as far is not doubted
_MEANS = ("f1", "map", "miou")  # over classes: a guess of all of them is better than one of them
_MOST_BYTES = 64 << 20  # of answers that are put in another order
_LEAST = 8  # samples: of fewer nothing is said


@dataclass(frozen=True, kw_only=True)
class ChanceFacts(Facts):
    """A sentence where nothing shows that the reference is better than chance."""

    doubt: str | None = None


def compare_with_chance(job: Job) -> Mapping[str, Any]:
    """Compare the recorded answers in inputs["reference"] with one answer to everything: CheckOptions -> ChanceFacts.
    Nothing is said where the metric has no value for it, or the labels belong to no output."""
    options, record = CheckOptions.from_json(job.options), read_record(job.inputs["reference"])
    labels, metric = read_test_set(job, record.signature.inputs).labels, metric_of(options)
    if labels is None or metric is None or (options.metric and options.metric.name == "ece"):
        return ChanceFacts().to_json()

    def calls() -> Iterator[tuple[Array, Answers]]:
        return scored_answers(job.inputs["reference"], record, len(labels))

    (_, first), samples = next(calls()), sum(len(rows) for rows, _ in calls())
    for name in [options.metric.output] if options.metric and options.metric.output else first:
        constants = _constants(labels, lambda: (answers[name] for _, answers in calls()))  # noqa: B023
        if not constants or samples < _LEAST:
            continue
        is_mean = options.metric is not None and options.metric.name in _MEANS
        if is_mean and first[name].nbytes / len(first[name]) * samples < _MOST_BYTES:
            constants.append(_shuffled([answers[name] for _, answers in calls()]))
        doubts = (_doubt(row, constant, samples) for row, constant in _compared(metric, labels, calls, name, constants))
        return ChanceFacts(doubt=next(filter(None, doubts), None)).to_json()
    return ChanceFacts().to_json()


def _compared(
    metric: TaskMetric, labels: Array, calls: _Calls, name: str, constants: Sequence[_Constant]
) -> Iterator[tuple[Mapping[str, Any], _Constant]]:
    """Yield the metric of the reference beside that of each other answer; none where the metric has no value for it."""
    for constant in constants:
        start = 0
        with suppress(BadRequest):
            pairs = metric.open(labels, (answers for _, answers in calls()))
            for rows, answers in calls():
                fixed = np.broadcast_to(constant.answer(start, len(rows)), answers[name].shape)
                pairs.add(answers, {**answers, name: fixed.astype(answers[name].dtype)}, labels[rows])
                start += len(rows)
            yield pairs.result(None).row, constant


@dataclass(frozen=True)
class _Constant:
    """Answers that know nothing of a sample."""

    answer: Callable[[int, int], Array]  # to so many samples from the first one on
    name: str  # "always answering the mean gives"
    classes: int = 0


def _fixed(answer: Array, name: str, classes: int = 0) -> _Constant:
    return _Constant(lambda *_: answer, f"always answering {name} gives", classes)


def _shuffled(calls: Sequence[Array]) -> _Constant:
    """Return the reference's own answers, each to another sample."""
    answers = np.concatenate(calls)
    answers = answers[np.random.default_rng(0).permutation(len(answers))]
    return _Constant(lambda start, count: answers[start : start + count], "its answers to other samples give")


def _constants(labels: Array, calls: Callable[[], Iterator[Array]]) -> list[_Constant]:
    """Return what may be answered to everything, in the form of an output; none where labels do not belong to it."""
    form, first = None, next(calls())
    with suppress(BadRequest):
        classes = LabelRange.of(labels)
        form = None if classes is None else find_form(classes, calls())
    shape = first.shape[1:]
    if form is not None:
        return _constant_classes(form, labels, shape)
    if first.dtype.kind != "f" or math.prod(shape) != math.prod(labels.shape[1:]) or labels.dtype.kind not in "iuf":
        return []
    mean = sum(np.asarray(piece, np.float64).sum(axis=0) for piece in pieces(labels)) / len(labels)
    median = np.median(labels[:: -(-len(labels) // _MEDIAN_OF)], axis=0)
    both = (mean, "the mean"), (median, "the median")
    return [_fixed(np.asarray(value).reshape(shape), name) for value, name in both]


def _constant_classes(form: ClassForm, labels: Array, shape: tuple[int, ...]) -> list[_Constant]:
    """Return the frequencies of the classes as scores, so that the commonest has the largest; of two also the other."""
    counts: Any = 0
    for piece in pieces(labels):
        own = np.asarray(as_classes(piece))
        if form.bits:
            counts = counts + np.stack([(own == 0).sum(axis=0), (own == 1).sum(axis=0)], axis=-1)
        else:
            counts = counts + np.bincount(own[own >= 0], minlength=form.classes)
    shares = (counts + 0.5) / (counts + 0.5).sum(axis=-1, keepdims=True)
    orders = (shares, shares[..., ::-1]) if form.classes == 2 else (shares,)
    names = "the commonest class", "the other class"
    return [_fixed(_as_answer(form, own, shape), name, form.classes) for own, name in zip(orders, names, strict=False)]


def _as_answer(form: ClassForm, shares: Array, shape: tuple[int, ...]) -> Array:
    if form.ids:
        return np.full(shape, int(shares.argmax()))
    scores = shares if form.probabilities else np.log(shares)
    if form.axis is not None:
        return np.broadcast_to(scores.reshape([-1, *[1] * (len(shape) - form.axis)]), shape)
    score = shares[..., 1] if form.probabilities else scores[..., 1] - scores[..., 0]
    return np.broadcast_to(score if form.bits else np.asarray(score), shape)


def _doubt(row: Mapping[str, Any], constant: _Constant, samples: int) -> str | None:
    """Return the sentence of a doubt, by the 95 % interval of the difference: None where the reference is better, or
    where it may be much better, for all that the samples tell."""
    sign = 1 if row["higher_is_better"] else -1
    low, high = sorted(-sign * end for end in row["ci95"])
    best = _BEST.get(row["name"], 1.0 if row["unit"] == SHARE else math.nan if row["higher_is_better"] else 0.0)
    room = sign * (best - row["candidate"])
    if low > 0 or room <= 0 or not (high < _ENOUGH * room or (math.isnan(room) and high <= 0)):
        return None
    own, fixed = (format_value(row[side], row["unit"]) for side in ("reference", "candidate"))
    classes = f" of {constant.classes} classes" if constant.classes else ""
    text = f"{row['name']} {own}{classes}, {constant.name} {fixed}"
    if sign * (row["reference"] - row["candidate"]) <= 0:
        return f"the reference is no better than chance: {text}"
    return f"nothing shows that the reference is better than chance: {text}, and {samples:,} samples tell no difference"
