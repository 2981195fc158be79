"""Area under the ROC curve and mean average precision, of weighted samples: neither is a function of sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....models.errors import BadRequest
from ....models.signature import Array
from .class_answers import NAME_ANOTHER, ClassAnswers, ClassForm

# Weights sorted by falling score (resamples, samples), which of them are positive, where a run of ties ends -> values.
_Curve = Callable[[Array, Array, Array], Array]


def ranking_rows(form: ClassForm, answers: ClassAnswers) -> Array:
    """Return each sample's scores and, behind them, a 0 or 1 for each class: (samples, 2 columns).
    Of two classes the second alone is ranked. A NaN comes last.
    Raises BadRequest where labels are no class a sample."""
    if form.ids or (answers.labels.shape[1] != 1 and not form.bits):
        raise BadRequest(
            "auroc and map rank the scores of samples, and need them with a class a sample", fix=NAME_ANOTHER
        )
    if form.bits:
        scores, truth = answers.scores[..., 1], answers.labels
    else:
        scores, truth = answers.scores[:, 0], answers.labels == np.arange(form.classes)
        if form.binary:
            scores, truth = scores[:, 1:] - (0 if form.probabilities else scores[:, :1]), truth[:, 1:]
    return np.concatenate([np.where(np.isnan(scores), -np.inf, scores), truth], axis=1).astype(np.float64)


def auroc(rows: Array, weights: Array) -> Array:
    """Return the area under the ROC curve of each row of weights: the mean over classes, each against the rest."""
    return _mean_over_classes(rows, weights, _area)


def mean_average_precision(rows: Array, weights: Array) -> Array:
    """Return the mean over classes of the average precision, sum (R_n - R_n-1) P_n over the thresholds."""
    return _mean_over_classes(rows, weights, _precision)


def _mean_over_classes(rows: Array, weights: Array, curve: _Curve) -> Array:
    """Average over the classes that have samples of both kinds; NaN where none has."""
    classes = rows.shape[1] // 2
    total, count = np.zeros(len(weights)), np.zeros(len(weights))
    for number in range(classes):
        scores, positive = rows[:, number], rows[:, classes + number]
        order = np.argsort(-scores, kind="stable")
        ends = np.append(np.diff(scores[order]) != 0, True)
        with np.errstate(all="ignore"):
            value = curve(weights[:, order], positive[order], ends)
        known = np.isfinite(value)
        total += np.where(known, value, 0.0)
        count += known
    return np.asarray(np.divide(total, count, out=np.full(len(weights), np.nan), where=count > 0))


def _area(weights: Array, positive: Array, ends: Array) -> Array:
    """Trapezoids between the thresholds: Fawcett, "An introduction to ROC analysis" (2006), algorithm 2."""
    hits, misses = _cumulated(weights, positive, ends), _cumulated(weights, 1 - positive, ends)
    area = ((hits[:, 1:] + hits[:, :-1]) * np.diff(misses, axis=1)).sum(axis=1) / 2
    return np.asarray(area / (hits[:, -1] * misses[:, -1]))


def _precision(weights: Array, positive: Array, ends: Array) -> Array:
    hits, misses = _cumulated(weights, positive, ends), _cumulated(weights, 1 - positive, ends)
    named = hits[:, 1:] + misses[:, 1:]
    precision = np.divide(hits[:, 1:], named, out=np.zeros_like(named), where=named > 0)
    return np.asarray((np.diff(hits, axis=1) * precision).sum(axis=1) / hits[:, -1])


def _cumulated(weights: Array, chosen: Array, ends: Array) -> Array:
    """Return the weight of the chosen samples above each threshold, beginning at 0."""
    sums = np.cumsum(weights * chosen, axis=1)[:, ends]
    return np.concatenate([np.zeros((len(weights), 1)), sums], axis=1)
