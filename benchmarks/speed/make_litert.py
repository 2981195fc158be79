"""A net by litert-torch, batch 1: make_litert.py NET FOLDER, in the Python that has it (docs/design/litert.md)."""

from __future__ import annotations

import sys
from pathlib import Path

import litert_torch
import nets_torch
import torch


def main() -> None:
    """Write FOLDER/model.tflite."""
    net, folder = sys.argv[1], Path(sys.argv[2])
    given = torch.zeros(1, 128, dtype=torch.int64) if net == "transformer" else torch.zeros(1, 3, 224, 224)
    folder.mkdir(parents=True, exist_ok=True)
    litert_torch.convert(getattr(nets_torch, net)(), (given,)).export(str(folder / "model.tflite"))


if __name__ == "__main__":
    main()
