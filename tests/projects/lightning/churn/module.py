"""The LightningModule."""

from __future__ import annotations

import pytorch_lightning as pl
import torch
from torch import nn


class Churn(pl.LightningModule):
    """Numbers (batch, features) and a tariff (batch,) to the log odds of leaving (batch,)."""

    def __init__(self, features: int, hidden: int = 24, tariffs: int = 5, lr: float = 1e-2) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.tariff = nn.Embedding(tariffs, 4)
        self.net = nn.Sequential(
            nn.Linear(features + 4, hidden), nn.BatchNorm1d(hidden), nn.GELU(), nn.Dropout(0.1), nn.Linear(hidden, 1)
        )
        self.example_input_array = (torch.randn(3, features), torch.tensor([0, 1, 2]))

    def forward(self, numbers: torch.Tensor, tariff: torch.Tensor) -> torch.Tensor:
        return self.net(torch.cat([numbers, self.tariff(tariff)], -1)).squeeze(-1)

    def training_step(self, batch: tuple[torch.Tensor, ...], _: int) -> torch.Tensor:
        numbers, tariff, leaves = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self(numbers, tariff), leaves)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
