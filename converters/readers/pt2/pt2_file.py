"""Check and reading of a torch.export.save file from an untrusted source.

Torch.export.load unpickles parts of the archive, loads compiled libraries in it, and evaluates texts of its program. So
each part is read and held against what torch.export.save writes (torch 2.13: export/pt2_archive/_package.py,
_export/serde/serialize.py), and none of it is run.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from ....models.errors import BadRequest, ToolMissing, TransloadError
from ....models.exported_program import load_program
from ....models.library_messages import first_line
from ...lazy_import import torch
from ..file_content import opened_archive, whole_file
from .pt2_program import ForeignOperatorError, ProgramCheck, RefusedProgramError

_WRITE_AGAIN = "copy it again, or write it again with torch.export.save"
_TRUSTED = "where you trust it, load it yourself and write it again with torch.export.save, from plain tensors"
_PLAIN_PROGRAM = "export the model again with torch.export.export, from operators of torch alone"
_PICKLED_OBJECTS = ("custom_obj_", "opaque_obj_")  # constants that torch unpickles without a limit
_LIBRARIES = ("aotinductor", "executorch", "mtia")
# What torch.export.save writes below the archive's folder. Another reader's parts must not be there: torch.export.load
# falls back to the format before this one, which is read without any check.
_KNOWN = re.compile(
    r"models/[\w.-]+\.json|data/weights/(weight_\d+|[\w.-]+_weights_config\.json|[\w.-]+\.pt)"
    r"|data/constants/((tensor|constant)_\d+|[\w.-]+_constants_config\.json|[\w.-]+\.pt)|data/sample_inputs/[\w.-]+\.pt"
    r"|archive_format|archive_version|byteorder|version|\.data/(version|serialization_id)|\.format_version"
    r"|\.storage_alignment|extra/.+"
)


def check_pt2(path: Path, *, trust: bool = False, source: Path | None = None) -> None:
    """Check an archive for code that torch.export.load would run; `trust` leaves its operators unchecked.
    `source`: the file that `path` is an upgraded copy of, which messages name.

    Raises BadRequest if it is no complete archive of an exported program, or holds more than tensors and a program that
    is known to only compute; ToolMissing if it calls operators of a library that is not known.
    """
    kind = "file of torch.export.save"
    named = whole_file(source or path, kind, _WRITE_AGAIN)  # the inner: its message names the user's file
    with opened_archive(path, kind, _WRITE_AGAIN, ignores_case=True) as archive, named:
        _check_archive(archive, source or path, ProgramCheck(trust=trust))


def _check_archive(archive: zipfile.ZipFile, path: Path, check: ProgramCheck) -> None:
    names = [PurePosixPath(name) for name in archive.namelist()]
    if not any(name.parts[-2:-1] == ("models",) and name.suffix == ".json" for name in names):
        raise BadRequest(f"{path} holds no exported program", fix="write it with torch.export.save")
    for name in names:
        parts = name.parts[1:-1]
        if any(part in _LIBRARIES for part in parts) or name.suffix == ".so":
            raise BadRequest(f"{path} holds a compiled library ({name}), which is not loaded", fix=_TRUSTED)
        if name.name.startswith(_PICKLED_OBJECTS):
            raise _refuse_pickle(path, name)
        if name.parts[0] != names[0].parts[0] or not _KNOWN.fullmatch("/".join(name.parts[1:])):
            raise BadRequest(f"{path} holds {name}, which torch.export.save does not write", fix=_WRITE_AGAIN)
        if name.suffix == ".pt" and name.parts[1] == "data":
            _check_tensors(archive.read(str(name)), path, name)
        if name.name.endswith("_config.json") and name.parts[1] == "data":
            _check_config(archive, path, name, check)
        if name.parts[1] == "models":
            _check_part(archive, path, name, check, "ExportedProgram")


def _check_config(archive: zipfile.ZipFile, path: Path, name: PurePosixPath, check: ProgramCheck) -> None:
    """Raise BadRequest if a table of weights or constants declares one of them a pickle, or larger than it is."""
    config = _check_part(archive, path, name, check, "PayloadConfig")
    for row in config["config"].values():
        if row["use_pickle"] or str(row["path_name"]).startswith(_PICKLED_OBJECTS):
            raise _refuse_pickle(path, name)
        if not archive.getinfo(str(name.parent / row["path_name"])).file_size:  # torch then makes a tensor of zeros
            sizes = [size.get("as_int") for size in (row["tensor_meta"] or {}).get("sizes", ())]
            if 0 not in sizes:
                raise BadRequest(f"{path} lacks the numbers of {row['path_name']}", fix=_WRITE_AGAIN)


def _check_part(archive: zipfile.ZipFile, path: Path, name: PurePosixPath, check: ProgramCheck, schema: str) -> Any:
    """Read a JSON of the archive as torch reads it, and return it if all of it is known."""
    part = json.loads(archive.read(str(name)).decode("utf-8"))
    try:
        check.check(part, schema)
    except RefusedProgramError as error:
        raise BadRequest(f"{path} {error} ({name})", fix=_PLAIN_PROGRAM) from error
    except ForeignOperatorError as error:
        raise ToolMissing(
            f"{path} uses the operator {error.space}::{error.name}, that nothing here defines",
            fix="export the model with operators of torch in place of that one",
        ) from error
    return part


def _check_tensors(data: bytes, path: Path, name: PurePosixPath) -> None:
    """Raise BadRequest if torch's reader for weights, which runs nothing, refuses a pickle.

    Torch.export.load would then go on with a reader that runs everything.
    """
    if not data:
        return
    try:
        torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise _refuse_pickle(path, name) from error


def _refuse_pickle(path: Path, name: PurePosixPath) -> BadRequest:
    return BadRequest(f"{path} holds a pickle of more than tensors ({name}), which is not executed", fix=_TRUSTED)


def load_pt2(path: Path, source: Path | None = None) -> torch.export.ExportedProgram:
    """Load the program in a file that `check_pt2` has passed. `source`: as for that.

    Raises BadRequest if torch cannot read it, ToolMissing if it needs operators of a library that is not installed.
    """
    try:
        return load_program(path)
    except TransloadError:
        raise
    except Exception as error:
        reader = f"torch {torch.__version__}"
        raise BadRequest(f"{source or path} is no exported program that {reader} reads: {first_line(error)}",
                         fix="export it again with this version of torch") from error  # fmt: skip
