"""Whether the reference is better than one answer to everything: the commonest class, the mean or the median.

The task's metric compares both on the same samples, as it compares a copy with its source.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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

_MEDIAN_OF = 65_536  # samples, spread over all
_BEST = {"f1": 1.0, "auroc": 1.0, "r2": 1.0, "cosine": 1.0, "perplexity": 1.0}  # of a metric that is neither a share
_ENOUGH = 0.5  # of the way from chance to the best value: a reference that may have come as far is not doubted
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

    samples = sum(len(rows) for rows, _ in calls())
    names = [options.metric.output] if options.metric and options.metric.output else [*next(calls())[1]]
    for name in names if samples >= _LEAST else ():
        doubts = []
        for constant in _constants(labels, [answers[name] for _, answers in calls()]):
            try:
                pairs = metric.open(labels, [answers for _, answers in calls()])
                for rows, answers in calls():
                    fixed = np.broadcast_to(constant.answer, answers[name].shape).astype(answers[name].dtype)
                    pairs.add(answers, {**answers, name: fixed}, labels[rows])
                doubts.append(_doubt(pairs.row(None), constant, samples))
            except BadRequest:  # the metric has no value for an answer that never changes
                continue
        if doubts:
            return ChanceFacts(doubt=next(filter(None, doubts), None)).to_json()
    return ChanceFacts().to_json()


@dataclass(frozen=True)
class _Constant:
    """One answer to everything."""

    answer: Array  # of a sample
    name: str  # "the commonest class"
    classes: int = 0


def _constants(labels: Array, calls: Sequence[Array]) -> list[_Constant]:
    """Return what may be answered to everything, in the form of an output; none where labels do not belong to it."""
    form = None
    try:
        classes = LabelRange.of(labels)
        form = None if classes is None else find_form(classes, calls)
    except BadRequest:
        pass
    if form is not None:
        return _constant_classes(form, labels, calls[0].shape[1:])
    shape = calls[0].shape[1:]
    if calls[0].dtype.kind != "f" or math.prod(shape) != math.prod(labels.shape[1:]) or labels.dtype.kind not in "iuf":
        return []
    mean = sum(np.asarray(piece, np.float64).sum(axis=0) for piece in pieces(labels)) / len(labels)
    median = np.median(labels[:: -(-len(labels) // _MEDIAN_OF)], axis=0)
    pairs = (mean, "the mean"), (median, "the median")
    return [_Constant(np.asarray(value).reshape(shape), name) for value, name in pairs]


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
    return [_Constant(_as_answer(form, own, shape), "the commonest class" if own is shares else "the other class",
                      form.classes) for own in orders]  # fmt: skip


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
    text = f"{row['name']} {own}{classes}, always answering {constant.name} gives {fixed}"
    if sign * (row["reference"] - row["candidate"]) <= 0:
        return f"the reference is no better than chance: {text}"
    return f"nothing shows that the reference is better than chance: {text}, and {samples:,} samples tell no difference"
