"""Where a run may compute. The driver is asked and no framework imported: what a framework sees, a worker finds out."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

from ...models.errors import ToolMissing
from .toolchain import version_of


def list_gpus() -> tuple[str, ...]:
    """Return the names of the NVIDIA GPUs that the driver shows, in its order; empty where there is no driver."""
    tool = shutil.which("nvidia-smi")
    if not tool:
        return ()
    try:
        listing = subprocess.run(
            [tool, "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in listing.stdout.splitlines() if line.strip())


def has_gpu_build() -> bool:
    """Return whether the extra `gpu` is installed; the runtimes of the extra `cpu` would only fail on a GPU."""
    return (version_of("onnxruntime") or "").endswith("+gpu")


def resolve_device(device: str, gpu_build: Callable[[], bool] = has_gpu_build) -> str:
    """Resolve `auto|cpu|cuda[:N]` to a device that is here.
    `auto` is a GPU where there is one and the extra `gpu` to use it. Raises ToolMissing where the CUDA device is not
    here."""
    if device == "cpu":
        return "cpu"
    gpus = list_gpus()
    if device == "auto":
        return "cuda" if gpus and gpu_build() else "cpu"
    wanted = int(device.partition(":")[2] or 0)
    if wanted >= len(gpus):
        here = f"{len(gpus)} GPUs are here" if gpus else "no NVIDIA GPU is here"
        raise ToolMissing(
            f"the device {device} was asked for and {here}",
            fix="use --device cpu, or --device auto to take what there is",
        )
    return device
