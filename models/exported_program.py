"""Exported programs (.pt2) with the names of their inputs and outputs, and their operators' libraries. Worker only."""

from __future__ import annotations

import json
import re
import typing
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from .errors import BadRequest, ToolMissing
from .signature import Signature, TensorSpec

if TYPE_CHECKING:
    import torch

_RECORD = "transload.json"  # beside the program: torch has no names for outputs, nor for axes
_MOST_BYTES = 1 << 20  # of a record
_OPERATOR = re.compile(rb"torch\.ops\.(\w+)\.(\w+)")
_TORCHS = {"aten", "prims", "prim", "higher_order", "quantized", "quantized_decomposed", "c10d", "_c10d_functional",
           "inductor", "profiler", "symm_mem", "export", "mkldnn", "mkldnn_prepacked", "rngprims", "torch"}  # fmt: skip
_DEFINED_BY = {"torchvision": "torchvision", "image": "torchvision", "torchaudio": "torchaudio", "torchao": "torchao"}


def save_program(program: torch.export.ExportedProgram, signature: Signature, path: Path) -> None:
    """Write a program that takes the signature's inputs by position and returns its outputs in order."""
    import torch

    torch.export.save(program, path, extra_files={_RECORD: json.dumps(signature.to_json())})


def recorded_signature(path: Path) -> Signature | None:
    """Read the signature that `save_program` wrote beside the program; None where there is no such record.
    The caller checks whether it is the program's own."""
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if entry.filename.endswith(f"/extra/{_RECORD}")]
        if len(entries) != 1 or entries[0].file_size > _MOST_BYTES:
            return None
        try:
            record = Signature.from_json(json.loads(archive.read(entries[0])))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, zipfile.BadZipFile, BadRequest):
            return None
    return record if all(map(_is_typed, (*record.inputs, *record.outputs))) else None


def _is_typed(spec: TensorSpec) -> bool:
    """Return whether a record of unknown origin has a text for a name and whole numbers for sizes."""
    ends = [end for _, bounds in spec.bounds for end in bounds if end is not None]
    return isinstance(spec.name, str) and all(isinstance(axis, int | str) for axis in (*spec.shape, *ends))


def load_program(path: Path) -> torch.export.ExportedProgram:
    """Load a program from a file of torch.export.save.
    Raises ToolMissing where it uses operators of a library that is not installed, and what torch raises."""
    import torch

    for space, operator in operators(path).items():
        _define(space, operator, path)
    with _type_hints_once():
        return torch.export.load(path)


@contextmanager
def _type_hints_once() -> Iterator[None]:
    """Resolve the annotations of each class once: torch does so for every object in a file, half of the time."""
    resolve, known = typing.get_type_hints, dict[Any, dict[str, Any]]()

    def hints_of(item: Any, *arguments: Any, **keywords: Any) -> dict[str, Any]:
        if not isinstance(item, type):
            return resolve(item, *arguments, **keywords)
        if item not in known:
            known[item] = resolve(item, *arguments, **keywords)
        return known[item]

    with patch.object(typing, "get_type_hints", hints_of):
        yield


def operators(path: Path) -> dict[str, str]:
    """Return the namespaces of the operators in a program that are not torch's own, each with its first operator."""
    foreign: dict[str, str] = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            if "/models/" in entry and entry.endswith(".json"):
                for space, operator in _OPERATOR.findall(archive.read(entry)):
                    if space.decode() not in _TORCHS:
                        foreign.setdefault(space.decode(), operator.decode())
    return foreign


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
        from .loading.torchvision_ops import register_torchvision_stubs

        register_torchvision_stubs()
    import_module(library)
