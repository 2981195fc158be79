"""The machine and the libraries of a run, for run.json."""

from __future__ import annotations

import platform

import psutil

from ...models.processors import core_count, cpu_model
from ..workers.devices import list_gpus
from ..workers.toolchain import version_of
from .schema import Environment

PACKAGES = (
    "torch", "tensorflow", "onnx", "onnxscript", "onnxruntime", "ai_edge_litert", "tensorflow_serving",
    "openvino", "lightning_fabric", "numpy", "scipy", "sklearn", "grpc",
)  # fmt: skip


def describe_environment() -> Environment:
    """Describe this machine. Imports no framework."""
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        cpu=cpu_model(),
        cores=core_count(),
        memory_bytes=psutil.virtual_memory().total,
        gpus=list_gpus(),
        packages={name: version for name in PACKAGES if (version := version_of(name))},
    )
