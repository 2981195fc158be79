"""What the archives of PyTorch, both formats, say of themselves."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from typing import Any

from ..conversion_records import StoredWeights
from .describe_file import MOST_TEXT, plain_text, summed_bytes, text_of


def torch_weights(tensors: Iterable[Any]) -> tuple[StoredWeights, ...]:
    """Sum up tensors of PyTorch by their dtypes."""
    rows = ((str(tensor.dtype).removeprefix("torch."), tensor.numel() * tensor.element_size()) for tensor in tensors)
    return summed_bytes(rows)


def archive_versions(archive: zipfile.ZipFile) -> Iterable[str]:
    """Yield the versions in a zip of torch: of the archive, and of its operators."""
    for name in ("archive_version", "version", ".data/version"):
        for entry in archive.infolist():
            if entry.filename.partition("/")[2] == name and entry.file_size < MOST_TEXT:
                yield f"{name.removeprefix('.data/').replace('_', ' ')} {text_of(archive.read(entry).strip())}"


def archive_texts(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the extra files of a zip of torch."""
    extra = [entry for entry in archive.infolist() if entry.filename.partition("/")[2].startswith("extra/")]
    return {
        plain_text(entry.filename.partition("/extra/")[2]): text_of(archive.read(entry))
        for entry in extra
        if entry.file_size <= MOST_TEXT
    }
