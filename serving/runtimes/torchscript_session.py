"""TorchScript: a `torchscript` artifact, frozen, as PyTorch's C++ runtime executes it."""

from __future__ import annotations

import warnings
from pathlib import Path

from ...models.artifact import read_artifact
from ..session import Session
from .payload import opening
from .torch_callable import TorchSession, torch_device

NAME = "torchscript"


def open_session(folder: Path, device: str, threads: int, *, optimise: bool = True) -> Session:
    """Open a session over the TorchScript artifact in `folder`. `optimise`: whether freezing may fold operators.
    Raises BadRequest where it cannot be opened, ToolMissing where PyTorch or the device is not there."""
    artifact = read_artifact(folder)
    with opening(NAME, artifact.path), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is deprecated as a whole, and still served
        import torch

        at = torch_device(device, threads)
        module = torch.jit.load(artifact.path, map_location=at).eval()  # type: ignore[no-untyped-call]
        if hasattr(module, "training"):  # else it is frozen already
            module = torch.jit.freeze(module, optimize_numerics=optimise)
        return TorchSession(NAME, artifact.signature, module, at)
