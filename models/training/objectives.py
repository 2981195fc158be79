"""What classifiers are trained and judged by: a loss of torch, and a metric of numpy alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..recipe import Metric
from ..signature import Array

if TYPE_CHECKING:
    import torch


def cross_entropy(output: str) -> Callable[[Mapping[str, torch.Tensor], torch.Tensor], torch.Tensor]:
    """Return a loss: mean cross entropy of the logits in `output` (batch, classes) against int64 labels (batch,)."""
    return partial(_cross_entropy, output=output)


def _cross_entropy(outputs: Mapping[str, torch.Tensor], labels: torch.Tensor, *, output: str) -> torch.Tensor:
    from torch.nn import functional

    return functional.cross_entropy(outputs[output], labels)


def accuracy(output: str) -> Metric:
    """Score 1 where the largest value along the last axis of `output`, shape (samples, classes), is the label, else 0.
    A row that holds a NaN has no largest value and scores 0."""
    return Metric("accuracy", partial(_is_argmax, output=output))


def _is_argmax(outputs: Mapping[str, Array], labels: Array, *, output: str) -> Array:
    scores = outputs[output]
    right = (scores.argmax(axis=-1) == labels) & ~np.isnan(scores).any(axis=-1)
    return np.asarray(right, dtype=np.float64)
