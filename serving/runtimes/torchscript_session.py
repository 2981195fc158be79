"""TorchScript: a `torchscript` artifact, frozen, as PyTorch's C++ runtime executes it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from ...models.artifact import read_artifact
from ..session import Session
from .payload import opening
from .torch_callable import TorchSession, torch_device

if TYPE_CHECKING:
    import torch

NAME = "torchscript"


def open_session(folder: Path, device: str, threads: int) -> Session:
    """Open a session over the TorchScript artifact in `folder`.

    Raises BadRequest where it cannot be opened, ToolMissing where PyTorch or the device is not there.
    """
    artifact = read_artifact(folder)
    with opening(NAME, artifact.path), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is deprecated as a whole, and still served
        import torch

        at = torch_device(device, threads)
        module = torch.jit.load(artifact.path, map_location=at).eval()  # type: ignore[no-untyped-call]
        return TorchSession(NAME, artifact.signature, _frozen(module), at)


def _frozen(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """Return the module with its weights folded in; a frozen module has no `training` and is returned as it is."""
    import torch

    return torch.jit.freeze(module) if hasattr(module, "training") else module
