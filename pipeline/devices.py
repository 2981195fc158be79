"""Where a run may compute. Looks at the driver and imports no framework: what one makes of it, a worker finds out."""

from __future__ import annotations

import shutil
import subprocess

from ..models.errors import ToolMissing


def list_gpus() -> tuple[str, ...]:
    """Names of the NVIDIA GPUs that the driver shows, in its order; empty where there is no driver."""
    tool = shutil.which("nvidia-smi")
    if not tool:
        return ()
    try:
        asked = subprocess.run(
            [tool, "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in asked.stdout.splitlines() if line.strip())


def resolve_device(asked: str) -> str:
    """`auto|cpu|cuda[:N]` as a device that is there.

    Raises ToolMissing where CUDA is asked for and is not.
    """
    if asked == "cpu":
        return "cpu"
    gpus = list_gpus()
    if asked == "auto":
        return "cuda" if gpus else "cpu"
    wanted = int(asked.partition(":")[2] or 0)
    if wanted >= len(gpus):
        here = f"{len(gpus)} GPUs are here" if gpus else "no NVIDIA GPU is here"
        raise ToolMissing(
            f"the device {asked} was asked for and {here}",
            fix="use --device cpu, or --device auto to take what there is",
        )
    return asked
