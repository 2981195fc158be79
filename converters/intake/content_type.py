"""What a file is by its content, where its name says another kind. A hint for a sentence: nothing is decided by it."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

from ...models.errors import BadRequest
from ...models.formats import Format

_SUFFIXES = {Format.ONNX: ".onnx", Format.TFLITE: ".tflite", Format.KERAS: ".keras", Format.PT2: ".pt2",
             Format.TORCHSCRIPT: ".pt"}  # fmt: skip
_HEAD_BYTES = 16
_ONNX_VERSIONS = range(3, 32)  # of the format, the first field of a file; a SavedModel's is 1
_ONNX_FIELDS = b"\x12\x1a\x22\x28\x32\x3a\x42"  # those that may come next (onnx.proto)
_SAVED_MODEL = b"\x08\x01\x12"  # its version, 1, and the first of its graphs (saved_model.proto)


def check_content(path: Path, expected: Format) -> None:
    """Raises BadRequest where a file looks whole and of another kind than its name says."""
    found = format_of_content(path)
    if found is None or found is expected:
        return
    known = found in _SUFFIXES
    mend = f"call it {path.stem}{_SUFFIXES[found]}" if known else "name the folder that it lies in, with its variables"
    raise BadRequest(f"{path} is, by its content, of the kind {found} and not {expected}", fix=mend)


def format_of_content(path: Path) -> Format | None:
    """By the first bytes of a file, or by the names in an archive; None where they tell nothing."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head[4:8] == b"TFL3":
        return Format.TFLITE
    if head.startswith(_SAVED_MODEL):
        return Format.SAVED_MODEL
    if head[:1] == b"\x08" and len(head) > 2 and head[1] in _ONNX_VERSIONS and head[2] in _ONNX_FIELDS:
        return Format.ONNX
    return _of_archive(path) if head.startswith(b"PK") else None


def _of_archive(path: Path) -> Format | None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError):
        return None  # no whole archive: who reads it says so
    inner = {"/".join(PurePosixPath(name).parts[1:]) for name in names}
    if {"config.json", "metadata.json"} <= set(names):
        return Format.KERAS
    if any(name.startswith("models/") and name.endswith(".json") for name in inner):
        return Format.PT2
    return Format.TORCHSCRIPT if "constants.pkl" in inner else None
