"""`transload new NAME`: a recipe of the user's own to start from, which runs as it is."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import BadRequest

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")

TEXT = '''"""{name}: three growers of wine, told apart by 13 measurements. Change what you need, keep the shape.

Try it, and run it through everything:

    transload run {file}
"""

import numpy as np
import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from torch import nn
from transload.models.dataset import Dataset
from transload.models.recipe import Metric, Recipe, Splits, Training
from transload.models.signature import Signature, TensorSpec


class Net(nn.Module):
    """Takes the inputs in the signature's order, and returns its outputs in the signature's order."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(13, 32)
        self.norm = nn.BatchNorm1d(32)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(32, 3)

    def forward(self, features):
        return self.head(self.drop(torch.relu(self.norm(self.hidden(features)))))


def data():
    """Three splits of float32 features (samples, 13) and int64 labels (samples,)."""
    loaded = load_wine()
    labels = loaded.target.astype(np.int64)
    rest, test = train_test_split(np.arange(len(labels)), test_size=70, stratify=labels, random_state=0)
    train, validation = train_test_split(rest, test_size=28, stratify=labels[rest], random_state=0)
    scaled = (loaded.data - loaded.data[train].mean(axis=0)) / loaded.data[train].std(axis=0)
    features = scaled.astype(np.float32)
    return Splits(*(Dataset({{"features": features[rows]}}, labels[rows]) for rows in (train, validation, test)))


def loss(outputs, labels):
    """Torch tensors by name, and the labels of the batch -> a scalar."""
    return nn.functional.cross_entropy(outputs["logits"], labels)


def correct(outputs, labels):
    """Arrays by name, and labels -> one score a sample; the metric is their mean, and higher is better."""
    return (outputs["logits"].argmax(axis=1) == labels).astype(float)


RECIPE = Recipe(
    name="{name}",
    summary="Wines by 13 measurements, a small multilayer perceptron",
    signature=Signature(
        inputs=(TensorSpec("features", "float32", ("batch", 13)),),
        outputs=(TensorSpec("logits", "float32", ("batch", 3)),),
    ),
    net=Net,
    data=data,
    metric=Metric("accuracy", correct),
    training=Training(epochs=40, batch_size=16, learning_rate=5e-3, loss=loss, patience=10),
    allowed_loss=0.05,  # how much accuracy a reduced precision may lose; choose what {tests} test samples can decide
    requires=("torch", "sklearn"),
)
'''


def write_recipe(name: str, folder: Path) -> Path:
    """Write a recipe called `name` into `folder` and return the path of its file. Replaces nothing.
    Raises BadRequest where the name is not allowed, or the file is there already."""
    if not _NAME.fullmatch(name):
        raise BadRequest(
            f"a recipe cannot be called {name!r}",
            fix="use small letters, digits and single hyphens, with a letter first, as in my-model",
        )
    path = folder / f"{name.replace('-', '_')}.py"
    try:
        with path.open("x") as file:
            file.write(TEXT.format(name=name, file=path.name, tests=70))
    except FileExistsError as error:
        raise BadRequest(f"{path} is there already", fix="choose another name, or move that file away") from error
    except FileNotFoundError as error:
        raise BadRequest(f"no such folder: {folder}", fix="make it, or name another") from error
    return path
