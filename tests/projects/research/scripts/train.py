"""Trains a few steps and keeps the net with its moving average."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

sys.path.append(str(Path(__file__).parents[1]))  # last: the repository has a json.py
from models.build import make
from pipeline.data import draw


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.manual_seed(0)
    net = make(asked.config, widths=(8, 16))
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.8), use_buffers=True)
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-2)
    images, quarter = draw(128, seed=1)
    for _ in range(8):
        loss = torch.nn.functional.cross_entropy(net(images, return_heat=False), quarter)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        ema.update_parameters(net)
    asked.out.mkdir(parents=True, exist_ok=True)
    kept = {"model": net.state_dict(), "ema": ema.module.state_dict(), "optimiser": optimiser.state_dict(), "epoch": 1}
    torch.save(kept, asked.out / "last.pt")


if __name__ == "__main__":
    main()
