"""Digests of test samples, by which two runs know whether they were asked the same ones, in whatever order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ....models.array_file import pieces
from ....models.dataset import Dataset
from ....models.signature import Array

SAMPLES = "samples.npz"  # of the reference: one array of `inputs`, and one of `labels` where there are any
_BYTES = 8  # of a digest: two of 10 million unlike samples share theirs with a chance of 1 in 370,000


def digest_samples(data: Dataset) -> dict[str, Array]:
    """Return 64 bits for each sample, shape (samples,): of its `inputs`, and of its `labels` where there are any."""
    names = sorted(data.inputs)
    digests = {"inputs": _digest_rows([_rows(data.inputs[name]) for name in names], "|".join(names))}
    if data.labels is not None:
        digests["labels"] = _digest_rows([_label_rows(data.labels)], "labels")
    data.release()
    return digests


def digest_all(digests: Array, order: Array) -> str:
    """Return the SHA-256 of all digests in an order that does not depend on that of the samples."""
    return hashlib.sha256(digests[order].astype("<u8").tobytes()).hexdigest()


def sample_order(digests: Mapping[str, Array]) -> Array:
    """Return the order of samples by inputs, then by labels: one for each set of samples."""
    return np.lexsort([*([digests["labels"]] if "labels" in digests else []), digests["inputs"]])


def _digest_rows(columns: Sequence[Iterator[bytes]], names: str) -> Array:
    """Digest the same row of all columns together."""
    start = hashlib.blake2b(names.encode(), digest_size=_BYTES)
    joined = bytearray()
    for row in zip(*columns, strict=True):
        digest = start.copy()
        digest.update(b"".join(row))
        joined += digest.digest()
    return np.frombuffer(bytes(joined), "<u8").astype(np.uint64)


def _rows(array: Array) -> Iterator[bytes]:
    for piece in pieces(array):
        yield from (np.ascontiguousarray(row).tobytes() for row in piece)


def _label_rows(labels: Array) -> Iterator[bytes]:
    """Yield labels by their values: 1, 1.0 and true are one label."""
    is_number = labels.dtype.kind in "biuf"
    for piece in pieces(labels):
        yield from (row.tobytes() for row in (piece.astype("<f8") if is_number else piece))
