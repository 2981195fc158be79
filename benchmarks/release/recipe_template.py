"""A small recipe of the benchmark of releases; its settings are written at the top of each copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from transload.models.dataset import Dataset
from transload.models.recipe import Metric, Recipe, Splits, Training
from transload.models.signature import Array, Signature, TensorSpec
from transload.models.training.objectives import accuracy, cross_entropy

if TYPE_CHECKING:
    import torch

SETTINGS: dict[str, Any] = {"data": "digits", "share": 1.0, "wrong": 0.0}
SIZES = {"digits": (64, 10), "classes": (20, 2), "imbalanced": (20, 2), "friedman": (10, 1)}


def _load() -> tuple[Array, Array]:
    from sklearn import datasets

    name = SETTINGS["data"]
    if name == "digits":
        return datasets.load_digits(return_X_y=True)
    if name == "friedman":
        return datasets.make_friedman1(6000, noise=1.0, random_state=0)
    weights = [0.93] if name == "imbalanced" else None
    return datasets.make_classification(
        8000, n_features=20, n_informative=8, weights=weights, class_sep=1.5, flip_y=0.0, random_state=0
    )


def data() -> Splits:
    """Split the samples; of the labels that are trained on a share may be wrong."""
    features, labels = _load()
    features = ((features - features.mean(0)) / (features.std(0) + 1e-6)).astype(np.float32)
    regression = SETTINGS["data"] == "friedman"
    labels = labels.astype(np.float32)[:, None] if regression else labels.astype(np.int64)
    order = np.random.default_rng(7).permutation(len(features))
    half, tenth = len(order) // 2, len(order) // 10
    test, validation, train = order[:half], order[half : half + tenth], order[half + tenth :]
    train = train[: int(len(train) * SETTINGS["share"])]
    taught = labels.copy()
    wrong = train[np.random.default_rng(8).random(len(train)) < SETTINGS["wrong"]]
    taught[wrong] = np.random.default_rng(9).permutation(labels[wrong])
    parts = [(taught, train), (taught, validation), (labels, test)]
    return Splits(*(Dataset({"x": features[rows]}, own[rows]) for own, rows in parts))


def net() -> torch.nn.Module:
    """Map features (batch, inputs) to outputs (batch, classes) or (batch, 1)."""
    from torch import nn

    inputs, outputs = SIZES[SETTINGS["data"]]
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, outputs))


def loss(outputs: Mapping[str, torch.Tensor], labels: torch.Tensor) -> torch.Tensor:
    """Return the mean squared error."""
    return ((outputs["y"] - labels) ** 2).mean()


def absolute_error(outputs: Mapping[str, Array], labels: Array) -> Array:
    """Return the absolute error of each sample."""
    return np.abs(outputs["y"] - labels)[:, 0]


IS_REGRESSION = SETTINGS["data"] == "friedman"
RECIPE = Recipe(
    name=f"release-{SETTINGS['data']}",
    summary="A small perceptron",
    signature=Signature(
        (TensorSpec("x", "float32", ("batch", SIZES[SETTINGS["data"]][0])),),
        (TensorSpec("y", "float32", ("batch", SIZES[SETTINGS["data"]][1])),),
    ),
    net=net,
    data=data,
    metric=Metric("mae", absolute_error, "", higher_is_better=False) if IS_REGRESSION else accuracy("y"),
    training=Training(
        epochs=15, batch_size=64, learning_rate=3e-3, loss=loss if IS_REGRESSION else cross_entropy("y"), patience=15
    ),
    allowed_loss=0.05,
)
