"""Exported programs (.pt2), opened with the libraries whose operators they use. Worker only."""

from __future__ import annotations

import re
import zipfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ToolMissing

if TYPE_CHECKING:
    import torch

_OPERATOR = re.compile(rb"torch\.ops\.(\w+)\.(\w+)")
_TORCHS = {"aten", "prims", "prim", "higher_order", "quantized", "quantized_decomposed", "c10d", "_c10d_functional",
           "inductor", "profiler", "symm_mem", "export", "mkldnn", "mkldnn_prepacked", "rngprims", "torch"}  # fmt: skip
_DEFINED_BY = {"torchvision": "torchvision", "image": "torchvision", "torchaudio": "torchaudio", "torchao": "torchao"}


def load_program(path: Path) -> torch.export.ExportedProgram:
    """The program in a file of torch.export.save.

    Raises ToolMissing where it uses operators of a library that is not here, and what torch raises.
    """
    import torch

    for space, operator in operators(path).items():
        _define(space, operator, path)
    return torch.export.load(path)


def operators(path: Path) -> dict[str, str]:
    """The namespaces of the operators in a program that are not torch's own, each with one operator of it."""
    found: dict[str, str] = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            if "/models/" in entry and entry.endswith(".json"):
                for space, operator in _OPERATOR.findall(archive.read(entry)):
                    if space.decode() not in _TORCHS:
                        found.setdefault(space.decode(), operator.decode())
    return found


def _define(space: str, operator: str, path: Path) -> None:
    import torch

    if hasattr(getattr(torch.ops, space), operator):
        return
    library = _DEFINED_BY.get(space)
    if library is None or find_spec(library) is None:
        whose = f"of {library}, which is not installed" if library else "that nothing here defines"
        raise ToolMissing(
            f"{path} uses the operator {space}::{operator}, {whose}",
            fix=f"install {library}" if library else "export the model with operators of torch in place of that one",
        )
    if library == "torchvision":
        from .zoo.torchvision_ops import mend_torchvision

        mend_torchvision()
    import_module(library)
