"""The state of a training on disk, all of it or none."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atomic_files import rename_synced
from ..library_messages import first_line

if TYPE_CHECKING:
    from lightning_fabric import Fabric

FILE = "last.ckpt"


def save_checkpoint(fabric: Fabric, folder: Path, state: Mapping[str, Any]) -> None:
    """Replace the checkpoint in `folder`. A kill at any moment leaves the old one or the new one.
    Every process of the training calls it; the first one writes."""
    part = folder / f"{FILE}.part"
    fabric.save(part, dict(state))
    if fabric.is_global_zero:
        rename_synced(part, folder / FILE)
    fabric.barrier()


def read_checkpoint(folder: Path, plan: str) -> dict[str, Any] | None:
    """Read the checkpoint in `folder`, on the CPU, if there is one of this very `plan`.
    Else return None, and print why a checkpoint that lies there is of no use. It holds tensors and plain values, and
    nothing else is unpickled."""
    import torch

    if not (folder / FILE).is_file():
        return None
    try:
        state: dict[str, Any] = torch.load(folder / FILE, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        print(f"starting again: the checkpoint cannot be read ({first_line(error)})", flush=True)
        return None
    if not isinstance(state, dict) or state.get("plan") != plan:
        print("starting again: the checkpoint is of another training", flush=True)
        return None
    return state
