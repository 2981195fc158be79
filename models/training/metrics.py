"""Task metrics as one score a sample, so that two models can be compared in pairs. numpy only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from ..recipe import Metric
from ..signature import Array


def accuracy(output: str) -> Metric:
    """Score 1 where the largest value along the last axis of `output`, shape (samples, classes), is the label, else 0.
    A row that holds a NaN has no largest value and scores 0."""
    return Metric("accuracy", partial(_is_argmax, output=output))


def _is_argmax(outputs: Mapping[str, Array], labels: Array, *, output: str) -> Array:
    scores = outputs[output]
    right = (scores.argmax(axis=-1) == labels) & ~np.isnan(scores).any(axis=-1)
    return np.asarray(right, dtype=np.float64)
