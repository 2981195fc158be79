"""python -m churn.train --out FOLDER"""

from __future__ import annotations

import argparse

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from .module import Churn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    asked = parser.parse_args()
    pl.seed_everything(0)
    numbers, tariff = torch.randn(256, 6), torch.randint(0, 5, (256,))
    leaves = (numbers[:, 0] + 0.5 * numbers[:, 1] * (tariff > 2) > 0).float()
    keep = pl.callbacks.ModelCheckpoint(asked.out, filename="best", monitor="loss")
    trainer = pl.Trainer(
        max_epochs=3, accelerator="cpu", callbacks=[keep], logger=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Churn(features=6), DataLoader(TensorDataset(numbers, tariff, leaves), batch_size=64, shuffle=True))


if __name__ == "__main__":
    main()
