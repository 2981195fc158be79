"""Samples that stand in the training split and in the test split: compared by digests, eight bytes a sample."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ..array_file import read_arrays, write_arrays
from ..dataset import CALIBRATION, Dataset, read_dataset
from ..signature import Array
from .data_findings import DataFault, DataFinding
from .sample_checks import DataPlace, parts_of

LEARNT = "learnt.npz"  # in a recipe's data folder: digests of its training samples
_MOST_DIGESTS = 1 << 20  # of more samples those with the smallest digests are compared
_COARSE = 1e-3  # equal samples that chance expects for each, from which on data may repeat itself


def write_digests(path: Path, train: Dataset) -> None:
    """Keep the digests of a training split, by which `find_overlap` finds its samples elsewhere."""
    share = min(1.0, _MOST_DIGESTS / max(1, len(train)))
    write_arrays(path, {"digests": _digests(train, share)[0], "share": np.array([share])})


def find_overlap(folder: Path, test: Dataset, place: DataPlace) -> list[DataFinding]:
    """Return the fault of samples whose inputs stand in the training split of a recipe's data folder, too.

    Samples of few values, as of three categories, repeat themselves by chance. They count where the test split repeats
    the training split clearly more often than that repeats itself."""
    kept = read_arrays(folder / LEARNT)
    share = float(kept["share"][0])
    own, rows = _digests(test, share)
    shared = np.isin(own, kept["digests"])
    if not shared.any() or not _is_remarkable(read_dataset(folder / CALIBRATION), kept["digests"], shared):
        return []
    text = f"{place.name}: {round(int(shared.sum()) / share):,} of {len(test):,} {place.row}s "
    first = int(rows[np.argmax(shared)])
    text += f"stand in the train split, too ({shared.mean():.1%}), first {place.row_text(first)}"
    return [DataFinding(fault=DataFault.IN_TRAIN_AND_TEST, text=text)]


def _digests(data: Dataset, share: float) -> tuple[Array, Array]:
    """Return a 64-bit digest of each sample's inputs, and the samples: those with the smallest digests of a share."""
    most = np.uint64(min(share * 2.0**64, 2.0**64 - 2048))
    parts = [(own, start + np.arange(len(part))) for start, part in parts_of(data) for own in [_digest(part)]]
    small = [(own[own <= most], rows[own <= most]) for own, rows in parts]
    return np.concatenate([own for own, _ in small]), np.concatenate([rows for _, rows in small])


def _digest(part: Dataset) -> Array:
    """Hash rows by sums of mixed words times odd numbers, modulo 2**64."""
    digest = np.zeros(len(part), np.uint64)
    for at, name in enumerate(sorted(part.inputs)):
        array = np.ascontiguousarray(part.inputs[name]).reshape(len(part), -1)
        rows = (array + 0 if array.dtype.kind == "f" else array).view(np.uint8)  # -0.0 becomes 0.0
        words = np.zeros((len(rows), -(-rows.shape[1] // 8) * 8), np.uint8)
        words[:, : rows.shape[1]] = rows
        mixed = words.view(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x7FB5D329728EA185)
        mixed ^= mixed >> np.uint64(27)
        odd = np.random.default_rng(at).integers(0, 2**64, mixed.shape[1], np.uint64) | np.uint64(1)
        digest += (mixed * odd).sum(axis=1, dtype=np.uint64)
    digest = (digest ^ (digest >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return np.asarray(digest ^ (digest >> np.uint64(29)))


def _is_remarkable(train: Dataset, learnt: Array, shared: Array) -> bool:
    """Return whether chance does not explain shared samples; `train` are some samples of the training split."""
    if _expected_twins(train, len(learnt)) < _COARSE:
        return True
    _, counts = np.unique(learnt, return_counts=True)
    usual = max(int(counts[counts > 1].sum()), 1) / len(learnt)
    return bool(shared.mean() > usual + 3 * math.sqrt(usual * (1 - usual) / len(shared)))


def _expected_twins(train: Dataset, learnt: int) -> float:
    """Return how many of the training samples equal a sample by chance, if its columns were independent."""
    expected = float(learnt)
    for array in train.inputs.values():
        rows = np.asarray(array).reshape(len(train), -1)
        for column in np.random.default_rng(0).permutation(rows.shape[1]):
            _, counts = np.unique(rows[:, column], return_counts=True)
            expected *= float(np.square(counts / len(train)).sum())
            if expected < _COARSE:
                return expected
    return expected
