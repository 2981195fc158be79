"""digits-gru: a recurrent net that reads a handwritten digit row by row, from both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..recipe import Recipe, Splits, Training
from ..signature import Signature, TensorSpec
from ..training.objectives import accuracy, cross_entropy
from .digits import CLASSES, PIXELS, PREPROCESSING, split_digits

if TYPE_CHECKING:
    import torch


def net() -> torch.nn.Module:
    """Map rows (batch, 8, 8), the upper row first, in 0..1 to logits (batch, 10)."""
    from torch import nn

    class RowReader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(8, 64, num_layers=2, batch_first=True, bidirectional=True)
            self.drop = nn.Dropout(0.2)
            self.head = nn.Linear(128, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            read, _ = self.gru(rows)  # (batch, 8, 128)
            logits: torch.Tensor = self.head(self.drop(read.mean(dim=1)))
            return logits

    return RowReader()


def data() -> Splits:
    """Return the digits as sequences of eight rows."""
    return split_digits(lambda images: {"rows": images})


RECIPE = Recipe(
    name="digits-gru",
    summary="Handwritten digits as eight rows, a GRU in both directions",
    signature=Signature(
        (TensorSpec("rows", "float32", ("batch", 8, 8), values=PIXELS),),
        (TensorSpec("logits", "float32", ("batch", 10)),),
    ),
    net=net,
    data=data,
    metric=accuracy("logits"),
    training=Training(
        epochs=40,
        batch_size=32,
        learning_rate=3e-3,
        loss=cross_entropy("logits"),
        weight_decay=0.01,
        patience=10,
    ),
    allowed_loss=0.02,
    requires=("torch", "sklearn"),
    labels=CLASSES,
    preprocessing=PREPROCESSING,
)
