"""What a model's file says of itself, read in a worker by the checks of its reader. Nothing of it is run.

Operators of ONNX, TFLite and SavedModels that may do more than compute are told and not refused: their files are parsed
and not loaded. Torch and Keras load theirs, so what their readers refuse is refused here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ...models.errors import TransloadError
from ...models.extensible_table import load_entry
from ...models.formats import Format
from ...models.job import Job
from ...models.probes.samples import check_file
from ...models.signature import Signature
from ..conversion_records import StoredWeights
from .file_content import check_content, refuse_links
from .reader_records import FileDescription, FileOptions

MOST_TEXT = 10_000  # letters of one text
_MOST_OPERATORS = 100
COPY_AGAIN = "copy it again, or convert it again"


def describe_file(job: Job) -> Mapping[str, Any]:
    """Describe a model's file or folder: FileOptions -> FileDescription.

    Raises BadRequest if it is not whole, or reading it would run code.
    """
    options = FileOptions.from_json(job.options)
    path, form = Path(options.path), Format(options.format)
    describe: Callable[[Path], FileDescription] = load_entry(form.spec.describer)
    if path.is_dir():
        refuse_links(path, form.spec.title)
    else:
        check_file(path, options.sha256)
        check_content(path, form)
    return describe(path).to_json()


def signature_or_note(read: Callable[[], Signature]) -> tuple[Signature | None, tuple[str, ...]]:
    """Return a signature, or why there is none that can be told."""
    try:
        return read(), ()
    except TransloadError as error:
        return None, (plain_text(error.what),)


def side_texts(signature: Signature | None, side: str) -> tuple[str, ...]:
    """Return the inputs or the outputs of a signature, none where it is not known."""
    return () if signature is None else tuple(map(str, getattr(signature, side)))


def counted(names: Iterable[str]) -> dict[str, int]:
    """Count operators by their names, the most first."""
    return most_operators(Counter(names))


def most_operators(counts: Counter[str]) -> dict[str, int]:
    """Return the counts of the operators that a file has most of."""
    return {plain_text(name): count for name, count in counts.most_common(_MOST_OPERATORS)}


def summed(tensors: Iterable[tuple[str, int]]) -> tuple[StoredWeights, ...]:
    """Sum up tensors that are a dtype and a number of elements."""
    bits = {"int4": 4, "uint4": 4, "bfloat16": 16, "bool": 8}
    rows = []
    for dtype, elements in tensors:
        digits = "".join(letter for letter in dtype if letter.isdigit())
        width = bits.get(dtype) or (8 if dtype.startswith("float8") else int(digits or 0))
        rows.append((dtype, math.ceil(elements * width / 8)))
    return summed_bytes(rows)


def summed_bytes(tensors: Iterable[tuple[str, int]]) -> tuple[StoredWeights, ...]:
    """Sum up tensors that are a dtype and a number of bytes."""
    sizes: dict[str, list[int]] = {}
    for dtype, count in tensors:
        sizes.setdefault(dtype, []).append(count)
    rows = [StoredWeights(dtype=dtype, tensors=len(counts), bytes=sum(counts)) for dtype, counts in sizes.items()]
    return tuple(sorted(rows, key=lambda row: (-row.bytes, row.dtype)))


def plain_text(text: str) -> str:
    """Return a text of the file without what cannot be printed."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:MOST_TEXT]).strip()


def text_of(data: bytes) -> str:
    """Return bytes as a text, or how many they are where they are none."""
    try:
        text = data.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        text = "\0"
    return plain_text(text) if text.isprintable() else f"{len(data)} bytes"
