"""What a file of weights is by its first bytes, and whether it is whole, before anything is imported."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path

from ...errors import BadRequest
from ...safe_zip import is_zip

WEIGHT_NAMES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
_SUFFIXES = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")
_COPY = "copy it again, or save it again"
_HEAD_BYTES = 512
_MOST_HEADER_BYTES = 16 << 20
_TAR_AT, _TAR = 257, b"ustar"
_NAME_IT = "name it as the model itself, without --weights"
# (first bytes, what the file is, what to do)
_WRAPPED: tuple[tuple[bytes, str, str], ...] = (
    (b"version https://git-lfs", "a pointer of Git LFS, and not the file itself", "fetch it: git lfs pull"),
    (b"\x1f\x8b", "compressed with gzip", "unpack it: gunzip FILE"),
    (b"BZh", "compressed with bzip2", "unpack it: bunzip2 FILE"),
    (b"\xfd7zXZ", "compressed with xz", "unpack it: unxz FILE"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it: unzstd FILE"),
    (b"7z\xbc\xaf", "a 7-Zip archive", "unpack it"),
)
_KINDS: tuple[tuple[bytes, str, str], ...] = (
    (b"\x89HDF", "an HDF5 file", "load it in Python, and save its tensors under the model's names with torch.save"),
    (b"GGUF", "a GGUF file, which llama.cpp reads", "name the weights that it was made from"),
)
_DISTRIBUTED = {
    ".metadata": "convert it: python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER weights.pt",
    "zero_to_fp32.py": "convert it: python zero_to_fp32.py . weights.pt",
    "latest": "convert it with DeepSpeed's zero_to_fp32.py",
}  # file in a folder of shards: what makes it one file


def weights_in(folder: Path) -> Path:
    """Return the file of weights in a folder of Hugging Face. Raises BadRequest where there is none."""
    if path := next((folder / name for name in WEIGHT_NAMES if (folder / name).is_file()), None):
        return path
    for name, fix in _DISTRIBUTED.items():
        if (folder / name).exists():
            raise BadRequest(f"{folder} is a checkpoint in shards of several processes", fix=fix)
    files = [path.name for path in sorted(folder.iterdir()) if path.suffix in _SUFFIXES]
    fix = f"name one of its files: {', '.join(files[:3])}" if files else "name a file of weights"
    raise BadRequest(f"{folder} is a folder without {WEIGHT_NAMES[0]} and {WEIGHT_NAMES[2]}", fix=fix)


def check_weight_file(path: Path) -> None:
    """Raise BadRequest where a file of weights is missing, empty, cut short or plainly something else.
    It reads the first bytes, and of zips the directory."""
    if not path.is_file():
        raise BadRequest(f"no such file: {path}", fix="check the path of the weights")
    size = path.stat().st_size
    if size == 0:
        raise BadRequest(f"{path} is empty", fix=_COPY)
    if path.suffix == ".py":
        raise BadRequest(
            f"{path} is Python code, and no file of weights", fix=f"name it as the model, {path.name}:NAME"
        )
    head = check_head(path)
    _check_kind(path, head)
    if path.suffix == ".safetensors":
        _check_safetensors(path, head, size)
    elif path.suffix != ".json":
        _check_other(path, head, size)


def check_head(path: Path) -> bytes:
    """Return the first bytes of a file. Raises BadRequest where they are those of something that stands in place of a
    model or of weights: a web page, a pointer of Git LFS, a compressed file."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    _refuse_known(path, head, _WRAPPED)
    if head.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise BadRequest(f"{path} is a web page", fix="download the file itself; the page may ask for a login")
    return head


def _refuse_known(path: Path, head: bytes, kinds: Iterable[tuple[bytes, str, str]]) -> None:
    for start, kind, fix in kinds:
        if head.startswith(start):
            raise BadRequest(f"{path} is {kind}", fix=fix.replace("FILE", path.name))


def _check_kind(path: Path, head: bytes) -> None:
    """Refuse what is no file of weights, whatever its name says."""
    _refuse_known(path, head, _KINDS)
    if head[_TAR_AT:].startswith(_TAR):
        raise BadRequest(f"{path} is a tar archive", fix=f"unpack it: tar -xf {path.name}")
    if head[4:8] == b"TFL3":
        raise BadRequest(f"{path} is a TFLite model", fix=_NAME_IT)
    if path.suffix == ".onnx":
        raise BadRequest(f"{path} is an ONNX model", fix=_NAME_IT)


def _check_safetensors(path: Path, head: bytes, size: int) -> None:
    """Refuse a .safetensors file that is shorter than its header says. The rest is its reader's to say."""
    if head[8:9] != b"{" and head.startswith((b"PK", b"\x80")):
        raise BadRequest(f"{path} is a checkpoint of torch.save", fix=f"call it {path.stem}.pt")
    header_bytes = _header_bytes(head)
    if 8 + header_bytes > size:
        raise BadRequest(f"{path} is not a whole safetensors file: its header is cut short", fix=_COPY)
    if header_bytes > _MOST_HEADER_BYTES:
        return
    try:
        with path.open("rb") as file:
            header = json.loads(file.read(8 + header_bytes)[8:])
        end = (
            8 + header_bytes + max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
        )
        lacking = end - size
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return
    if lacking > 0:
        raise BadRequest(
            f"{path} is not a whole safetensors file: it has {size:,} bytes of {size + lacking:,}", fix=_COPY
        )


def _header_bytes(head: bytes) -> int:
    return int(struct.unpack("<Q", head[:8].ljust(8, b"\xff"))[0])


def _check_other(path: Path, head: bytes, size: int) -> None:
    if head[8:9] == b"{" and 2 <= _header_bytes(head) < size:
        raise BadRequest(f"{path} is a .safetensors file by its content", fix=f"call it {path.stem}.safetensors")
    if head.startswith(b"{") and head.lstrip(b"{ \t\r\n").startswith(b'"'):
        raise BadRequest(f"{path} is a JSON document", fix="name a file of weights")
    if not head.startswith(b"PK"):
        return
    if not is_zip(path):
        raise BadRequest(f"{path} is not a whole checkpoint: its end is missing", fix=_COPY)
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError):
        return  # its reader says so
    inner = {name.partition("/")[2] for name in names}
    if "constants.pkl" in inner:
        raise BadRequest(f"{path} is a TorchScript archive", fix=_NAME_IT)
    if any(name.startswith("models/") and name.endswith(".json") for name in inner):
        raise BadRequest(f"{path} is a program of torch.export", fix=_NAME_IT)
    if {"config.json", "metadata.json"} <= set(names):
        raise BadRequest(f"{path} is a Keras model", fix=_NAME_IT)
