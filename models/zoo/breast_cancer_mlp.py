"""breast-cancer-mlp: benign or malignant, from 30 measurements of cell nuclei. Tabular.

Street, Wolberg and Mangasarian, 1993 (UCI, Breast Cancer Wisconsin Diagnostic); scikit-learn carries the 569 rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..dataset import Dataset
from ..recipe import Recipe, Splits, Training
from ..signature import Signature, TensorSpec
from ..training.objectives import accuracy, cross_entropy

if TYPE_CHECKING:
    import torch

TEST, VALIDATION = 228, 57  # leaves 284: the test split must be large enough to tell a loss of a few per cent
SPLIT_SEED = 20260101


def net() -> torch.nn.Module:
    """Map standardised features (batch, 30) to logits (batch, 2): malignant, benign."""
    from torch import nn

    def block(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU(), nn.Dropout(0.3)]

    return nn.Sequential(*block(30, 64), *block(64, 32), nn.Linear(32, 2))


def data() -> Splits:
    """Scale the features by the training split's mean and deviation.
    That is done here and not in the net: raw, they reach from 0.001 to 4,254, and one int8 scale for all of them would
    round most of them to zero."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    loaded = load_breast_cancer()
    labels = loaded.target.astype(np.int64)
    rest, test = train_test_split(np.arange(len(labels)), test_size=TEST, stratify=labels, random_state=SPLIT_SEED)
    train, validation = train_test_split(rest, test_size=VALIDATION, stratify=labels[rest], random_state=SPLIT_SEED)
    mean, deviation = loaded.data[train].mean(axis=0), loaded.data[train].std(axis=0)
    features = ((loaded.data - mean) / deviation).astype(np.float32)
    return Splits(*(Dataset({"features": features[rows]}, labels[rows]) for rows in (train, validation, test)))


RECIPE = Recipe(
    name="breast-cancer-mlp",
    summary="Breast cancer by 30 measurements, a multilayer perceptron with batch norm",
    signature=Signature(
        (TensorSpec("features", "float32", ("batch", 30)),), (TensorSpec("logits", "float32", ("batch", 2)),)
    ),
    net=net,
    data=data,
    metric=accuracy("logits"),
    training=Training(
        epochs=60,
        batch_size=32,
        learning_rate=3e-3,
        loss=cross_entropy("logits"),
        weight_decay=0.05,
        patience=15,
    ),
    allowed_loss=0.03,
    requires=("torch", "sklearn"),
    labels=("malignant", "benign"),
    preprocessing="the 30 measurements in the order of sklearn.datasets.load_breast_cancer, each minus the mean of the "
    "training split and divided by its standard deviation",
)
