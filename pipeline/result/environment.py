"""The machine and the libraries of a run, for run.json."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

from ..workers.devices import list_gpus
from ..workers.toolchain import version_of
from .schema import Environment

PACKAGES = (
    "torch", "tensorflow", "onnx", "onnxscript", "onnxruntime", "ai_edge_litert", "onnx2tf", "tensorflow_serving",
    "openvino", "lightning_fabric", "numpy", "scipy", "sklearn", "grpc",
)  # fmt: skip


def describe_environment() -> Environment:
    """Describe this machine. Imports no framework."""
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        gpus=list_gpus(),
        packages={name: version for name in PACKAGES if (version := version_of(name))},
    )


def _cpu() -> str:
    """Return the processor's name as Linux has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
