"""Outputs and labels of a classifier in one form: (samples, elements) labels, scores with the classes along the end.

An element is a sample, a pixel or a token. How an output is read is decided once, by the reference's answers, and then
holds for both sides: a copy is never read in another way than its model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ....models.data_checks.class_labels import LabelRange, class_axis
from ....models.errors import BadRequest
from ....models.signature import Array

_NEAR_ONE = 1e-3  # that the probabilities of a row may miss in their sum
NAME_ANOTHER = "name another metric, or write one: --metric FILE.py:FUNCTION"


@dataclass(frozen=True)
class ClassForm:
    """How an output is read: its class axis, the number of classes, and whether it holds probabilities."""

    classes: int
    axis: int | None = None  # of the classes in the output; None: the output has the shape of the labels
    ids: bool = False  # the output holds the classes themselves
    bits: bool = False  # each column is a class of its own, which a sample has or not
    probabilities: bool = False
    columns: int = 1  # of `bits`

    @property
    def binary(self) -> bool:
        """Whether there are two classes, of which 1 is the one that is looked for."""
        return self.classes == 2 and not self.bits


@dataclass(frozen=True)
class ClassAnswers:
    """One side's answers to some samples. Elements of a negative label do not count."""

    labels: Array  # int64 (samples, elements)
    predicted: Array  # int64 (samples, elements); -1 where a score is NaN
    scores: Array  # float64 (samples, elements, classes): logits or probabilities; empty where the output holds ids

    @property
    def counted(self) -> Array:
        """Whether an element counts, bool (samples, elements)."""
        return self.labels >= 0


def describe_sample(array: Array) -> str:
    """Return the shape of a sample as text: "the shape [samples, 3, 3]"."""
    return _describe_shape(array.shape[1:])


def _describe_shape(shape: Sequence[int]) -> str:
    return f"the shape [{', '.join(['samples', *map(str, shape)])}]"


def find_form(labels: LabelRange, reference: Iterable[Array]) -> ClassForm:
    """Find out how an output is to be read, from all labels and the reference's calls.
    Raises BadRequest where labels and output do not go together."""
    calls = iter(reference)
    first_call = next(calls)
    first = _like_labels(first_call, 1 + len(labels.shape))
    axis = class_axis(first.shape[:1] + first.shape[1:], first.shape[:1] + labels.shape)
    if axis is None and first.shape[1:] != labels.shape:
        raise BadRequest(
            f"labels of {_describe_shape(labels.shape)} do not go with an output of {describe_sample(first)}",
            fix=NAME_ANOTHER,
        )
    if axis is not None:
        classes = first.shape[axis]
        _check_range(labels, classes)
        return ClassForm(classes, axis, probabilities=_are_probabilities(chain([first_call], calls), axis))
    if first.dtype.kind in "biu":
        largest = max(labels.largest, *(int(call.max(initial=0)) for call in chain([first_call], calls)))
        return ClassForm(largest + 1, ids=True)
    _check_range(labels, 2)
    within = all(bool(((call >= 0) & (call <= 1)).all()) for call in chain([first_call], calls))
    bits = len(labels.shape) == 1
    return ClassForm(2, bits=bits, probabilities=within, columns=labels.shape[0] if bits else 1)


def _check_range(labels: LabelRange, classes: int) -> None:
    if labels.largest >= classes:
        raise BadRequest(
            f"the label {labels.largest} is none of {classes} classes, which count from 0",
            fix="check the labels in the data; a negative label does not count",
        )


def _are_probabilities(reference: Iterable[Array], axis: int) -> bool:
    """Return whether all answers are at least 0 and add up to 1."""
    return all(
        bool((call >= 0).all() and np.allclose(call.astype(np.float64).sum(axis=axis), 1, atol=_NEAR_ONE))
        for call in reference
    )


def _like_labels(output: Array, axes: int) -> Array:
    """Drop an axis of one channel, which labels of `axes` axes lack."""
    return output[:, 0] if output.ndim == axes + 1 and output.shape[1] == 1 else output


def read_answers(form: ClassForm, output: Array, labels: Array) -> ClassAnswers:
    """Read one call: an output, and the int64 labels of its samples."""
    samples = len(labels)
    elements = math.prod(labels.shape[1:])
    output = output if form.axis is not None else _like_labels(output, labels.ndim)
    rows = labels.reshape(samples, elements)
    if form.ids:
        ids = output.reshape(samples, elements).astype(np.int64)
        ids = np.where((ids >= 0) & (ids < form.classes), ids, -1)
        return ClassAnswers(rows, ids, np.empty((samples, elements, 0)))
    if form.axis is None:
        ones = output.reshape(samples, elements).astype(np.float64)
        scores = np.stack([1 - ones if form.probabilities else np.zeros_like(ones), ones], axis=-1)
    else:
        scores = np.moveaxis(output, form.axis, -1).reshape(samples, elements, form.classes).astype(np.float64)
    largest = scores.argmax(axis=-1)  # a NaN, where there is one
    broken = np.isnan(np.take_along_axis(scores, largest[..., np.newaxis], axis=-1)[..., 0])
    return ClassAnswers(rows, np.where(broken, -1, largest), scores)


def log_probabilities(form: ClassForm, answers: ClassAnswers) -> Array:
    """Return the logarithms of the classes' probabilities, (samples, elements, classes)."""
    scores = answers.scores
    if form.probabilities:
        return np.log(np.maximum(scores, np.finfo(np.float32).tiny))
    largest = scores.max(axis=-1, keepdims=True)
    shifted: Array = scores - np.where(np.isfinite(largest), largest, 0.0)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))
