"""Check and reading of a torch.export.save file from an untrusted source.

Torch.export.load unpickles parts of the archive, and loads compiled libraries in it. So each part that could carry code
is inspected first (torch 2.13: export/pt2_archive/_package.py), and none of it is run.
"""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path, PurePosixPath

from ...models.errors import BadRequest, TransloadError
from ...models.exported_program import load_program
from ...models.foreign_errors import first_line
from ..lazy_import import torch
from .file_content import opened_archive

_WRITE_AGAIN = "copy it again, or write it again with torch.export.save"
_TRUSTED = "where you trust it, load it yourself and write it again with torch.export.save, from plain tensors"
_PICKLED_OBJECTS = ("custom_obj_", "opaque_obj_")  # constants that torch unpickles without a limit
_LIBRARIES = ("aotinductor", "executorch", "mtia")


def check_pt2(path: Path) -> None:
    """Check an archive for code that torch.export.load would run.

    Raises BadRequest if it is no complete archive of an exported program, or holds a pickle of more than tensors or a
    compiled library.
    """
    with opened_archive(path, "file of torch.export.save", _WRITE_AGAIN) as archive:
        _check_archive(archive, path)


def _check_archive(archive: zipfile.ZipFile, path: Path) -> None:
    names = [PurePosixPath(name) for name in archive.namelist()]
    if not any(name.parts[-2:-1] == ("models",) and name.suffix == ".json" for name in names):
        raise BadRequest(f"{path} holds no exported program", fix="write it with torch.export.save")
    for name in names:
        parts = name.parts[1:-1]
        if any(part in _LIBRARIES for part in parts) or name.suffix == ".so":
            raise BadRequest(f"{path} holds a compiled library ({name}), which is not loaded", fix=_TRUSTED)
        if name.name.startswith(_PICKLED_OBJECTS):
            raise _refuse_pickle(path, name)
        if name.suffix == ".pt":
            _check_tensors(archive.read(str(name)), path, name)
        if name.name.endswith("_config.json"):
            _check_config(archive.read(str(name)), path, name)


def _check_config(text: bytes, path: Path, name: PurePosixPath) -> None:
    """Raise BadRequest if a table of weights or constants declares one of them a pickle."""
    for row in json.loads(text)["config"].values():
        if row["use_pickle"] or str(row["path_name"]).startswith(_PICKLED_OBJECTS):
            raise _refuse_pickle(path, name)


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


def load_pt2(path: Path) -> torch.export.ExportedProgram:
    """Load the program in a file that `check_pt2` has passed.

    Raises BadRequest if torch cannot read it, ToolMissing if it needs operators of a library that is not installed.
    """
    try:
        return load_program(path)
    except TransloadError:
        raise
    except Exception as error:
        raise BadRequest(f"{path} is no exported program that torch {torch.__version__} reads: {first_line(error)}",
                         fix="export it again with this version of torch") from error  # fmt: skip
