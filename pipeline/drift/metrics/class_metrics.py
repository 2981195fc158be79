"""Metrics of classifiers. Each gives a row a sample, which may be added, and a value of such sums.

Exactly scikit-learn's values where it has the metric; tests hold this. Workers of other environments lack scikit-learn,
and a value of sums is resampled thousands of times by one product of matrices.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....models.errors import BadRequest
from ....models.signature import Array
from .class_answers import NAME_ANOTHER, ClassAnswers, ClassForm, log_probabilities

Rows = Callable[[ClassForm, ClassAnswers], Array]  # -> (samples, columns) float64
Values = Callable[[Array], Array]  # sums (..., columns) -> (...)
_BINS = 15


def hits(form: ClassForm, answers: ClassAnswers) -> Array:
    """Return (right, counted) elements of each sample.
    A row that holds a NaN has no largest score and is wrong."""
    if form.bits:
        raise BadRequest(
            "accuracy is for one class a sample, and these labels are a 0 or 1 for each class",
            fix="use --metric f1, map or auroc",
        )
    right = (answers.predicted == answers.labels) & answers.counted
    return np.stack([right.sum(axis=1), answers.counted.sum(axis=1)], axis=-1).astype(np.float64)


def ratio(sums: Array) -> Array:
    """Return the first column over the second."""
    return np.asarray(sums[..., 0] / sums[..., 1])


def hits_among(places: int, form: ClassForm, answers: ClassAnswers) -> Array:
    """Return (hits, counted): whether the label is among the `places` largest scores, ties in the order of classes.
    Of labels that are a 0 or 1 for each class: the share of a sample's classes that is among them."""
    _need_scores(form, "the largest scores")
    scores = answers.scores[..., 1] if form.bits else answers.scores.reshape(-1, form.classes)
    if scores.shape[-1] <= places:
        raise BadRequest(
            f"the {places} largest of {scores.shape[-1]} classes always hold the label", fix="use --metric accuracy"
        )
    order = np.argsort(-scores, axis=-1, kind="stable")[..., :places]
    broken = np.isnan(scores).any(axis=-1)
    if form.bits:
        relevant = (answers.labels > 0).sum(axis=1)
        among = (np.take_along_axis(answers.labels, order, axis=1) > 0).sum(axis=1) * ~broken
        return np.stack([among / np.maximum(relevant, 1), relevant > 0], axis=-1).astype(np.float64)
    among = (order == answers.labels.reshape(-1, 1)).any(axis=-1) & ~broken
    right = among.reshape(answers.labels.shape) & answers.counted
    return np.stack([right.sum(axis=1), answers.counted.sum(axis=1)], axis=-1).astype(np.float64)


def class_counts(form: ClassForm, answers: ClassAnswers) -> Array:
    """Return (right, predicted, labelled) elements of each class, one block of columns after the other."""
    counted = answers.counted
    if form.bits:
        predicted, labelled = (answers.predicted == 1) & counted, answers.labels == 1
        return np.concatenate([predicted & labelled, predicted, labelled], axis=1).astype(np.float64)
    right = counted & (answers.predicted == answers.labels)
    of_labels = (right, answers.labels), (counted & (answers.predicted >= 0), answers.predicted)
    blocks = [_count(form.classes, *pair) for pair in (*of_labels, (counted, answers.labels))]
    return np.concatenate(blocks, axis=1)


def _count(classes: int, chosen: Array, values: Array) -> Array:
    """Count, for each sample, the chosen elements of each class."""
    samples = len(values)
    cells = (np.arange(samples)[:, np.newaxis] * classes + values)[chosen]
    return np.bincount(cells, minlength=samples * classes).reshape(samples, classes).astype(np.float64)


def f1_of(form: ClassForm) -> Values:
    """Return the F1 score: of class 1 where there are two, else the mean over the classes that occur."""

    def value(sums: Array) -> Array:
        right, predicted, labelled = np.split(sums, 3, axis=-1)
        if form.binary:
            right, predicted, labelled = (block[..., 1:] for block in (right, predicted, labelled))
        return _mean_of_present(2 * right, predicted + labelled)

    return value


def miou(sums: Array) -> Array:
    """Return the mean intersection over union (Jaccard index) over the classes that occur."""
    right, predicted, labelled = np.split(sums, 3, axis=-1)
    return _mean_of_present(right, predicted + labelled - right)


def _mean_of_present(part: Array, total: Array) -> Array:
    present = total > 0
    shares = np.divide(part, total, out=np.zeros_like(part), where=present)
    return np.asarray(shares.sum(axis=-1) / np.maximum(present.sum(axis=-1), 1))


def confidence_gaps(form: ClassForm, answers: ClassAnswers) -> Array:
    """Return right less confidence in each of 15 bins of the confidence in the predicted class, and the count."""
    _need_scores(form, "probabilities")
    if form.bits:
        raise BadRequest("ece is for one class a sample", fix=NAME_ANOTHER)
    confidence = np.exp(log_probabilities(form, answers)).max(axis=-1)
    counted = answers.counted & np.isfinite(confidence)
    bins = np.clip(np.ceil(np.where(counted, confidence, 0.0) * _BINS).astype(np.int64) - 1, 0, _BINS - 1)
    gaps = np.where(counted, (answers.predicted == answers.labels) - confidence, 0.0)
    samples = len(gaps)
    cells = (np.arange(samples)[:, np.newaxis] * _BINS + bins).ravel()
    sums = np.bincount(cells, weights=gaps.ravel(), minlength=samples * _BINS).reshape(samples, _BINS)
    return np.concatenate([sums, counted.sum(axis=1, keepdims=True)], axis=1).astype(np.float64)


def ece(sums: Array) -> Array:
    """Return the expected calibration error, 15 bins of equal width.
    Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML 2017, equation 3."""
    return np.asarray(np.abs(sums[..., :-1]).sum(axis=-1) / sums[..., -1])


def surprise(form: ClassForm, answers: ClassAnswers) -> Array:
    """Return (negative log likelihood in nats, tokens) of each sample. Tokens of a negative label do not count."""
    _need_scores(form, "scores of tokens")
    logs = log_probabilities(form, answers)
    chosen = np.take_along_axis(logs, np.maximum(answers.labels, 0)[..., np.newaxis], axis=-1)[..., 0]
    counted = answers.counted
    return np.stack([np.where(counted, -chosen, 0.0).sum(axis=1), counted.sum(axis=1)], axis=-1).astype(np.float64)


def perplexity(sums: Array) -> Array:
    """Return exp of the mean negative log likelihood of a token.
    Jelinek, Mercer, Bahl and Baker, J. Acoustical Society of America 62 (1977) S63."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(sums[..., 0] / sums[..., 1]))


def _need_scores(form: ClassForm, needs: str) -> None:
    if form.ids:
        raise BadRequest(f"the metric needs {needs}, and the output holds the classes themselves", fix=NAME_ANOTHER)
