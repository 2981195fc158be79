"""A recipe: a net, its data, its training, and the metric of its task.

Recipes are read without a framework (`transload zoo` lists them in a moment): a recipe names functions,
and those import torch when a worker calls them. A user's recipe is one file of the same shape; its module
holds one Recipe in the name RECIPE (docs/recipes.md, `transload new NAME`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .dataset import Dataset
from .job_records import RecipeFacts
from .signature import Array, Signature

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Splits:
    """Training split (also calibrates int8), validation split (decides when to stop) and test split (judges)."""

    train: Dataset
    validation: Dataset
    test: Dataset


@dataclass(frozen=True)
class Metric:
    """The task's metric as one score a sample, so that two models can be compared in pairs.
    `score(outputs, labels)` returns shape (samples,); the metric is its mean. `unit`: "share" of a part of 1, which is
    read in per cent; "" or a word of its own; None: "share" where all scores are 0 or 1."""

    name: str
    score: Callable[[Mapping[str, Array], Array], Array]
    unit: str | None = None
    higher_is_better: bool = True


@dataclass(frozen=True)
class Training:
    """How a net is fitted (fit.py). `patience`: epochs without a better validation loss before it stops."""

    epochs: int
    batch_size: int
    learning_rate: float
    loss: Callable[[Mapping[str, torch.Tensor], torch.Tensor], torch.Tensor]  # (outputs by name, labels) -> scalar
    weight_decay: float = 0.0
    patience: int = 5
    # (inputs by name, random generator) -> inputs: a change to a batch in training alone
    augment: Callable[[Mapping[str, torch.Tensor], torch.Generator], Mapping[str, torch.Tensor]] | None = None

    def __post_init__(self) -> None:
        if min(self.epochs, self.batch_size, self.patience) < 1 or self.learning_rate <= 0:
            raise ValueError(f"epochs, batch_size and patience are 1 or more and learning_rate above 0, got {self}")


@dataclass(frozen=True)
class Recipe:
    """Everything that a run needs to know of a model.
    `net` takes the inputs as positional arguments in the signature's order, and returns its outputs in the signature's
    order (a tensor where there is one)."""

    name: str
    summary: str
    signature: Signature  # axis 0 of every input and output is the dynamic "batch"
    net: Callable[[], torch.nn.Module]
    data: Callable[[], Splits]
    metric: Metric
    training: Training
    allowed_loss: float  # how much of the metric, absolute, a reduced precision may lose
    requires: tuple[str, ...] = field(default=("torch",))  # modules that net and data import
    labels: tuple[str, ...] = ()  # what the classes are called, in their order
    preprocessing: str = ""  # how an input is made of what there is in the world: a phrase

    def __post_init__(self) -> None:
        most = 1 if self.metric.unit in (None, "share") else math.inf
        if not 0 <= self.allowed_loss <= most:
            raise ValueError(f"allowed_loss lies in 0..{most}, got {self.allowed_loss}")

    def describe(self) -> dict[str, Any]:
        """Return the facts that cross a process border, as JSON values."""
        return RecipeFacts(
            name=self.name,
            summary=self.summary,
            signature=self.signature,
            metric=self.metric.name,
            allowed_loss=self.allowed_loss,
            requires=self.requires,
            labels=self.labels,
            preprocessing=self.preprocessing,
            metric_unit=self.metric.unit or "",
            higher_is_better=self.metric.higher_is_better,
        ).to_json()
