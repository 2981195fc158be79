"""A file of torch.export.save that nobody vouches for: held against what reading it would run, then its signature.

torch.export.load unpickles what the archive tells it to, and loads compiled libraries that lie in it. So each part
that could carry code is looked at before (torch 2.13: export/pt2_archive/_package.py), and nothing of it is run.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ..models.errors import BadRequest
from ..models.signature import ANY_SIZE, Axis, Bounds, Signature, TensorSpec, served_dtype

if TYPE_CHECKING:
    import torch

BATCH = "batch"
_AGAIN = "copy it again, or write it again with torch.export.save"
_TRUSTED = "where you trust it, load it yourself and write it again with torch.export.save, from plain tensors"
_PICKLED_OBJECTS = ("custom_obj_", "opaque_obj_")  # constants that are unpickled without any limit
_LIBRARIES = ("aotinductor", "executorch", "mtia")
# What zipfile, json and torch raise over bytes that are not what they should be.
_BROKEN = (
    zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, LookupError, TypeError,
    AttributeError,
)  # fmt: skip
_MOST_TIMES = 100  # what an archive may unpack to, times its own size: torch itself does not compress


def check_pt2(path: Path) -> None:
    """Hold an archive against what torch.export.load would run.

    Raises BadRequest where it is no whole archive of an exported program, holds a pickle of more than tensors, or a
    compiled library.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_archive(archive, path)
    except _BROKEN as error:
        why = _first_line(error)
        raise BadRequest(f"{path} is not a whole file of torch.export.save: {why}", fix=_AGAIN) from error


def _check_archive(archive: zipfile.ZipFile, path: Path) -> None:
    entries = archive.infolist()
    if sum(entry.file_size for entry in entries) > _MOST_TIMES * max(1, path.stat().st_size):
        raise BadRequest(f"{path} unpacks to far more than its own size", fix=_AGAIN)
    names = [PurePosixPath(entry.filename) for entry in entries]
    if not any(name.parts[-2:-1] == ("models",) and name.suffix == ".json" for name in names):
        raise BadRequest(f"{path} holds no exported program", fix="write it with torch.export.save")
    for name in names:
        parts = name.parts[1:-1]
        if any(part in _LIBRARIES for part in parts) or name.suffix == ".so":
            raise BadRequest(f"{path} holds a compiled library ({name}), which is not loaded", fix=_TRUSTED)
        if name.name.startswith(_PICKLED_OBJECTS):
            raise _pickled(path, name)
        if name.suffix == ".pt":
            _check_tensors(archive.read(str(name)), path, name)
        if name.name.endswith("_config.json"):
            _check_config(archive.read(str(name)), path, name)


def _check_config(text: bytes, path: Path, name: PurePosixPath) -> None:
    """A table of weights or constants may say that one of them is a pickle."""
    for row in json.loads(text)["config"].values():
        if row["use_pickle"] or str(row["path_name"]).startswith(_PICKLED_OBJECTS):
            raise _pickled(path, name)


def _check_tensors(data: bytes, path: Path, name: PurePosixPath) -> None:
    """A pickle is read by torch's reader for weights, which runs nothing; where that refuses, torch.export.load would
    go on with one that runs everything."""
    import pickle

    import torch

    if not data:
        return
    try:
        torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise _pickled(path, name) from error


def _pickled(path: Path, name: PurePosixPath) -> BadRequest:
    return BadRequest(f"{path} holds a pickle of more than tensors ({name}), which is not executed", fix=_TRUSTED)


def load_pt2(path: Path) -> torch.export.ExportedProgram:
    """The program in a file that `check_pt2` has passed.

    Raises BadRequest where torch cannot read it.
    """
    import torch

    try:
        return torch.export.load(path)
    except Exception as error:
        raise BadRequest(f"{path} is no exported program that torch {torch.__version__} reads: {_first_line(error)}",
                         fix="export it again with this version of torch") from error  # fmt: skip


def signature_of_pt2(program: torch.export.ExportedProgram, path: Path) -> Signature:
    """Inputs by the names of forward's arguments; outputs by the keys of the mapping that it returns, else `output`,
    or `output_0` and so on. A dynamic axis is the batch where it is the first of an input, else named after it.

    Raises BadRequest where arguments or results are nested, are no tensors, or have dtypes that the formats lack.
    """
    nodes = {node.name: node for node in program.graph.nodes}
    known: dict[str, str] = {}
    names = _input_names(program, path)
    inputs = [_spec(path, name, nodes[name].meta.get("val"), known, first=BATCH) for name in names]
    results = next(node for node in program.graph.nodes if node.op == "output").args[0]
    ranges = {known[str(symbol)]: each for symbol, each in program.range_constraints.items() if str(symbol) in known}
    inputs = [_bounded(spec, ranges) for spec in inputs]
    outputs = _output_names(program, path)
    values = [getattr(result, "meta", {}).get("val") for result in results][-len(outputs) :]
    return Signature(
        tuple(inputs), tuple(_spec(path, name, value, known) for name, value in zip(outputs, values, strict=True))
    )


def _bounded(spec: TensorSpec, ranges: Mapping[str, Any]) -> TensorSpec:
    """The spec with the ranges that torch has for its axes. A lower end of 2 is that of any dynamic axis; programs
    answer at 1 all the same."""
    bounds: dict[str, Bounds] = {}
    for axis in spec.dynamic_axes.values():
        if axis in ranges:
            low, high = ranges[axis].lower, ranges[axis].upper
            bounds[axis] = Bounds(int(low) if low > 2 else 1, int(high) if high.is_Integer else None)
    return replace(spec, bounds=tuple((axis, each) for axis, each in bounds.items() if each != ANY_SIZE))


def _input_names(program: torch.export.ExportedProgram, path: Path) -> list[str]:
    arguments, keywords = program.call_spec.in_spec.children()
    if keywords.num_leaves or any(not each.is_leaf() for each in arguments.children()) or not arguments.num_leaves:
        raise BadRequest(
            f"{path} takes nested or keyword arguments", fix="export a module whose forward takes tensors by position"
        )
    return [str(name) for name in program.graph_signature.user_inputs]


def _output_names(program: torch.export.ExportedProgram, path: Path) -> list[str]:
    spec: Any = program.call_spec.out_spec
    if spec.is_leaf():
        return ["output"]
    if (
        not spec.num_leaves
        or any(not each.is_leaf() for each in spec.children())
        or spec.type not in (dict, tuple, list)
    ):
        raise BadRequest(
            f"{path} returns nested outputs", fix="export a module that returns a tensor, a tuple or a dict of tensors"
        )
    if spec.type is dict:
        return [str(key) for key in spec.context]
    return [f"output_{at}" for at in range(spec.num_leaves)]


def _spec(path: Path, name: str, value: Any, known: dict[str, str], first: str | None = None) -> TensorSpec:
    """The spec of a traced value. `known`: axes by the symbol that torch has for them."""
    if not hasattr(value, "shape"):
        raise BadRequest(f"{path}: {name} is no tensor", fix="export a module that takes and returns tensors alone")
    axes: list[Axis] = []
    for at, size in enumerate(value.shape):
        if isinstance(size, int):
            axes.append(size)
        else:
            own = first if first and at == 0 and first not in known.values() else f"{name}_{at}"
            axes.append(known.setdefault(str(size), own))
    try:
        return TensorSpec(name, served_dtype(str(value.dtype)), tuple(axes))
    except ValueError as error:
        raise BadRequest(
            f"{path}: {name} is {value.dtype}, which the formats do not carry", fix="export it in float32"
        ) from error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:200]
