"""The format of a file by its content, for the error message when the name says another; it decides nothing else."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

from ...models.errors import BadRequest
from ...models.formats import Format

_SUFFIXES = {Format.ONNX: ".onnx", Format.TFLITE: ".tflite", Format.KERAS: ".keras", Format.PT2: ".pt2",
             Format.TORCHSCRIPT: ".pt"}  # fmt: skip
_HEAD_BYTES = 16
_ONNX_VERSIONS = range(3, 32)  # the format's version is the first field of a file; a SavedModel's is 1
_ONNX_FIELDS = b"\x12\x1a\x22\x28\x32\x3a\x42"  # the fields that may come next (onnx.proto)
_SAVED_MODEL = b"\x08\x01\x12"  # version 1, then the first graph (saved_model.proto)


def check_content(path: Path, expected: Format) -> None:
    """Raise BadRequest if a file looks complete and of another format than its name says."""
    kind = format_of_content(path)
    if kind is None or kind is expected:
        return
    known = kind in _SUFFIXES
    fix = f"call it {path.stem}{_SUFFIXES[kind]}" if known else "name the folder that it lies in, with its variables"
    raise BadRequest(f"{path} is, by its content, of the kind {kind} and not {expected}", fix=fix)


def format_of_content(path: Path) -> Format | None:
    """Detect a file's format by its first bytes, or by the names in an archive; None if these are unknown."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head[4:8] == b"TFL3":
        return Format.TFLITE
    if head.startswith(_SAVED_MODEL):
        return Format.SAVED_MODEL
    if head[:1] == b"\x08" and len(head) > 2 and head[1] in _ONNX_VERSIONS and head[2] in _ONNX_FIELDS:
        return Format.ONNX
    return _format_of_archive(path) if head.startswith(b"PK") else None


def _format_of_archive(path: Path) -> Format | None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError):
        return None  # a broken archive: its reader reports it
    inner = {"/".join(PurePosixPath(name).parts[1:]) for name in names}
    if {"config.json", "metadata.json"} <= set(names):
        return Format.KERAS
    if any(name.startswith("models/") and name.endswith(".json") for name in inner):
        return Format.PT2
    return Format.TORCHSCRIPT if "constants.pkl" in inner else None
