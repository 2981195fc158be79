"""digits-pair: two handwritten digits, and which of them is the larger number. Two inputs, one encoder for both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..dataset import Dataset
from ..recipe import Recipe, Splits, Training
from ..signature import Array, Signature, TensorSpec
from ..training.objectives import accuracy, cross_entropy
from .digits import PIXELS, PREPROCESSING, SPLIT_SEED, as_images, shift_images

if TYPE_CHECKING:
    import torch

LEFT, EQUAL, RIGHT = 0, 1, 2  # which is larger
_TRAIN_ROUNDS = 4  # each training image stands on the left this often


def net() -> torch.nn.Module:
    """Map images left and right, each (batch, 1, 8, 8) in 0..1, to logits (batch, 3): left is larger, equal, right."""
    import torch
    from torch import nn

    def block(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(
                *block(1, 32), *block(32, 48), nn.MaxPool2d(2), *block(48, 64), nn.MaxPool2d(2), nn.Flatten(),
                nn.Linear(256, 64), nn.ReLU(), nn.Dropout(0.2),
            )  # fmt: skip
            self.head = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 3))

        def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
            seen = torch.cat([self.encoder(left), self.encoder(right)], dim=1)
            logits: torch.Tensor = self.head(seen)
            return logits

    return Pair()


def data() -> Splits:
    """Pair digits within each split: no image of the test split is seen before."""
    digits = as_images()
    rng = np.random.default_rng(SPLIT_SEED)
    return Splits(
        _pairs(digits.train, _TRAIN_ROUNDS, rng), _pairs(digits.validation, 2, rng), _pairs(digits.test, 1, rng)
    )


def _pairs(images: Dataset, rounds: int, rng: np.random.Generator) -> Dataset:
    labels = np.asarray(images.labels)
    left = np.tile(np.arange(len(labels)), rounds)
    right = np.array([_partner(labels, labels[row], rng) for row in left])
    order = np.sign(labels[right] - labels[left]) + EQUAL
    image = images.inputs["image"]
    return Dataset({"left": image[left], "right": image[right]}, order.astype(np.int64))


def _partner(labels: Array, label: int, rng: np.random.Generator) -> int:
    """Choose a row whose digit is smaller than, equal to or larger than `label`, each as likely where there is one."""
    kinds = [rows for rows in (labels < label, labels == label, labels > label) if rows.any()]
    return int(rng.choice(np.flatnonzero(kinds[rng.integers(len(kinds))])))


def augment(inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> Mapping[str, torch.Tensor]:
    """Shift the images: writers do not centre their digits alike."""
    return {name: shift_images(images, generator) for name, images in inputs.items()}


_IMAGE = ("batch", 1, 8, 8)
RECIPE = Recipe(
    name="digits-pair",
    summary="Two handwritten digits, which is larger; two inputs through one convolutional encoder",
    signature=Signature(
        (TensorSpec("left", "float32", _IMAGE, values=PIXELS), TensorSpec("right", "float32", _IMAGE, values=PIXELS)),
        (TensorSpec("logits", "float32", ("batch", 3)),),
    ),
    net=net,
    data=data,
    metric=accuracy("logits"),
    training=Training(
        epochs=20,
        batch_size=128,
        learning_rate=3e-3,
        loss=cross_entropy("logits"),
        weight_decay=0.01,
        patience=6,
        augment=augment,
    ),
    allowed_loss=0.02,
    requires=("torch", "sklearn"),
    labels=("left is larger", "equal", "right is larger"),
    preprocessing=PREPROCESSING,
)
