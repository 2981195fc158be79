"""TorchScript: a `torchscript` artifact, frozen, as PyTorch's C++ runtime executes it."""

from __future__ import annotations

import warnings
from pathlib import Path

from ...models.artifact import read_artifact
from ..session import Session
from .payload import opening
from .torch_callable import TorchSession, lay_channels_last, torch_device

NAME = "torchscript"


def open_session(
    folder: Path,
    device: str,
    threads: int,
    *,
    freeze: bool = True,
    optimise: bool = True,
    optimize_for_inference: bool = False,
    channels_last: bool = False,
    onednn_fusion: bool = False,
) -> Session:
    """Open a session over the TorchScript artifact in `folder`.
    `freeze`: weights become constants, and `optimise`: freezing may fold operators. `optimize_for_inference` is
    torch.jit's function of that name, `onednn_fusion` its switch for oneDNN's graphs. `channels_last`: pictures and the
    weights of their convolutions lie in memory with the channels last.
    Raises BadRequest where it cannot be opened, ToolMissing where PyTorch or the device is not there."""
    artifact = read_artifact(folder)
    with opening(NAME, artifact.path), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is deprecated as a whole, and still served
        import torch

        at = torch_device(device, threads)
        torch.jit.enable_onednn_fusion(onednn_fusion)
        module = torch.jit.load(artifact.path, map_location=at).eval()  # type: ignore[no-untyped-call]
        if channels_last:
            lay_channels_last(module)
        if freeze and hasattr(module, "training"):  # else it is frozen already
            module = torch.jit.freeze(module, optimize_numerics=optimise)
        if optimize_for_inference:
            module = torch.jit.optimize_for_inference(module)
        return TorchSession(NAME, artifact.signature, module, at, channels_last=channels_last)
