"""Metrics of regressions: outputs and labels of one shape."""

from __future__ import annotations

import numpy as np

from ....models.errors import BadRequest
from ....models.signature import Array
from .class_answers import NAME_ANOTHER, describe_sample

_MOST_COLUMNS = 1024  # values of a sample that r2 keeps sums of


def as_values(output: Array, labels: Array) -> tuple[Array, Array]:
    """Return an output and its labels as float64 (samples, values).
    Raises BadRequest where a sample's shapes differ in more than axes of 1."""
    shapes = [[size for size in array.shape[1:] if size != 1] for array in (output, labels)]
    if shapes[0] != shapes[1]:
        raise BadRequest(
            f"labels of {describe_sample(labels)} do not go with an output of {describe_sample(output)}",
            fix=NAME_ANOTHER,
        )
    rows = (np.asarray(array, np.float64).reshape(len(array), -1) for array in (output, labels))
    flat, truth = rows
    return flat, truth


def absolute_errors(output: Array, labels: Array) -> Array:
    """Return the mean absolute error of each sample, (samples,)."""
    return np.asarray(np.abs(output - labels).mean(axis=1))


def cosines(output: Array, labels: Array) -> Array:
    """Return the cosine of each sample's output and label, (samples,); 0 where one of the two is 0."""
    dot = (output * labels).sum(axis=1)
    norms = np.linalg.norm(output, axis=1) * np.linalg.norm(labels, axis=1)
    return np.asarray(np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0))


def squared_errors(output: Array, labels: Array) -> Array:
    """Return (sum of squared errors, values) of each sample."""
    gaps = np.square(output - labels).sum(axis=1)
    return np.stack([gaps, np.full(len(gaps), float(output.shape[1]))], axis=-1)


def rmse(sums: Array) -> Array:
    """Return the root of the mean squared error over all values of all samples."""
    return np.asarray(np.sqrt(sums[..., 0] / sums[..., 1]))


def r2_rows(output: Array, labels: Array, centre: Array) -> Array:
    """Return (squared error, label, squared label) of each value, and 1 for the sample; labels less their `centre`.
    Raises BadRequest where a sample has more than 1,024 values."""
    if output.shape[1] > _MOST_COLUMNS:
        raise BadRequest(f"r2 takes at most {_MOST_COLUMNS:,} values a sample, got {output.shape[1]:,}", fix="use rmse")
    own = labels - centre
    return np.concatenate([np.square(output - labels), own, np.square(own), np.ones((len(own), 1))], axis=1)


def r2(sums: Array) -> Array:
    """Return the coefficient of determination, the mean over the values of a sample.
    As scikit-learn's: where labels do not vary it is 1 for answers without an error, else 0."""
    errors, labels, squares = np.split(sums[..., :-1], 3, axis=-1)
    spread = squares - np.square(labels) / sums[..., -1:]
    varies = spread > 1e-12 * np.maximum(squares, np.finfo(np.float64).tiny)
    score = 1 - np.divide(errors, spread, out=np.zeros_like(errors), where=varies)
    return np.asarray(np.where(varies, score, np.where(errors > 0, 0.0, 1.0)).mean(axis=-1))
