"""digits-cnn: a small convolutional net that names a handwritten digit. The default of `transload run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..recipe import Recipe, Training
from ..signature import Signature, TensorSpec
from ..training.objectives import accuracy, cross_entropy
from .digits import CLASSES, PIXELS, PREPROCESSING, as_images, augment_images

if TYPE_CHECKING:
    import torch


def net() -> torch.nn.Module:
    """Map an image (batch, 1, 8, 8) in 0..1 to logits (batch, 10); 150,250 parameters."""
    from torch import nn

    def block(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(
        *block(1, 32),
        *block(32, 64),
        nn.MaxPool2d(2),
        *block(64, 96),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(96 * 2 * 2, 192),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(192, 10),
    )


RECIPE = Recipe(
    name="digits-cnn",
    summary="Handwritten digits, a convolutional net with batch norm",
    signature=Signature(
        (TensorSpec("image", "float32", ("batch", 1, 8, 8), values=PIXELS),),
        (TensorSpec("logits", "float32", ("batch", 10)),),
    ),
    net=net,
    data=as_images,
    metric=accuracy("logits"),
    training=Training(
        epochs=30,
        batch_size=64,
        learning_rate=2e-3,
        loss=cross_entropy("logits"),
        weight_decay=0.01,
        patience=15,
        augment=augment_images,
    ),
    allowed_loss=0.02,
    requires=("torch", "sklearn"),
    labels=CLASSES,
    preprocessing=PREPROCESSING,
)
